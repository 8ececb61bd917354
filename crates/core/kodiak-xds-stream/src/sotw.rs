//! The state-of-the-world protocol for one type: a request lists all resources that the client wants, with the last
//! nonce.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#basic-protocol-overview>
//!
//! Responses of clusters and listeners hold the full set, so that omitting one removes it ([`whole`]). Those of the
//! other types hold what is new to the client, as the protocol allows, and cannot remove anything ([`named`]).

mod named;
#[cfg(test)]
mod tests;
mod whole;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::flight::Flight;
use crate::gate::Gate;
use crate::message::Nonce;
use crate::resource::{Resources, Version};
use crate::subscription::{Answer, Draft, Held, Part, WILDCARD};
use crate::type_url::TypeUrl;

use named::NamedResources;
use whole::Whole;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    pub names: Vec<Arc<str>>,
    /// The last version that the client accepted; `None` when there is none, or it is foreign.
    pub version: Option<Version>,
    pub nonce: Option<Nonce>,
    pub error: Option<Arc<str>>,
}

#[derive(Debug)]
pub struct Subscription {
    type_url: TypeUrl,
    active: bool,
    /// Whether the client ever sent names: from then on an empty list means nothing, not everything.
    gave_names: bool,
    interest: Interest,
    contents: Contents,
    /// The client rejected the last full set, so its state is unknown.
    rejecting: bool,
    /// Version of the last response.
    version: Option<Version>,
    flight: Flight,
}

/// Names that the client requested, and whether it waits for them.
#[derive(Debug, Default)]
struct Interest {
    wildcard: bool,
    names: BTreeSet<Arc<str>>,
    /// The client waits for all resources of the type, even if there are none.
    owes_all: bool,
    /// Version that the client has from an earlier stream; until it was compared.
    resumes: Option<Version>,
}

#[derive(Debug)]
enum Contents {
    Whole(Whole),
    NamedResources(NamedResources),
}

impl crate::subscription::Subscription for Subscription {
    type Request = Request;

    fn new(type_url: TypeUrl) -> Self {
        let contents = if type_url.is_whole() {
            Contents::Whole(Whole::default())
        } else {
            Contents::NamedResources(NamedResources::default())
        };
        Self {
            type_url,
            active: false,
            gave_names: false,
            interest: Interest::default(),
            contents,
            rejecting: false,
            version: None,
            flight: Flight::default(),
        }
    }

    fn request(&mut self, request: Request, target: Option<&Resources>) -> Answer {
        // Without a nonce the client starts (again), whatever was sent before. Only one that resumed, and was sent
        // nothing because it was up to date, has no nonce to continue with.
        let resumed = self.flight.last().is_none() && request.version.is_some();
        let begins = !std::mem::replace(&mut self.active, true) || (request.nonce.is_none() && !resumed);
        if !begins && request.nonce != self.flight.last() {
            // It answers an older response; its answer to the last one is in flight, with the same names or newer.
            return Answer::None;
        }
        let accepts = request.error.is_some() || request.version == self.version;
        let error = request.error.or_else(|| (!accepts).then(|| "rejected without a message".into()));
        let answer = self.flight.answer(request.nonce, error);
        match answer {
            Answer::None => (),
            Answer::Acknowledged { .. } => self.rejecting = false,
            Answer::Rejected { .. } => self.rejecting = true,
        }
        if begins {
            self.interest = Interest::default();
            self.contents.clear();
        }
        self.ask(request.names, target);
        if begins {
            self.contents.owe_none();
            self.interest.resumes = request.version;
            self.interest.owes_all = request.version.is_none();
        }
        answer
    }

    fn is_active(&self) -> bool {
        self.active
    }

    fn requests(&self, name: &str) -> bool {
        self.interest.wildcard || self.interest.names.contains(name)
    }

    fn names(&self) -> usize {
        let owed = match &self.contents {
            Contents::Whole(_) => 0,
            Contents::NamedResources(named) => named.owed_names(),
        };
        self.interest.names.len() + owed
    }

    fn is_waiting(&self) -> bool {
        self.flight.is_waiting()
    }

    fn awaits(&self, name: &str) -> bool {
        self.flight.awaits(name)
    }

    fn is_answered(&self, nonce: Nonce) -> bool {
        self.flight.is_answered(nonce)
    }

    fn owes(&self) -> bool {
        let owes_names = match &self.contents {
            Contents::Whole(_) => false,
            Contents::NamedResources(named) => named.owed_names() > 0,
        };
        owes_names || self.interest.owes_all || self.interest.resumes.is_some()
    }

    fn differing<'a>(&'a self, target: &'a Resources) -> Box<dyn Iterator<Item = &'a Arc<str>> + 'a> {
        if self.has_all(target) {
            return Box::new(std::iter::empty());
        }
        match &self.contents {
            Contents::Whole(whole) => Box::new(whole.differing(&self.interest, target)),
            Contents::NamedResources(named) => Box::new(named.differing(&self.interest, target)),
        }
    }

    fn held(&self, name: &str) -> Held {
        match &self.contents {
            // Until it was compared, nothing is known of the set that a resuming client has.
            Contents::Whole(_) if self.interest.resumes.is_some() => Held::Foreign,
            Contents::Whole(whole) => whole.held(name),
            Contents::NamedResources(named) => named.held(name),
        }
    }

    fn take(&mut self, part: Part<'_>, target: &Resources) -> Option<Draft> {
        if !self.active {
            return None;
        }
        let has_all = self.has_all(target);
        if let (true, Contents::Whole(whole)) = (has_all, &mut self.contents) {
            whole.settle(self.interest.of(target));
            self.interest.resumes = None;
        }
        if self.must_wait(part) {
            return None;
        }
        let gate = self.gate(part);
        let draft = self.plan(gate, target);
        match &mut self.contents {
            Contents::Whole(whole) if draft.is_some() => {
                whole.settle(whole.wanted(&self.interest, target, gate));
            }
            Contents::Whole(_) => (),
            Contents::NamedResources(named) => named.sent(&self.interest, target, gate),
        }
        if gate.is_open() {
            self.interest.owes_all = false;
            self.interest.resumes = None;
        }
        let mut draft = draft?;
        let version = match &self.contents {
            Contents::Whole(whole) => whole.version(),
            Contents::NamedResources(named) => named.version(&self.interest),
        };
        self.version = Some(version);
        draft.version = self.version;
        Some(draft)
    }

    fn resend(&mut self, names: &[Arc<str>], target: &Resources) {
        if let Contents::NamedResources(named) = &mut self.contents {
            let theirs = names.iter().filter(|name| self.interest.covers(name) && target.contains_key(*name));
            named.owe(theirs.cloned());
        }
    }

    fn sent(&mut self, nonce: Nonce, changed: Vec<Arc<str>>) {
        self.flight.sent(nonce, changed);
    }

    fn refuse(request: &Request) -> Option<Draft> {
        let nothing = Version::of_set([]);
        request.nonce.is_none().then(|| Draft { version: Some(nothing), ..Draft::default() })
    }
}

impl Subscription {
    fn ask(&mut self, names: Vec<Arc<str>>, target: Option<&Resources>) {
        self.gave_names |= !names.is_empty();
        let all = (self.type_url.is_whole() && !self.gave_names) || names.iter().any(|name| **name == *WILDCARD);
        let single = names.into_iter().filter(|name| **name != *WILDCARD);
        // The snapshot's copy of a name is shared by all streams.
        let shared = |name: Arc<str>| {
            target.and_then(|target| target.get_key_value(&name)).map_or(name, |(shared, _)| shared.clone())
        };
        let asked: BTreeSet<_> = single.map(shared).collect();
        let added: Vec<_> = asked.difference(&self.interest.names).cloned().collect();
        let widened = all && !self.interest.wildcard;
        self.interest.wildcard = all;
        self.interest.names = asked;
        match &mut self.contents {
            Contents::Whole(whole) => {
                let narrowed = whole.narrow(&self.interest);
                self.interest.owes_all |= widened || !added.is_empty() || (narrowed && self.rejecting);
            }
            Contents::NamedResources(rest) => {
                self.interest.owes_all |= widened;
                if widened {
                    rest.clear();
                }
                rest.subscribe(added);
            }
        }
    }

    /// Whether a resuming client is up to date. Its version is only trusted for full sets: a client that dropped a name
    /// and requests it again on a new stream still sends its earlier version. An empty set has one version for every
    /// request, and costs nothing to send.
    fn has_all(&self, target: &Resources) -> bool {
        let full = self.type_url.is_whole() && self.interest.wildcard && !target.is_empty();
        self.interest.resumes.is_some_and(|version| full && version == version_of(target))
    }

    /// A client that resumes a full set does not report its resources, so that whatever a response omits is removed. The
    /// set is sent when none of it waits.
    fn must_wait(&self, part: Part<'_>) -> bool {
        let waits = match part {
            Part::Owed => true,
            Part::AllBut(names) => !names.is_empty(),
        };
        waits && self.type_url.is_whole() && self.interest.resumes.is_some() && !self.interest.owes_all
    }

    fn gate<'a>(&self, part: Part<'a>) -> Gate<'a> {
        Gate { part, owes_all: self.interest.owes_all, type_url: self.type_url }
    }

    fn plan(&self, gate: Gate<'_>, target: &Resources) -> Option<Draft> {
        if !gate.is_open() {
            return match &self.contents {
                Contents::Whole(_) => None,
                Contents::NamedResources(named) => named.owed(target),
            };
        }
        let must = gate.owes_all || self.interest.resumes.is_some();
        match &self.contents {
            Contents::Whole(whole) => whole.plan(&self.interest, target, gate, must),
            Contents::NamedResources(named) => named.plan(&self.interest, target, gate, must),
        }
    }
}

impl Interest {
    fn covers(&self, name: &Arc<str>) -> bool {
        self.wildcard || self.names.contains(name)
    }

    /// The part of `target` that the client requested.
    fn of(&self, target: &Resources) -> Resources {
        if self.wildcard {
            return target.clone();
        }
        let entry =
            |name: &Arc<str>| target.get_key_value(name).map(|(name, resource)| (name.clone(), resource.clone()));
        self.names.iter().filter_map(entry).collect()
    }
}

fn version_of(set: &Resources) -> Version {
    Version::of_set(set.iter().map(|(name, resource)| (&**name, resource.version)))
}

impl Contents {
    fn clear(&mut self) {
        match self {
            Self::Whole(whole) => *whole = Whole::default(),
            Self::NamedResources(named) => named.clear(),
        }
    }

    /// A first request is answered as a whole, not name by name.
    fn owe_none(&mut self) {
        match self {
            Self::Whole(_) => (),
            Self::NamedResources(named) => named.owe_none(),
        }
    }
}

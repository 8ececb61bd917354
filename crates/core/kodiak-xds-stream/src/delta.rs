//! The incremental protocol for one type: only changes are sent, and removals are explicit.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#incremental-xds>
//!
//! A client may reject a response and still apply the valid resources in it (Envoy does). So a rejected version is
//! never sent again unasked, and the next version of each resource is sent when there is one, even if it equals an
//! earlier one.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::flight::Flight;
use crate::gate::Gate;
use crate::ledger::Ledger;
use crate::message::Nonce;
use crate::resource::{Resources, Version};
use crate::subscription::{Answer, Draft, Held, Part, Subscription as _, WILDCARD};
use crate::type_url::TypeUrl;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    pub subscribe: Vec<Arc<str>>,
    pub unsubscribe: Vec<Arc<str>>,
    /// Resources that the client has from an earlier stream; `None` is a foreign version. Only read in the first
    /// request of a type.
    pub initial: Vec<(Arc<str>, Option<Version>)>,
    pub nonce: Option<Nonce>,
    pub error: Option<Arc<str>>,
}

#[derive(Debug)]
pub struct Subscription {
    type_url: TypeUrl,
    active: bool,
    wildcard: bool,
    names: BTreeSet<Arc<str>>,
    ledger: Ledger,
    /// Names that must be answered even if unchanged.
    owed: BTreeSet<Arc<str>>,
    /// The client waits for all resources of the type, even if there are none.
    owes_all: bool,
    flight: Flight,
}

impl crate::subscription::Subscription for Subscription {
    type Request = Request;

    fn new(type_url: TypeUrl) -> Self {
        Self {
            type_url,
            active: false,
            wildcard: false,
            names: BTreeSet::new(),
            ledger: Ledger::default(),
            owed: BTreeSet::new(),
            owes_all: false,
            flight: Flight::default(),
        }
    }

    fn request(&mut self, request: Request, target: Option<&Resources>) -> Answer {
        let first = !std::mem::replace(&mut self.active, true);
        // A stale nonce makes the ACK stale, but the names in the same request still apply: they are changes that the
        // client does not repeat.
        let answer = self.flight.answer(request.nonce, request.error);
        let resumes = first && !request.initial.is_empty();
        if first {
            self.start(&request.subscribe, request.initial);
        }
        for name in request.subscribe {
            self.subscribe(name, resumes, target);
        }
        for name in request.unsubscribe {
            self.unsubscribe(&name);
        }
        answer
    }

    fn is_active(&self) -> bool {
        self.active
    }

    fn requests(&self, name: &str) -> bool {
        self.wildcard || self.names.contains(name)
    }

    fn names(&self) -> usize {
        self.names.len() + self.owed.len()
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
        self.owes_all || !self.owed.is_empty()
    }

    fn differing<'a>(&'a self, target: &'a Resources) -> Box<dyn Iterator<Item = &'a Arc<str>> + 'a> {
        let differs = |name: &&'a Arc<str>| match (self.ledger.held(name), target.get(*name)) {
            (held, Some(resource)) => held.version() != Some(resource.version),
            (held, None) => held != Held::Nothing,
        };
        let asked = self.ledger.candidates(target).filter(|name| self.has_asked_for(name));
        Box::new(asked.filter(differs))
    }

    fn held(&self, name: &str) -> Held {
        self.ledger.held(name)
    }

    fn take(&mut self, part: Part<'_>, target: &Resources) -> Option<Draft> {
        if !self.active {
            return None;
        }
        let gate = self.gate(part);
        let draft = self.plan(gate, target);
        if gate.is_open() {
            let left = self.differing(target).filter(|name| !gate.passes(name, target) && !self.owed.contains(*name));
            let left = left.map(|name| (name.clone(), self.ledger.held(name))).collect();
            self.ledger.settle(target, left);
            self.owed.clear();
            self.owes_all = false;
        } else {
            for name in std::mem::take(&mut self.owed) {
                let held = target.get(&name).cloned().map_or(Held::Nothing, Held::Sent);
                self.ledger.note(name, held);
            }
        }
        draft
    }

    fn resend(&mut self, names: &[Arc<str>], target: &Resources) {
        let theirs = names.iter().filter(|name| self.has_asked_for(name) && target.contains_key(*name));
        let again: Vec<_> = theirs.cloned().collect();
        self.owed.extend(again);
    }

    fn sent(&mut self, nonce: Nonce, changed: Vec<Arc<str>>) {
        self.flight.sent(nonce, changed);
    }

    fn refuse(request: &Request) -> Option<Draft> {
        let waits = request.nonce.is_none() || !request.subscribe.is_empty();
        let removed = request.subscribe.iter().filter(|name| ***name != *WILDCARD).cloned().collect();
        waits.then(|| Draft { removed, ..Draft::default() })
    }
}

impl Subscription {
    fn start(&mut self, subscribe: &[Arc<str>], initial: Vec<(Arc<str>, Option<Version>)>) {
        self.wildcard = subscribe.is_empty() && self.type_url.is_whole();
        // Without names nothing else would answer this request.
        self.owes_all = subscribe.is_empty() && initial.is_empty();
        for (name, version) in initial {
            self.ledger.note(name, version.map_or(Held::Foreign, Held::Reported));
        }
    }

    /// The server must answer every name in a subscribe, even one that it has sent before: the client may have
    /// dropped it and subscribed again in the meantime. A resuming client lists its resources in the same request.
    fn subscribe(&mut self, name: Arc<str>, resumes: bool, target: Option<&Resources>) {
        if *name == *WILDCARD {
            if !resumes {
                self.ledger.forget(target.unwrap_or(&Resources::default()));
                self.owes_all = true;
            }
            self.wildcard = true;
            return;
        }
        // The snapshot's copy of the name is shared by all streams.
        let name = target.and_then(|target| target.get_key_value(&name)).map_or(name, |(shared, _)| shared.clone());
        if !resumes || self.ledger.held(&name) == Held::Nothing {
            self.ledger.note(name.clone(), Held::Nothing);
            self.owed.insert(name.clone());
        }
        self.names.insert(name);
    }

    fn unsubscribe(&mut self, name: &Arc<str>) {
        if **name == *WILDCARD {
            self.wildcard = false;
            self.owed.retain(|name| self.names.contains(name));
        } else {
            self.names.remove(name);
            self.owed.remove(name);
            if self.wildcard {
                // The client cannot know whether the wildcard covers the name, so it gets an answer.
                self.owed.insert(name.clone());
            }
        }
    }

    fn has_asked_for(&self, name: &Arc<str>) -> bool {
        self.wildcard || self.names.contains(name)
    }

    fn gate<'a>(&self, part: Part<'a>) -> Gate<'a> {
        Gate { part, owes_all: self.owes_all, type_url: self.type_url }
    }

    fn plan(&self, gate: Gate<'_>, target: &Resources) -> Option<Draft> {
        let differing = gate.is_open().then(|| self.differing(target)).into_iter().flatten();
        let sendable = differing.filter(|name| gate.passes(name, target));
        // Both are sorted, or nearly so: sorting the list costs less than a set.
        let mut names: Vec<&Arc<str>> = self.owed.iter().chain(sendable).collect();
        names.sort();
        names.dedup();
        let mut draft = Draft::default();
        for name in names {
            let Some(resource) = target.get(name) else {
                draft.removed.push(name.clone());
                continue;
            };
            if self.ledger.held(name).version() != Some(resource.version) {
                draft.changed.push(name.clone());
            }
            draft.resources.push(resource.clone());
        }
        let empty = draft.resources.is_empty() && draft.removed.is_empty();
        (!empty || self.owes_all).then_some(draft)
    }
}

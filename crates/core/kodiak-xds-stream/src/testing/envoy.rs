//! A model of Envoy: it has all clusters and listeners, requests what these refer to, and answers late.
//!
//! It asserts that no listener loses a cluster, also not while connections of a replaced listener drain, that a changed
//! listener finds its clusters answered, and that nothing waits for what it does not refer to.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::model::POISON;
use super::{CDS, EDS, LDS, SDS};
use crate::message::{Nonce, Response};
use crate::resource::{Encoded, Resources, Snapshot, Version};
use crate::stream::{Event, Stream};
use crate::subscription::Subscription;
use crate::type_url::{Requested, TypeUrl};
use crate::{delta, sotw};

/// Time for which connections stay on replaced listeners, and the time that the carrier gives them.
const DRAINS_FOR: u64 = 30;
pub(super) const GIVES: u64 = 35;

type Names = BTreeSet<Arc<str>>;

/// Request of a client for one type.
pub(super) struct Ask<'a> {
    /// Empty for all.
    names: &'a Names,
    added: Vec<Arc<str>>,
    dropped: Vec<Arc<str>>,
    version: Option<Version>,
    nonce: Option<Nonce>,
    error: Option<Arc<str>>,
}

pub(super) trait Client: Subscription {
    /// Whether a request with other names also answers the last response.
    const ANSWERS_ALWAYS: bool;

    fn ask(ask: Ask<'_>) -> Self::Request;
}

impl Client for delta::Subscription {
    const ANSWERS_ALWAYS: bool = false;

    fn ask(ask: Ask<'_>) -> delta::Request {
        let Ask { added: subscribe, dropped: unsubscribe, nonce, error, .. } = ask;
        delta::Request { subscribe, unsubscribe, initial: Vec::new(), nonce, error }
    }
}

impl Client for sotw::Subscription {
    const ANSWERS_ALWAYS: bool = true;

    fn ask(ask: Ask<'_>) -> sotw::Request {
        let Ask { names, version, nonce, error, .. } = ask;
        sotw::Request { names: names.iter().cloned().collect(), version, nonce, error }
    }
}

/// A response that was read and not answered.
struct Unanswered {
    nonce: Nonce,
    version: Option<Version>,
    error: Option<Arc<str>>,
    changed: Names,
}

/// One type at the client.
#[derive(Default)]
struct Of {
    holds: BTreeMap<Arc<str>, Arc<Encoded>>,
    names: Names,
    unanswered: VecDeque<Unanswered>,
    version: Option<Version>,
    nonce: Option<Nonce>,
}

pub(super) struct Envoy<S: Subscription> {
    stream: Stream<S>,
    snapshot: Arc<Snapshot>,
    unread: VecDeque<Response>,
    of: [Of; TypeUrl::COUNT],
    /// Clusters of which it ever rejected a version, alone or in a full set.
    rejected: Names,
    /// Replaced listeners, and until when their connections stay.
    draining: Vec<(u64, Arc<Encoded>)>,
    now: u64,
    drains: VecDeque<(u64, u64)>,
    begun: u64,
}

impl<S: Client> Envoy<S> {
    /// Has all of the snapshot.
    pub(super) fn with(snapshot: Arc<Snapshot>) -> Self {
        let mut envoy = Self {
            stream: Stream::draining(),
            snapshot: Arc::default(),
            unread: VecDeque::new(),
            of: Default::default(),
            rejected: Names::new(),
            draining: Vec::new(),
            now: 0,
            drains: VecDeque::new(),
            begun: 0,
        };
        envoy.snapshot(snapshot);
        for type_url in [CDS, LDS] {
            envoy.request(type_url, None, (Vec::new(), Vec::new()));
            envoy.settle();
        }
        envoy
    }

    pub(super) fn snapshot(&mut self, snapshot: Arc<Snapshot>) {
        self.snapshot = snapshot.clone();
        self.on(Event::Snapshot(snapshot));
    }

    pub(super) fn holds(&self, type_url: TypeUrl, name: &str) -> bool {
        self.of[type_url.index()].holds.contains_key(name)
    }

    /// Versions of all resources of a type.
    pub(super) fn versions(&self, type_url: TypeUrl) -> BTreeMap<Arc<str>, Version> {
        self.of[type_url.index()].holds.iter().map(|(name, resource)| (name.clone(), resource.version)).collect()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.stream.is_settled()
    }

    /// Reads and answers everything.
    pub(super) fn settle(&mut self) {
        while self.read() || TypeUrl::ALL.into_iter().any(|each| self.answer(each)) {}
    }

    pub(super) fn wait(&mut self, time: u64) {
        let end = self.now + time;
        while let Some((drain, at)) = self.drains.front().copied().filter(|(_, at)| *at <= end) {
            self.drains.pop_front();
            self.now = at;
            self.on(Event::Drained(drain));
        }
        self.now = end;
    }

    /// Reads one response. Returns whether there was one.
    pub(super) fn read(&mut self) -> bool {
        let Some(response) = self.unread.pop_front() else { return false };
        let Requested::Served(type_url) = response.type_url else { unreachable!("we ask for known types") };
        let before = self.of[type_url.index()].holds.clone();
        let error = self.apply(type_url, &response);
        let of = &self.of[type_url.index()];
        let changed = of.holds.iter().filter(|(name, resource)| before.get(*name) != Some(resource));
        let changed: Names = changed.map(|(name, _)| name.clone()).collect();
        if type_url == LDS {
            self.replace_listeners(&before, &changed);
        }
        let Response { nonce, version, .. } = response;
        self.of[type_url.index()].unanswered.push_back(Unanswered { nonce, version, error, changed });
        self.check_listeners();
        if type_url == CDS {
            self.request_needs();
        }
        true
    }

    /// Answers the oldest response of a type. Returns whether there was one.
    pub(super) fn answer(&mut self, type_url: TypeUrl) -> bool {
        let Some((nonce, error)) = self.take_answer(type_url) else { return false };
        self.request(type_url, Some((nonce, error)), (Vec::new(), Vec::new()));
        true
    }

    fn take_answer(&mut self, type_url: TypeUrl) -> Option<(Nonce, Option<Arc<str>>)> {
        let of = &mut self.of[type_url.index()];
        let Unanswered { nonce, version, error, changed: _ } = of.unanswered.pop_front()?;
        of.nonce = Some(nonce);
        if error.is_none() {
            of.version = version;
        }
        Some((nonce, error))
    }

    fn apply(&mut self, type_url: TypeUrl, response: &Response) -> Option<Arc<str>> {
        let of = &mut self.of[type_url.index()];
        let is_full_set = response.version.is_some() && type_url.is_whole();
        let poisoned: Names =
            response.resources.iter().filter(|each| each.version == POISON).map(|each| each.name.clone()).collect();
        self.rejected.extend(poisoned.iter().cloned());
        if is_full_set && !poisoned.is_empty() {
            self.rejected.extend(response.resources.iter().map(|each| each.name.clone()));
            return Some("poison".into());
        }
        if is_full_set {
            of.holds.retain(|name, _| response.resources.iter().any(|each| each.name == *name));
        }
        for name in &response.removed {
            of.holds.remove(name);
        }
        for resource in response.resources.iter().filter(|each| !poisoned.contains(&each.name)) {
            of.holds.insert(resource.name.clone(), resource.clone());
        }
        (!poisoned.is_empty()).then(|| "poison".into())
    }

    /// A changed listener uses its clusters at once.
    fn replace_listeners(&mut self, before: &BTreeMap<Arc<str>, Arc<Encoded>>, changed: &Names) {
        let listeners = &self.of[LDS.index()].holds;
        let replaced = before.iter().filter(|(name, _)| changed.contains(*name) || !listeners.contains_key(*name));
        let until = self.now + DRAINS_FOR;
        self.draining.extend(replaced.map(|(_, listener)| (until, listener.clone())));
        let needs = changed.iter().flat_map(|name| &listeners[name].needs);
        for (_, cluster) in needs.filter(|(_, cluster)| !self.rejected.contains(cluster)) {
            for type_url in [CDS, EDS] {
                let mut unanswered = self.of[type_url.index()].unanswered.iter();
                assert!(!unanswered.any(|each| each.changed.contains(cluster)), "{cluster} is not answered");
            }
        }
    }

    fn check_listeners(&self) {
        let draining = self.draining.iter().filter(|(until, _)| self.now < *until).map(|(_, listener)| listener);
        for listener in self.of[LDS.index()].holds.values().chain(draining) {
            for (_, cluster) in &listener.needs {
                let known = self.holds(CDS, cluster) || self.rejected.contains(cluster);
                assert!(known, "{} uses {cluster}, which does not exist", listener.name);
            }
        }
    }

    /// Subscribes to endpoints and secrets of its clusters, and to no others.
    fn request_needs(&mut self) {
        for type_url in [EDS, SDS] {
            let needs = self.of[CDS.index()].holds.values().flat_map(|cluster| &cluster.needs);
            let wanted: Names = needs.filter(|(kind, _)| *kind == type_url).map(|(_, name)| name.clone()).collect();
            let of = &mut self.of[type_url.index()];
            let added: Vec<_> = wanted.difference(&of.names).cloned().collect();
            let dropped: Vec<_> = of.names.difference(&wanted).cloned().collect();
            of.holds.retain(|name, _| wanted.contains(name));
            of.names = wanted;
            if added.is_empty() && dropped.is_empty() {
                continue;
            }
            let mut answer = None;
            if S::ANSWERS_ALWAYS {
                answer = self.of[type_url.index()].nonce.map(|nonce| (nonce, None));
                while let Some(last) = self.take_answer(type_url) {
                    answer = Some(last);
                }
            }
            self.request(type_url, answer, (added, dropped));
        }
    }

    fn request(
        &mut self,
        type_url: TypeUrl,
        answer: Option<(Nonce, Option<Arc<str>>)>,
        (added, dropped): (Vec<Arc<str>>, Vec<Arc<str>>),
    ) {
        let of = &self.of[type_url.index()];
        let (nonce, error) = answer.map_or((None, None), |(nonce, error)| (Some(nonce), error));
        let request = S::ask(Ask { names: &of.names, added, dropped, version: of.version, nonce, error });
        self.on(Event::Request(Requested::Served(type_url), request));
    }

    fn on(&mut self, event: Event<S::Request>) {
        let responses = self.stream.on(event);
        self.unread.extend(responses);
        let begun = self.stream.drains();
        if begun > self.begun {
            self.begun = begun;
            self.drains.push_back((begun, self.now + GIVES));
        }
        self.check_nothing_waits();
    }

    /// Changed listeners and endpoints of clusters that are answered are on their way.
    fn check_nothing_waits(&self) {
        if S::ANSWERS_ALWAYS && !self.rejected.is_empty() {
            // A rejected full set leaves all clusters in versions that the server does not know.
            return;
        }
        let current = |type_url: TypeUrl, name: &Arc<str>| {
            let target = self.snapshot.of(type_url).get(name);
            let is_sent = |each: &Response| {
                let mut names = each.resources.iter().map(|resource| &resource.name).chain(&each.removed);
                let is_full_set = each.version.is_some() && type_url.is_whole();
                each.type_url == Requested::Served(type_url) && (is_full_set || names.any(|sent| sent == name))
            };
            let has_target = target == self.of[type_url.index()].holds.get(name);
            has_target && !self.unread.iter().any(is_sent) && !self.rejected.contains(name)
        };
        let is_answered = |type_url: TypeUrl, name: &Arc<str>| {
            let mut unanswered = self.of[type_url.index()].unanswered.iter();
            current(type_url, name) && !unanswered.any(|each| each.changed.contains(name))
        };
        // In the other protocol the server forgets endpoints whose cluster is gone, and sends them again with it.
        let remembers = !S::ANSWERS_ALWAYS || (self.is_idle(EDS) && self.is_idle(SDS));
        if self.is_idle(LDS) && remembers {
            for (name, listener) in self.snapshot.of(LDS) {
                let ready = listener.needs.iter().all(|(_, name)| is_answered(CDS, name) && is_answered(EDS, name));
                // New ones may wait for the address of a removed one.
                assert!(!ready || !self.holds(LDS, name) || current(LDS, name), "listener {name} waits without reason");
            }
        }
        if self.is_idle(EDS) {
            for (name, cluster) in self.snapshot.of(CDS).iter().filter(|(name, _)| current(CDS, name)) {
                let secrets = cluster.needs.iter().filter(|(kind, _)| *kind == SDS);
                let ready = secrets.into_iter().all(|(_, secret)| current(SDS, secret));
                let requested = self.of[EDS.index()].names.contains(name);
                assert!(!ready || !requested || current(EDS, name), "endpoints of {name} wait without reason");
            }
        }
    }

    /// Whether all responses of this type are read and answered.
    fn is_idle(&self, type_url: TypeUrl) -> bool {
        let unread = self.unread.iter().any(|each| each.type_url == Requested::Served(type_url));
        !unread && self.of[type_url.index()].unanswered.is_empty()
    }
}

/// Resources of a last snapshot that the client must have, and no others.
pub(super) fn expected(resources: &Resources) -> BTreeMap<Arc<str>, Version> {
    resources.iter().map(|(name, resource)| (name.clone(), resource.version)).collect()
}

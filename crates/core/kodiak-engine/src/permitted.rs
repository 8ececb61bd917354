//! Destinations that the proxies of a mesh may call.
//!
//! They follow from what each server may have in effect: the permissions that it acknowledged, and those that it was sent
//! since. A client keeps a destination while one of its servers may still admit it, and gets one once all servers have
//! acknowledged what they were sent. So nobody calls a server that does not allow it yet, and nobody loses a destination
//! that still answers.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use kodiak_reachability::{Admission, AnyOf, MeshGraph};
use kodiak_rules::Proxy;

use crate::{
    acknowledged::{AcknowledgedState, PermissionsToken},
    evidence::{Arrivals, Evidence},
    history::History,
    in_effect::{Certificates, InEffect, InboundKey, Inbounds, Moment, Origin},
    presence::Presence,
    target::Target,
};

/// After this time, clients get destinations that they may call now, also if a server has not acknowledged: one that
/// rejects its configuration must not keep them from all others. They never lose it because of this.
pub(crate) const LONGEST_WAIT: SignedDuration = SignedDuration::from_secs(10);

/// Fewer unused permissions than this are kept.
const SWEEP: usize = 64;

pub(crate) struct Permitted {
    graph: MeshGraph,
    /// Start of this control plane, or of the mode.
    since: Timestamp,
    proxies: BTreeMap<Arc<str>, InEffect>,
    presence: Presence,
    /// Destinations with servers that have not acknowledged their newest permissions.
    waiting: BTreeMap<Target, Waiting>,
    /// So that equal permissions are compared by pointer.
    interned: HashSet<Arc<AnyOf>>,
    /// Number of interned permissions at which unused ones are dropped.
    sweep_at: usize,
}

struct Waiting {
    servers: BTreeSet<Arc<str>>,
    /// Whether the passing of time matters: one of them was sent something less than the longest wait ago.
    is_timed: bool,
    /// Since when clients have it that no server may admit.
    lingers_since: Option<Timestamp>,
}

/// Consequences of a change.
#[derive(Default)]
pub(crate) struct Moved {
    /// Clients that may call other sets of destinations now.
    pub(crate) clients: BTreeSet<Arc<str>>,
    /// Destinations that are in another set now.
    pub(crate) targets: BTreeSet<Target>,
}

impl Permitted {
    pub(crate) fn new(mesh: Arc<str>, now: Timestamp) -> Self {
        Self {
            graph: MeshGraph::new(mesh),
            since: now,
            proxies: BTreeMap::new(),
            presence: Presence::default(),
            waiting: BTreeMap::new(),
            interned: HashSet::new(),
            sweep_at: 0,
        }
    }

    pub(crate) fn graph(&self) -> &MeshGraph {
        &self.graph
    }

    /// Token of the newest snapshot of a proxy. `None` for an unknown one.
    pub(crate) fn token(&self, name: &str) -> Option<PermissionsToken> {
        self.proxies.get(name).map(InEffect::token)
    }

    /// Admission of each inbound of a proxy by the current policies.
    pub(crate) fn inbounds_of(&mut self, proxy: &Proxy, from: Evidence<'_>) -> Inbounds {
        let all = from.inbounds(proxy).map(|(key, admission)| match admission {
            Admission::Open => (key, Admission::Open),
            Admission::By(all) => (key, Admission::By(all.into_iter().map(|one| self.intern(one)).collect())),
        });
        let all = all.collect();
        if self.interned.len() > self.sweep_at {
            self.interned.retain(|permissions| Arc::strong_count(permissions) > 1);
            self.sweep_at = SWEEP.max(2 * self.interned.len());
        }
        all
    }

    fn intern(&mut self, permissions: Arc<AnyOf>) -> Arc<AnyOf> {
        if let Some(known) = self.interned.get(&permissions) {
            return known.clone();
        }
        self.interned.insert(permissions.clone());
        permissions
    }

    /// The proxy is about to be sent what its inbounds admit now. `None`: its Dataplane was deleted. `is_touched`: a policy or
    /// its Dataplane changed. Returns whether destinations that it serves must be refreshed.
    pub(crate) fn set_server(
        &mut self,
        name: &Arc<str>,
        inbounds: Option<Inbounds>,
        is_touched: bool,
        origin: Origin,
        at: Moment,
    ) -> bool {
        let Some(inbounds) = inbounds else {
            self.presence.remove(name);
            return self.proxies.remove(name).is_some();
        };
        let has_changed_connection = self.presence.set(name, origin.is_online(), origin.state.left, at.now);
        let may_run = self.presence.may_run(name);
        match self.proxies.get_mut(name) {
            Some(known) => {
                let waits = known.inbounds.waits_since().is_some();
                known.set_inbounds(inbounds, may_run, is_touched, at) || has_changed_connection && waits
            }
            None => self.proxies.insert(name.clone(), InEffect::new(inbounds, origin, may_run, at)).is_none(),
        }
    }

    /// Proxies that are not waited for any longer: those that are not connected will have the newest permissions when they
    /// come back. Destinations that they serve must be refreshed.
    pub(crate) fn give_up(&mut self, now: Timestamp) -> Vec<Arc<str>> {
        let mut expired = self.presence.expire(now);
        expired.retain(|name| self.proxies.get_mut(name).is_some_and(|proxy| proxy.inbounds.settle()));
        expired
    }

    /// Certificates of a proxy that is connected here.
    pub(crate) fn set_certificates(
        &mut self,
        name: &str,
        certificates: Certificates,
        state: AcknowledgedState,
        at: Moment,
    ) {
        if let Some(proxy) = self.proxies.get_mut(name) {
            proxy.set_certificates(certificates, state, at);
        }
    }

    /// Whether its destinations are limited. Otherwise it may call everything, or is gone.
    pub(crate) fn set_client(&mut self, name: &Arc<str>, is_limited: bool) {
        let proxy = self.proxies.get(name).filter(|_| is_limited);
        let certificates = proxy.and_then(InEffect::certificates);
        self.graph.set_client(name, certificates.as_deref());
    }

    /// Returns whether destinations that the proxy serves must be refreshed, and whether its certificates may be others.
    pub(crate) fn acknowledge(&mut self, name: &str, token: PermissionsToken, now: Timestamp) -> (bool, bool) {
        self.proxies.get_mut(name).map_or((false, false), |proxy| proxy.acknowledge(token, now))
    }

    /// Whether other servers of the destination are still expected to acknowledge. Until then, nothing changes.
    pub(crate) fn is_waiting_without(&mut self, target: &Target, server: &str, now: Timestamp) -> bool {
        let Self { proxies, presence, waiting, .. } = self;
        let Some(waiting) = waiting.get_mut(target) else { return false };
        if proxies.get(server).is_some_and(|proxy| proxy.inbounds.waits_since().is_none()) {
            waiting.servers.remove(server);
        }
        waiting.servers.iter().any(|server| is_timely(proxies, presence, server, now))
    }

    /// Destinations for which the passing of time matters.
    pub(crate) fn timed(&self) -> impl Iterator<Item = &Target> {
        self.waiting.iter().filter(|(_, waiting)| waiting.is_timed).map(|(target, _)| target)
    }

    /// Computes destinations again.
    pub(crate) fn refresh(&mut self, targets: BTreeSet<Target>, from: Evidence<'_>, now: Timestamp, moved: &mut Moved) {
        for target in targets {
            let Some(arrivals) = from.arrivals(&target) else {
                self.waiting.remove(&target);
                self.set(&target, None, moved);
                continue;
            };
            let admission = self.shown(&target, &arrivals, from, now);
            self.set(&target, Some(&admission), moved);
        }
    }

    /// Callers that have the destination.
    fn shown(&mut self, target: &Target, arrivals: &Arrivals<'_>, from: Evidence<'_>, now: Timestamp) -> Admission {
        let others = || arrivals.others.iter().cloned();
        let of_each = |select: &dyn Fn(&History<Inbounds>) -> Vec<Option<Inbounds>>| {
            let mut all = Vec::new();
            for (server, position) in &arrivals.inbounds {
                let (Some(proxy), Some(key)) = (self.proxies.get(*server), from.key(server, *position)) else {
                    continue;
                };
                all.extend(select(&proxy.inbounds).into_iter().map(|version| at(version.as_ref(), &key)));
            }
            Admission::any(others().chain(all))
        };
        let possible = of_each(&|history| history.possible().map(Option::<&Inbounds>::cloned).collect());
        let servers: BTreeSet<&str> = arrivals.inbounds.iter().map(|(server, _)| *server).collect();
        let of = |server: &&str| self.proxies.get(*server).map(|proxy| &proxy.inbounds);
        let servers: BTreeSet<&str> =
            servers.into_iter().filter(|server| of(server).is_some_and(is_unsettled)).collect();
        let is_timed =
            servers.iter().filter_map(of).any(|inbounds| inbounds.has_unacknowledged_after(now - LONGEST_WAIT));
        let is_timely = servers.iter().any(|server| is_timely(&self.proxies, &self.presence, server, now));
        let mut shown = possible.clone();
        let mut lingers_since = None;
        if is_timed {
            let head = |history: &History<Inbounds>| history.head().map(Option::<&Inbounds>::cloned).collect();
            let before = self.graph.admission(target);
            // While this control plane starts, clients may have it already.
            let is_starting = now.duration_since(self.since) < LONGEST_WAIT;
            let before = before.unwrap_or_else(|| if is_starting { of_each(&head) } else { Admission::By(Vec::new()) });
            let old =
                of_each(&|history| history.older_than(LONGEST_WAIT, now).map(Option::<&Inbounds>::cloned).collect());
            // Nobody is expected to acknowledge in time, so what others acknowledged counts.
            let acknowledged = (!is_timely).then(|| of_each(&head));
            let kept = Admission::any([before, old].into_iter().chain(acknowledged));
            let known = self.waiting.get(target).and_then(|waiting| waiting.lingers_since);
            lingers_since = (!covers(&possible, &kept)).then(|| known.unwrap_or(now));
            // Too long: what no server may admit is lost, and what one may admit is not.
            lingers_since = lingers_since.filter(|since| now.duration_since(*since) < LONGEST_WAIT);
            if covers(&possible, &kept) || lingers_since.is_some() {
                shown = kept;
            }
        }
        let servers: BTreeSet<Arc<str>> = servers.into_iter().map(Arc::from).collect();
        self.waiting.remove(target);
        if !servers.is_empty() {
            self.waiting.insert(target.clone(), Waiting { servers, is_timed, lingers_since });
        }
        shown
    }

    fn set(&mut self, target: &Target, admission: Option<&Admission>, moved: &mut Moved) {
        let before = self.graph.set_of(target);
        let effect = self.graph.set_destination(target, admission);
        moved.clients.extend(self.graph.clients(&effect.regrouped).into_iter().cloned());
        if self.graph.set_of(target) != before {
            moved.targets.insert(target.clone());
        }
    }
}

fn is_unsettled(inbounds: &History<Inbounds>) -> bool {
    inbounds.waits_since().is_some()
}

/// Whether a server may acknowledge before the longest wait ends. One that is not connected cannot.
fn is_timely(proxies: &BTreeMap<Arc<str>, InEffect>, presence: &Presence, server: &str, now: Timestamp) -> bool {
    let since = proxies.get(server).and_then(|proxy| proxy.inbounds.waits_since());
    presence.is_online(server) && since.is_some_and(|since| now.duration_since(since) < LONGEST_WAIT)
}

/// Admission of an inbound by a version of a proxy. What is unknown admits everybody.
fn at(version: Option<&Inbounds>, key: &InboundKey) -> Admission {
    let Some(inbounds) = version else { return Admission::Open };
    let known = inbounds.iter().find(|(known, _)| known == key);
    known.map_or(Admission::By(Vec::new()), |(_, admission)| admission.clone())
}

/// Whether one admission contains the permissions of the other.
fn covers(all: &Admission, some: &Admission) -> bool {
    match (all, some) {
        (Admission::Open, _) => true,
        (Admission::By(_), Admission::Open) => false,
        (Admission::By(all), Admission::By(some)) => some.iter().all(|permissions| all.contains(permissions)),
    }
}

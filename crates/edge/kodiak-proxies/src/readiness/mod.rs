//! The one owner of inbound readiness: `state` and `health` of the inbounds of stored Dataplanes.
//!
//! Registration, drain and health checks do not write these fields. They report what they observed to
//! [`InboundReadiness`], which keeps the causes of each proxy (`causes`), decides from them, and writes the decision by
//! compare-and-swap on the record that it read. After a conflict it applies the decision to the new record, so a
//! concurrent write of the same Dataplane is never undone. See ADR 014.
//!
//! - `registration` decides for a Dataplane that a proxy registers, which the catalog writes.
//! - `drain` writes at once, because the proxy waits for the answer.
//! - `round` writes everything else, batched.
//!
//! **Invariant:** nothing else in this crate changes `state` or `health` of an inbound.
//! **Invariant:** every write expects the version of the record that the decision was made on.
//! **Invariant:** the lock is held only to read or change causes, never while a Dataplane is decoded or written.

mod causes;
mod drain;
mod registration;
mod round;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
};

use causes::{Cause, Causes, Ending, Hold, Probes};
use kodiak_model::{
    ProxyKey,
    kinds::dataplane::{Dataplane, DataplaneStatus, Inbound},
};
use kodiak_store::Store;
use kodiak_xds::health::Findings;
use tokio::sync::Notify;

use crate::stored;

pub(crate) use drain::DrainError;
pub(crate) use registration::Registration;

pub(crate) struct InboundReadiness {
    store: Store,
    /// Whether proxies run the health checks of their workloads. Without them a `serviceProbe` has no effect.
    probing: bool,
    proxies: Mutex<BTreeMap<ProxyKey, Causes>>,
    /// Wakes the round before its next tick.
    due: Notify,
}

impl InboundReadiness {
    pub(crate) fn new(store: Store, probing: bool) -> Self {
        Self { store, probing, proxies: Mutex::default(), due: Notify::new() }
    }

    /// The proxy has a new ADS stream. Inbounds that are held back stay so until it acknowledges on this stream. A process
    /// that ends stays NotReady: Envoy connects again until the end, for example when the control plane was restarted.
    pub(crate) fn connected(&self, key: &ProxyKey, stream: u64) {
        let snapshot = self.store.snapshot();
        let status = stored::dataplane_status(&snapshot, key);
        let mut proxies = self.proxies();
        let ending = self.ending(&status);
        let Some(hold) = proxies.get_mut(key).and_then(|causes| causes.hold.as_mut()) else {
            if let Some(hold) = Hold::stored(&status, ending, stream, snapshot.revision()) {
                proxies.entry(key.clone()).or_default().hold = Some(hold);
            }
            return;
        };
        match hold.cause {
            Cause::Arriving { stream: Some(newer) } if newer > stream => (),
            Cause::Ending(_) if ending.is_some() => (),
            Cause::Arriving { .. } | Cause::Ending(_) => hold.cause = Cause::Arriving { stream: Some(stream) },
            Cause::Arrived => (),
        }
    }

    /// Whether the process of the proxy is about to end, according to the status of its Dataplane. Without health checks
    /// nobody would notice that Envoy is live again.
    fn ending(&self, status: &DataplaneStatus) -> Option<Ending> {
        match (status.draining, status.not_live && self.probing) {
            (true, _) => Some(Ending::Draining),
            (false, true) => Some(Ending::NotLive),
            (false, false) => None,
        }
    }

    /// The proxy has acknowledged all of its configuration on this stream, so its listeners accept connections.
    pub(crate) fn acknowledged(&self, key: &ProxyKey, stream: u64) {
        let mut proxies = self.proxies();
        let Some(causes) = proxies.get_mut(key) else { return };
        let Some(hold) = &mut causes.hold else { return };
        if hold.cause == (Cause::Arriving { stream: Some(stream) }) {
            hold.cause = Cause::Arrived;
            causes.due = true;
            self.due.notify_one();
        }
    }

    /// The proxy has a new stream of health checks, which has reported nothing yet.
    pub(crate) fn probes_opened(&self, key: &ProxyKey, stream: u64) {
        let mut proxies = self.proxies();
        let probes = &mut proxies.entry(key.clone()).or_default().probes;
        if probes.as_ref().is_none_or(|known| known.stream < stream) {
            *probes = Some(Probes::new(stream));
        }
    }

    pub(crate) fn probes_closed(&self, key: &ProxyKey, stream: u64) {
        if let Entry::Occupied(mut entry) = self.proxies().entry(key.clone()) {
            entry.get_mut().probes.take_if(|known| known.stream == stream);
            remove_if_empty(entry);
        }
    }

    /// Results of health checks. A report that equals the last one costs nothing more.
    pub(crate) fn probed(&self, key: &ProxyKey, stream: u64, findings: Findings) {
        let mut proxies = self.proxies();
        let Some(causes) = proxies.get_mut(key) else { return };
        let Some(probes) = causes.probes.as_mut().filter(|known| known.stream == stream) else { return };
        let is_news = probes.observe(findings.is_live);
        let (is_live, is_not_live) = (probes.is_live(), probes.is_not_live());
        let ended = Cause::Ending(Ending::NotLive);
        if let Some(hold) = causes.hold.as_mut().filter(|hold| is_live && hold.cause == ended) {
            hold.cause = Cause::Arrived;
        }
        if is_news || probes.findings.as_ref() != Some(&findings) {
            probes.findings = Some(findings);
            causes.due = true;
            self.due.notify_one();
        }
        drop(proxies);
        if is_news && is_not_live {
            self.not_live(key);
        }
    }

    /// The stored Dataplane was changed, by whomever. An inbound whose probe fails is made NotReady again, and all of them
    /// while Envoy is not live. A result that says healthy counts no more where the Dataplane says NotReady, until it is
    /// reported again: somebody may have reasons to stop the inbound.
    pub(crate) fn changed(&self, key: &ProxyKey, mut stored: Dataplane) {
        let is_not_live = self.proxies().get(key).is_some_and(|causes| causes.is_not_live() && causes.probes.is_some());
        if is_not_live && stored.inbounds().iter().any(Inbound::is_ready) {
            self.not_live(key);
            return;
        }
        let known = self.proxies().get(key).and_then(|causes| causes.findings().cloned());
        let Some(findings) = known else { return };
        let fails = findings.apply(&mut stored, false);
        let outdated = !fails && findings.apply(&mut stored, true);
        let mut proxies = self.proxies();
        let Some(causes) = proxies.get_mut(key).filter(|causes| causes.findings() == Some(&findings)) else { return };
        if fails {
            causes.due = true;
            self.due.notify_one();
        } else if let Some(probes) = causes.probes.as_mut().filter(|_| outdated) {
            probes.findings = None;
        }
    }

    /// The Dataplane is not in the store at this revision. Whoever creates it again starts anew.
    pub(crate) fn deleted(&self, key: &ProxyKey, revision: u64) {
        if let Entry::Occupied(mut entry) = self.proxies().entry(key.clone()) {
            entry.get_mut().hold.take_if(|hold| hold.stored_at < revision);
            remove_if_empty(entry);
        }
    }

    fn proxies(&self) -> MutexGuard<'_, BTreeMap<ProxyKey, Causes>> {
        self.proxies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remove_if_empty(entry: std::collections::btree_map::OccupiedEntry<'_, ProxyKey, Causes>) {
    let Causes { hold, probes, due: _, written: _ } = entry.get();
    if hold.is_none() && probes.is_none() {
        entry.remove();
    }
}

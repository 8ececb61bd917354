//! Progress of the mTLS rollout of a mesh: the next step, or the proxies that hold it up.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::kinds::{dataplane_insight::DataplaneInsight, mesh::Mesh};
use kodiak_rollout::{DesiredIdentities, Phase, Rollout, RolloutRecord, WaitReason, Waiting, WayBack};
use kodiak_rules::Proxy;
use kodiak_world::{
    Resource, World,
    document::{self, IDENTITIES, ROLLOUT},
};

use crate::{
    has_certificate,
    presence::{Moment, ObservedProxy},
};

#[derive(Default)]
pub struct Progress {
    pub mesh: Option<Arc<Mesh>>,
    desired: DesiredIdentities,
    /// Stored step. `None` for a new mesh.
    current: Option<RolloutRecord>,
    /// Names of records that cannot be read. What they had before stays.
    unreadable: BTreeSet<&'static str>,
    /// By name; those that never connected are not here.
    proxies: BTreeMap<Arc<str>, ObservedProxy>,
    dataplanes: BTreeMap<Arc<str>, Arc<Proxy>>,
}

/// Next action of a rollout.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The target is reached.
    Done,
    /// Persist this step: no proxy that counts is harmed by it.
    Take { phase: Phase, next: Box<RolloutRecord> },
    /// These proxies hold up the step after the current one.
    Wait { phase: Phase, proxies: Vec<Waiting> },
    /// Records that cannot be read: nothing is decided without them.
    Unreadable(Vec<&'static str>),
}

impl Progress {
    /// Whether nothing of the mesh is known. Records may come before the mesh that they belong to.
    pub fn is_empty(&self) -> bool {
        let Self { mesh, desired, current, unreadable, proxies, dataplanes } = self;
        let has_records = current.is_some() || *desired != DesiredIdentities::default() || !unreadable.is_empty();
        mesh.is_none() && !has_records && proxies.is_empty() && dataplanes.is_empty()
    }

    /// Whether the records of the mesh that the store has are those that were applied.
    pub fn has_records_of(&self, world: &World, mesh: &str) -> bool {
        let mut stored = Self::default();
        stored.set_record(ROLLOUT, world.get(&document::key(mesh, ROLLOUT)).map(|record| &**record));
        stored.set_record(IDENTITIES, world.get(&document::key(mesh, IDENTITIES)).map(|record| &**record));
        let is_same = |name, equal: bool| equal || stored.unreadable.contains(name);
        stored.unreadable == self.unreadable
            && is_same(ROLLOUT, stored.current == self.current)
            && is_same(IDENTITIES, stored.desired == self.desired)
    }

    /// Current step, also while its record cannot be read.
    pub fn current(&self) -> Option<&RolloutRecord> {
        self.current.as_ref()
    }

    /// Applies the record of the step ([`ROLLOUT`]) or of the identities ([`IDENTITIES`]). `None`: it was deleted. Returns
    /// whether it can be read; otherwise the one before stays.
    pub fn set_record(&mut self, name: &'static str, resource: Option<&Resource>) -> bool {
        let readable = if name == ROLLOUT {
            document::read(resource).map(|record| self.current = record).is_ok()
        } else {
            document::read(resource).map(|record| self.desired = record.unwrap_or_default()).is_ok()
        };
        if readable {
            self.unreadable.remove(name);
        } else {
            self.unreadable.insert(name);
        }
        readable
    }

    pub(crate) fn desired(&self) -> &DesiredIdentities {
        &self.desired
    }

    /// Applies MeshIdentities and MeshTrusts that no record has yet.
    pub(crate) fn set_desired(&mut self, desired: DesiredIdentities) {
        self.desired = desired;
    }

    /// Applies a Dataplane. `None`: it was deleted.
    pub fn dataplane(&mut self, name: &Arc<str>, resource: Option<&Resource>) {
        match resource.and_then(Resource::proxy) {
            Some(proxy) => drop(self.dataplanes.insert(name.clone(), proxy.clone())),
            None => drop(self.dataplanes.remove(name)),
        }
    }

    /// Applies a DataplaneInsight. `None`: it was deleted.
    pub fn insight(&mut self, name: &Arc<str>, resource: Option<&Resource>) {
        match resource.and_then(Resource::spec::<DataplaneInsight>) {
            Some(insight) => drop(self.proxies.insert(name.clone(), ObservedProxy::of(&insight))),
            None => drop(self.proxies.remove(name)),
        }
    }

    pub(crate) fn target(&self) -> Option<Rollout> {
        self.mesh.as_ref().map(|mesh| Rollout::target(mesh, &self.desired))
    }

    pub fn step(&self, moment: &Moment) -> Step {
        if !self.unreadable.is_empty() {
            return Step::Unreadable(self.unreadable.iter().copied().collect());
        }
        let Some(target) = self.target() else { return Step::Done };
        // A new mesh starts at its target: no proxy depends on another step.
        let Some(current) = &self.current else {
            let next = Box::new(RolloutRecord::first(target, moment.now));
            return Step::Take { phase: Phase::Trust, next };
        };
        if current.step.is_same_step(&target) {
            return Step::Done;
        }
        let mut waiting = self.unacknowledged(current, moment);
        if waiting.values().any(|reason| matches!(reason, WaitReason::Rejected(_)))
            && let Some(WayBack { phase, next }) = current.way_back(&target, |from| self.loses(from, &target))
            && self.not_covered(&current.step, &next, &target).next().is_none()
        {
            return Step::Take { phase, next: Box::new(current.advanced(next, false, moment.now)) };
        }
        // Every Dataplane is asked only when the step can be taken: this is called for every acknowledgement.
        let loses = waiting.is_empty() && self.loses(&current.step, &target);
        let Some((phase, next)) = current.step.next(&target, loses) else { return Step::Done };
        if phase == Phase::Remove {
            let holders = self.holders_of_old_trust(current, &next, moment);
            for (name, reason) in holders {
                waiting.entry(name).or_insert(reason);
            }
        }
        waiting.extend(self.not_covered(&current.step, &next, &target));
        if waiting.is_empty() {
            return Step::Take { phase, next: Box::new(current.advanced(next, true, moment.now)) };
        }
        let proxies = waiting.into_iter().map(|(proxy, reason)| Waiting { proxy: proxy.clone(), reason });
        Step::Wait { phase, proxies: proxies.collect() }
    }

    /// Proxies that have not acknowledged the current step, and may be running.
    fn unacknowledged(&self, current: &RolloutRecord, moment: &Moment) -> BTreeMap<&Arc<str>, WaitReason> {
        let token = current.step.token();
        let is_anybody_online = self.proxies.values().any(|proxy| proxy.online);
        let since = current.taken.filter(|_| !is_anybody_online);
        let others = self.proxies.iter().filter(|(_, proxy)| proxy.acknowledged != token);
        others.filter_map(|(name, proxy)| Some((name, proxy.holds_up(moment, since)?))).collect()
    }

    /// Proxies whose certificate `next` would make useless: those that could not get another, and those that are not connected
    /// and may come back at a step that `next` is not compatible with.
    fn holders_of_old_trust<'a>(
        &'a self,
        current: &'a RolloutRecord,
        next: &'a Rollout,
        moment: &'a Moment,
    ) -> impl Iterator<Item = (&'a Arc<str>, WaitReason)> {
        let is_safe = |proxy: &ObservedProxy| {
            let possible = current.possible_steps(&proxy.acknowledged);
            possible.is_some_and(|mut possible| possible.all(|step| step.is_compatible(next)))
        };
        self.proxies.iter().filter_map(move |(name, proxy)| {
            let issuers = &current.step.issuers;
            // Without a certificate at this step, it presents none.
            let presents = || self.dataplanes.get(name).is_some_and(|dataplane| has_certificate(issuers, dataplane));
            let absent = || proxy.old_trust(moment).filter(|_| !is_safe(proxy));
            let reason = proxy.old_certificate(issuers).filter(|_| presents()).or_else(absent)?;
            Some((name, reason))
        })
    }

    /// Proxies that need a certificate, or their sidecar, before `next`.
    fn not_covered<'a>(
        &'a self,
        current: &'a Rollout,
        next: &'a Rollout,
        target: &'a Rollout,
    ) -> impl Iterator<Item = (&'a Arc<str>, WaitReason)> {
        let is_offline = |name: &Arc<str>| self.proxies.get(name).is_none_or(|proxy| !proxy.online);
        let (everybody, identities) = (current.needs_everybody(next, target), current.needs_identities(next));
        self.dataplanes.iter().filter(move |_| everybody || identities).filter_map(move |(name, proxy)| {
            if identities && !has_certificate(&next.issuers, proxy) {
                return Some((name, WaitReason::NoIdentity));
            }
            let is_missing = everybody && !proxy.dataplane.inbounds().is_empty() && is_offline(name);
            is_missing.then_some((name, WaitReason::NotConnected))
        })
    }

    /// Whether a proxy has a certificate now, and none at the target.
    fn loses(&self, current: &Rollout, target: &Rollout) -> bool {
        let lost =
            |proxy: &Arc<Proxy>| has_certificate(&current.issuers, proxy) && !has_certificate(&target.issuers, proxy);
        current.issuers != target.issuers && self.dataplanes.values().any(lost)
    }
}

#[cfg(test)]
mod tests;

//! Progress of the mTLS rollout of a mesh: the next step, or the proxies that hold it up.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use jiff::Timestamp;
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
    /// Why the last step could not be taken.
    held: Option<Held>,
}

/// One of the proxies that hold up a step. While it does, the others need not be asked.
struct Held {
    by: Arc<str>,
    target: Rollout,
    phase: Phase,
    /// The step that it holds up. `None` if it has not acknowledged the current one, whatever comes next.
    next: Option<Rollout>,
    /// Whether a proxy rejects the current step, which cannot be left.
    stays: bool,
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
        let Self { mesh, desired, current, unreadable, proxies, dataplanes, held: _ } = self;
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
        self.held = None;
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
        self.set_dataplane(name, resource.and_then(Resource::proxy).cloned());
    }

    fn set_dataplane(&mut self, name: &Arc<str>, proxy: Option<Arc<Proxy>>) {
        // Another step may be the next one now, and another way back.
        self.held.take_if(|held| held.next.is_some() || held.stays);
        match proxy {
            Some(proxy) => drop(self.dataplanes.insert(name.clone(), proxy)),
            None => drop(self.dataplanes.remove(name)),
        }
    }

    /// Applies a DataplaneInsight. `None`: it was deleted.
    pub fn insight(&mut self, name: &Arc<str>, resource: Option<&Resource>) {
        self.observe(name, resource.and_then(Resource::spec::<DataplaneInsight>).as_deref());
    }

    fn observe(&mut self, name: &Arc<str>, insight: Option<&DataplaneInsight>) {
        let Some(proxy) = insight.map(ObservedProxy::of) else {
            self.proxies.remove(name);
            return;
        };
        self.held.take_if(|held| proxy.is_rejecting() && !held.stays);
        self.proxies.insert(name.clone(), proxy);
    }

    pub(crate) fn target(&self) -> Option<Rollout> {
        self.mesh.as_ref().map(|mesh| Rollout::target(mesh, &self.desired))
    }

    /// Like [`step`](Self::step), for a caller that asks after each change. While one proxy holds up the step, the answer
    /// names that one alone.
    pub fn step_after_change(&mut self, moment: &Moment) -> Step {
        if let Some((phase, proxy)) = self.still_held(moment) {
            return Step::Wait { phase, proxies: vec![proxy] };
        }
        let (step, held) = self.decide(moment);
        self.held = held;
        step
    }

    /// The next step, with all proxies that hold it up.
    pub fn step(&self, moment: &Moment) -> Step {
        self.decide(moment).0
    }

    /// The proxy that held up the last step, if it does so still.
    fn still_held(&self, moment: &Moment) -> Option<(Phase, Waiting)> {
        let current = self.current.as_ref().filter(|_| self.unreadable.is_empty())?;
        let Held { by, target, phase, next, .. } = self.held.as_ref()?;
        if self.target().as_ref() != Some(target) {
            return None;
        }
        let reason = match next {
            None => {
                let proxy = self.proxies.get(by).filter(|proxy| proxy.acknowledged != current.step.token())?;
                proxy.holds_up(moment, if proxy.online { None } else { self.nobody_online_since(current) })?
            }
            Some(next) => self.reason_before(by, (current, next, target, *phase), moment)?,
        };
        Some((*phase, Waiting { proxy: by.clone(), reason }))
    }

    fn decide(&self, moment: &Moment) -> (Step, Option<Held>) {
        if !self.unreadable.is_empty() {
            return (Step::Unreadable(self.unreadable.iter().copied().collect()), None);
        }
        let Some(target) = self.target() else { return (Step::Done, None) };
        // A new mesh starts at its target: no proxy depends on another step.
        let Some(current) = &self.current else {
            let next = Box::new(RolloutRecord::first(target, moment.now));
            return (Step::Take { phase: Phase::Trust, next }, None);
        };
        if current.step.is_same_step(&target) {
            return (Step::Done, None);
        }
        let mut waiting = self.unacknowledged(current, moment);
        let is_rejected = waiting.values().any(|reason| matches!(reason, WaitReason::Rejected(_)));
        let way_back = || current.way_back(&target, |from| self.loses(from, &target));
        let way_back = if is_rejected { way_back() } else { None };
        if let Some(WayBack { phase, next }) = &way_back
            && self.not_covered(&current.step, next, &target).next().is_none()
        {
            let next = Box::new(current.advanced(next.clone(), false, moment.now));
            return (Step::Take { phase: *phase, next }, None);
        }
        // Every Dataplane is asked only when the step can be taken.
        let unacknowledged = witness(&waiting);
        let loses = unacknowledged.is_none() && self.loses(&current.step, &target);
        let Some((phase, next)) = current.step.next(&target, loses) else { return (Step::Done, None) };
        if phase == Phase::Remove {
            let holders = self.proxies.iter().filter_map(|(name, proxy)| {
                let reason = self.old_trust_of(name, proxy, current, &next, moment)?;
                Some((name, reason))
            });
            for (name, reason) in holders {
                waiting.entry(name).or_insert(reason);
            }
        }
        waiting.extend(self.not_covered(&current.step, &next, &target));
        let Some(by) = unacknowledged.clone().or_else(|| witness(&waiting)) else {
            let next = Box::new(current.advanced(next, true, moment.now));
            return (Step::Take { phase, next }, None);
        };
        let proxies = waiting.into_iter().map(|(proxy, reason)| Waiting { proxy: proxy.clone(), reason });
        let proxies = proxies.collect();
        let held = Held { by, target, phase, next: unacknowledged.is_none().then_some(next), stays: is_rejected };
        // The way back waits for proxies that come online.
        (Step::Wait { phase, proxies }, way_back.is_none().then_some(held))
    }

    /// Proxies that have not acknowledged the current step, and may be running.
    fn unacknowledged(&self, current: &RolloutRecord, moment: &Moment) -> BTreeMap<&Arc<str>, WaitReason> {
        let (token, since) = (current.step.token(), self.nobody_online_since(current));
        let others = self.proxies.iter().filter(|(_, proxy)| proxy.acknowledged != token);
        others.filter_map(|(name, proxy)| Some((name, proxy.holds_up(moment, since)?))).collect()
    }

    /// Time of the current step, if no proxy is connected that could acknowledge it.
    fn nobody_online_since(&self, current: &RolloutRecord) -> Option<Timestamp> {
        current.taken.filter(|_| !self.proxies.values().any(|proxy| proxy.online))
    }

    /// Why a proxy holds up a step after one that all have acknowledged.
    fn reason_before(
        &self,
        name: &Arc<str>,
        (current, next, target, phase): (&RolloutRecord, &Rollout, &Rollout, Phase),
        moment: &Moment,
    ) -> Option<WaitReason> {
        let uncovered = self.dataplanes.get(name).and_then(|dataplane| {
            let needs = Needs::of(&current.step, next, target);
            self.coverage_of(name, dataplane, needs, next)
        });
        let holds = || self.old_trust_of(name, self.proxies.get(name)?, current, next, moment);
        uncovered.or_else(|| holds().filter(|_| phase == Phase::Remove))
    }

    /// Why the certificate of a proxy would be useless at `next`: it could not get another, or it is not connected and may come
    /// back at a step that `next` is not compatible with.
    fn old_trust_of(
        &self,
        name: &Arc<str>,
        proxy: &ObservedProxy,
        current: &RolloutRecord,
        next: &Rollout,
        moment: &Moment,
    ) -> Option<WaitReason> {
        let is_safe = || {
            let possible = current.possible_steps(&proxy.acknowledged);
            possible.is_some_and(|mut possible| possible.all(|step| step.is_compatible(next)))
        };
        let issuers = &current.step.issuers;
        // Without a certificate at this step, it presents none.
        let presents = || self.dataplanes.get(name).is_some_and(|dataplane| has_certificate(issuers, dataplane));
        let absent = || proxy.old_trust(moment).filter(|_| !is_safe());
        proxy.old_certificate(issuers).filter(|_| presents()).or_else(absent)
    }

    /// Proxies that need a certificate, or their sidecar, before `next`.
    fn not_covered<'a>(
        &'a self,
        current: &'a Rollout,
        next: &'a Rollout,
        target: &'a Rollout,
    ) -> impl Iterator<Item = (&'a Arc<str>, WaitReason)> {
        let needs = Needs::of(current, next, target);
        let all = self.dataplanes.iter().filter(move |_| needs.everybody || needs.identities);
        all.filter_map(move |(name, proxy)| Some((name, self.coverage_of(name, proxy, needs, next)?)))
    }

    fn coverage_of(&self, name: &Arc<str>, proxy: &Proxy, needs: Needs, next: &Rollout) -> Option<WaitReason> {
        if needs.identities && !has_certificate(&next.issuers, proxy) {
            return Some(WaitReason::NoIdentity);
        }
        let is_offline = || self.proxies.get(name).is_none_or(|proxy| !proxy.online);
        let is_missing = needs.everybody && !proxy.dataplane.inbounds().is_empty() && is_offline();
        is_missing.then_some(WaitReason::NotConnected)
    }

    /// Whether a proxy has a certificate now, and none at the target.
    fn loses(&self, current: &Rollout, target: &Rollout) -> bool {
        let lost =
            |proxy: &Arc<Proxy>| has_certificate(&current.issuers, proxy) && !has_certificate(&target.issuers, proxy);
        current.issuers != target.issuers && self.dataplanes.values().any(lost)
    }
}

/// The proxy to ask first next time. Proxies often acknowledge in the order of their names, and each of the first ones would
/// be asked for once, so the order is another one. A rejection may end the wait.
fn witness(waiting: &BTreeMap<&Arc<str>, WaitReason>) -> Option<Arc<str>> {
    let rank = |(name, reason): &(&&Arc<str>, &WaitReason)| {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        (!matches!(reason, WaitReason::Rejected(_)), hasher.finish())
    };
    waiting.iter().max_by_key(rank).map(|(name, _)| Arc::clone(name))
}

/// Needs of a step that every Dataplane must meet.
#[derive(Clone, Copy)]
struct Needs {
    everybody: bool,
    identities: bool,
}

impl Needs {
    fn of(current: &Rollout, next: &Rollout, target: &Rollout) -> Self {
        Self { everybody: current.needs_everybody(next, target), identities: current.needs_identities(next) }
    }
}

#[cfg(test)]
mod tests;

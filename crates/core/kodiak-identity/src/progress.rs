//! Progress of the mTLS rollout of a mesh: the next step, or the proxies that hold it up.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::kinds::{
    dataplane_insight::{DataplaneInsight, MtlsInsight},
    mesh::Mesh,
};
use kodiak_rollout::{DesiredIdentities, Phase, Rollout, WaitReason, Waiting};
use kodiak_rules::Proxy;
use kodiak_world::{
    Resource, World,
    document::{self, IDENTITIES, ROLLOUT},
};

use crate::{desired::desired, has_certificate};

#[derive(Default)]
pub struct Progress {
    pub mesh: Option<Arc<Mesh>>,
    pub desired: DesiredIdentities,
    /// Stored step. `None` for a new mesh.
    pub current: Option<Rollout>,
    /// Step that each proxy acknowledged last; `None` when it is offline.
    acknowledged: BTreeMap<Arc<str>, Option<String>>,
    /// Envoy's error, for proxies that reject the current step.
    rejecting: BTreeMap<Arc<str>, String>,
    dataplanes: BTreeMap<Arc<str>, Arc<Proxy>>,
}

/// Next action of a rollout.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The target is reached.
    Done,
    /// Persist this step: all proxies acknowledged the current one.
    Take { phase: Phase, next: Box<Rollout> },
    /// These proxies hold up the step after the current one.
    Wait { phase: Phase, proxies: Vec<Waiting> },
}

/// Position of a mesh in its rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutStatus {
    pub current: Rollout,
    pub target: Rollout,
    /// Phase of the next step. `None` at the target.
    pub next: Option<Phase>,
    /// Proxies that hold it up.
    pub waiting: Vec<Waiting>,
}

/// Computed from the store. `None` without the mesh. Cheap for a mesh at its target.
pub fn rollout_status(world: &World, mesh: &str) -> Option<RolloutStatus> {
    let mut progress = Progress {
        mesh: Some(world.mesh(mesh)?),
        desired: desired(world, mesh),
        current: world.get(&document::key(mesh, ROLLOUT)).and_then(|step| step.document()),
        ..Progress::default()
    };
    let target = progress.target()?;
    let current = progress.current.clone().unwrap_or_else(|| target.clone());
    if current != target {
        for resource in world.list_in("Dataplane", mesh) {
            progress.dataplane(&resource.key.name, Some(resource));
        }
        for resource in world.list_in("DataplaneInsight", mesh) {
            progress.insight(&resource.key.name, Some(resource));
        }
    }
    let (next, waiting) = match progress.step() {
        Step::Done => (None, Vec::new()),
        Step::Take { phase, .. } => (Some(phase), Vec::new()),
        Step::Wait { phase, proxies } => (Some(phase), proxies),
    };
    // A new mesh is at its target before its first step is stored.
    let next = next.filter(|_| current != target);
    Some(RolloutStatus { current, target, next, waiting })
}

impl Progress {
    /// Whether nothing of the mesh is known. Records may come before the mesh that they belong to.
    pub fn is_empty(&self) -> bool {
        let Self { mesh, desired, current, acknowledged, rejecting: _, dataplanes } = self;
        let has_records = current.is_some() || *desired != DesiredIdentities::default();
        mesh.is_none() && !has_records && acknowledged.is_empty() && dataplanes.is_empty()
    }

    /// Whether the records of the mesh that the store has are those that were applied.
    pub fn has_records_of(&self, world: &World, mesh: &str) -> bool {
        let stored = |name| world.get(&document::key(mesh, name));
        let step: Option<Rollout> = stored(ROLLOUT).and_then(|step| step.document());
        let desired: Option<DesiredIdentities> = stored(IDENTITIES).and_then(|desired| desired.document());
        step == self.current && desired.unwrap_or_default() == self.desired
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
        self.rejecting.remove(name);
        let Some(insight) = resource.and_then(Resource::spec::<DataplaneInsight>) else {
            self.acknowledged.remove(name);
            return;
        };
        let online = insight.is_online();
        let MtlsInsight { acknowledged, rejecting, .. } = insight.mtls.clone().unwrap_or_default();
        self.acknowledged.insert(name.clone(), online.then_some(acknowledged));
        if online && !rejecting.is_empty() {
            self.rejecting.insert(name.clone(), rejecting);
        }
    }

    fn target(&self) -> Option<Rollout> {
        self.mesh.as_ref().map(|mesh| Rollout::target(mesh, &self.desired))
    }

    pub fn step(&self) -> Step {
        let Some(target) = self.target() else { return Step::Done };
        // A new mesh starts at its target: no proxy depends on another step.
        let Some(current) = &self.current else {
            return Step::Take { phase: Phase::Trust, next: Box::new(target) };
        };
        if *current == target {
            return Step::Done;
        }
        let token = current.token();
        let connected =
            self.acknowledged.iter().filter_map(|(name, acknowledged)| Some((name, acknowledged.as_ref()?)));
        let mut waiting: BTreeMap<&Arc<str>, WaitReason> = connected
            .filter(|(_, acknowledged)| **acknowledged != token)
            .map(|(name, _)| (name, self.reason(name)))
            .collect();
        // Every Dataplane is asked only when the step can be taken: this is called for every acknowledgement.
        let loses = waiting.is_empty() && self.loses(current, &target);
        let Some((phase, next)) = current.next(&target, loses) else { return Step::Done };
        if current.needs_everybody(&next, &target) {
            let is_offline = |name: &Arc<str>| self.acknowledged.get(name).is_none_or(Option::is_none);
            let servers = self.dataplanes.iter().filter(|(_, proxy)| !proxy.dataplane.inbounds().is_empty());
            let offline = servers.filter(|(name, _)| is_offline(name));
            waiting.extend(offline.map(|(name, _)| (name, WaitReason::NotConnected)));
        }
        if current.needs_identities(&next) {
            let without = self.dataplanes.iter().filter(|(_, proxy)| !has_certificate(&next.issuers, proxy));
            waiting.extend(without.map(|(name, _)| (name, WaitReason::NoIdentity)));
        }
        if waiting.is_empty() {
            return Step::Take { phase, next: Box::new(next) };
        }
        let proxies = waiting.into_iter().map(|(proxy, reason)| Waiting { proxy: proxy.clone(), reason });
        Step::Wait { phase, proxies: proxies.collect() }
    }

    /// Whether a proxy has a certificate now, and none at the target.
    fn loses(&self, current: &Rollout, target: &Rollout) -> bool {
        let lost =
            |proxy: &Arc<Proxy>| has_certificate(&current.issuers, proxy) && !has_certificate(&target.issuers, proxy);
        current.issuers != target.issuers && self.dataplanes.values().any(lost)
    }

    fn reason(&self, proxy: &Arc<str>) -> WaitReason {
        match self.rejecting.get(proxy) {
            Some(error) => WaitReason::Rejected(error.clone()),
            None => WaitReason::NotAcknowledged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh() -> Arc<Mesh> {
        let mesh = r#"{"mtls": {"enabledBackend": "ca", "backends": [{"name": "ca", "type": "builtin"}]}}"#;
        serde_json::from_str(mesh).unwrap()
    }

    fn strict() -> Rollout {
        Rollout::target(&mesh(), &DesiredIdentities::default())
    }

    fn after(step: &Rollout) -> Rollout {
        step.next(&strict(), false).unwrap().1
    }

    fn proxies(acknowledged: &[(&str, Option<&str>)]) -> BTreeMap<Arc<str>, Option<String>> {
        acknowledged.iter().map(|(name, token)| (Arc::from(*name), token.map(str::to_owned))).collect()
    }

    fn taken(progress: &Progress) -> Rollout {
        let Step::Take { next, .. } = progress.step() else { panic!("it waits") };
        *next
    }

    #[test]
    fn new_mesh_starts_at_its_target() {
        let progress = Progress { mesh: Some(mesh()), ..Progress::default() };
        assert_eq!(taken(&progress), strict());
    }

    #[test]
    fn step_waits_for_every_connected_proxy() {
        let both = after(&Rollout::default());
        let mut progress = Progress {
            mesh: Some(mesh()),
            current: Some(both.clone()),
            acknowledged: proxies(&[("a", Some(&both.token())), ("b", Some("")), ("c", Some("")), ("away", None)]),
            rejecting: [("c".into(), "lds: cannot bind".to_owned())].into(),
            ..Progress::default()
        };
        let Step::Wait { proxies: waiting, .. } = progress.step() else { panic!("it waits") };
        let waiting: Vec<_> = waiting.iter().map(ToString::to_string).collect();
        assert_eq!(waiting, ["b (has not acknowledged)", "c (rejected lds: cannot bind)"]);
        progress.acknowledged = proxies(&[("a", Some(&both.token())), ("b", Some(&both.token())), ("away", None)]);
        assert_eq!(taken(&progress), after(&both));
        progress.current = Some(strict());
        assert_eq!(progress.step(), Step::Done);
    }

    #[test]
    fn step_does_not_wait_without_connected_proxies() {
        let progress = Progress { mesh: Some(mesh()), current: Some(Rollout::default()), ..Progress::default() };
        assert_eq!(taken(&progress), after(&Rollout::default()));
    }
}

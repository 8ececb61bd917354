//! Progress of mTLS rollouts by mesh, updated by changes of the store.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::kinds::{
    dataplane_insight::{DataplaneInsight, MtlsInsight},
    mesh::Mesh,
};
use kodiak_rollout::{Rollout, WaitReason, Waiting};

use kodiak_world::{
    Change, Resource, World,
    document::{self, ROLLOUT},
};

use crate::documents;

#[derive(Default)]
pub(crate) struct Meshes(BTreeMap<Arc<str>, Progress>);

#[derive(Default)]
pub(crate) struct Progress {
    target: Option<Rollout>,
    current: Option<Rollout>,
    /// Step that each proxy acknowledged last; `None` when it is offline.
    acknowledged: BTreeMap<Arc<str>, Option<String>>,
    /// Envoy's error, for proxies that reject the current step.
    rejecting: BTreeMap<Arc<str>, String>,
    /// Proxies with inbounds.
    servers: BTreeSet<Arc<str>>,
}

/// Next action of a rollout.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The target is reached.
    Done,
    /// Persist this step: all proxies acknowledged the current one.
    Take(Rollout),
    /// These proxies have not acknowledged the current step.
    Wait(Vec<Waiting>),
}

impl Meshes {
    /// Applies a change, and returns the affected mesh.
    pub(crate) fn apply(&mut self, change: &Change) -> Option<Arc<str>> {
        let Change { key, resource, .. } = change;
        let resource = resource.as_deref();
        let mesh = match &*key.kind {
            "Mesh" => &key.name,
            "Dataplane" | "DataplaneInsight" => &key.mesh,
            _ if document::name(key) == Some(ROLLOUT) => &key.mesh,
            _ => return None,
        };
        let progress = self.0.entry(mesh.clone()).or_default();
        match &*key.kind {
            "Mesh" => {
                let mesh = resource.and_then(kodiak_world::Resource::spec::<Mesh>);
                progress.target = mesh.map(|mesh| Rollout::target(&mesh));
            }
            "Dataplane" => progress.server(&key.name, resource),
            "DataplaneInsight" => progress.insight(&key.name, resource),
            _ => progress.current = resource.and_then(documents::read),
        }
        if progress.target.is_none() && progress.acknowledged.is_empty() && progress.servers.is_empty() {
            self.0.remove(mesh);
        }
        Some(mesh.clone())
    }

    pub(crate) fn get(&self, mesh: &str) -> Option<&Progress> {
        self.0.get(mesh)
    }
}

/// Proxies that the next step of a mesh waits for, computed from the store. Cheap for a mesh without a rollout.
pub fn waiting(world: &World, mesh: &str) -> Vec<Waiting> {
    let mut progress = Progress {
        target: world.mesh(mesh).map(|mesh| Rollout::target(&mesh)),
        current: world.get(&document::key(mesh, ROLLOUT)).and_then(|step| documents::read(step)),
        ..Progress::default()
    };
    if progress.current == progress.target {
        return Vec::new();
    }
    for resource in world.list_in("Dataplane", mesh) {
        progress.server(&resource.key.name, Some(resource));
    }
    for resource in world.list_in("DataplaneInsight", mesh) {
        progress.insight(&resource.key.name, Some(resource));
    }
    match progress.step() {
        Step::Wait(waiting) => waiting,
        Step::Done | Step::Take(_) => Vec::new(),
    }
}

impl Progress {
    fn server(&mut self, name: &Arc<str>, resource: Option<&Resource>) {
        let proxy = resource.and_then(Resource::proxy);
        if proxy.is_some_and(|proxy| !proxy.dataplane.inbounds().is_empty()) {
            self.servers.insert(name.clone());
        } else {
            self.servers.remove(name);
        }
    }

    fn insight(&mut self, name: &Arc<str>, resource: Option<&Resource>) {
        self.rejecting.remove(name);
        let Some(insight) = resource.and_then(kodiak_world::Resource::spec::<DataplaneInsight>) else {
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

    pub(crate) fn step(&self) -> Step {
        let Some(target) = &self.target else { return Step::Done };
        // A new mesh starts at its target: no proxy depends on another step.
        let Some(current) = &self.current else { return Step::Take(target.clone()) };
        let Some(next) = current.next(target) else { return Step::Done };
        let token = current.token();
        let connected =
            self.acknowledged.iter().filter_map(|(name, acknowledged)| Some((name, acknowledged.as_ref()?)));
        let mut waiting: BTreeSet<&Arc<str>> =
            connected.filter(|(_, acknowledged)| **acknowledged != token).map(|(name, _)| name).collect();
        if current.needs_everybody(&next, target) {
            let away = |name: &&Arc<str>| self.acknowledged.get(*name).is_none_or(Option::is_none);
            waiting.extend(self.servers.iter().filter(away));
        }
        if waiting.is_empty() {
            return Step::Take(next);
        }
        Step::Wait(waiting.into_iter().map(|name| self.waiting(name)).collect())
    }

    fn waiting(&self, proxy: &Arc<str>) -> Waiting {
        let connected = self.acknowledged.get(proxy).is_some_and(Option::is_some);
        let reason = match self.rejecting.get(proxy) {
            Some(error) => WaitReason::Rejected(error.clone()),
            None if connected => WaitReason::NotAcknowledged,
            None => WaitReason::NotConnected,
        };
        Waiting { proxy: proxy.clone(), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strict() -> Rollout {
        let mesh = r#"{"mtls": {"enabledBackend": "ca", "backends": [{"name": "ca", "type": "builtin"}]}}"#;
        Rollout::target(&serde_json::from_str(mesh).unwrap())
    }

    fn proxies(acknowledged: &[(&str, Option<&str>)]) -> BTreeMap<Arc<str>, Option<String>> {
        acknowledged.iter().map(|(name, token)| (Arc::from(*name), token.map(str::to_owned))).collect()
    }

    #[test]
    fn new_mesh_starts_at_its_target() {
        let progress = Progress { target: Some(strict()), ..Progress::default() };
        assert_eq!(progress.step(), Step::Take(strict()));
    }

    #[test]
    fn step_waits_for_every_connected_proxy() {
        let both = Rollout::default().next(&strict()).unwrap();
        let mut progress = Progress {
            target: Some(strict()),
            current: Some(both.clone()),
            acknowledged: proxies(&[("a", Some(&both.token())), ("b", Some("")), ("c", Some("")), ("away", None)]),
            rejecting: [("c".into(), "lds: cannot bind".to_owned())].into(),
            servers: BTreeSet::new(),
        };
        let Step::Wait(waiting) = progress.step() else { panic!("it waits") };
        let waiting: Vec<_> = waiting.iter().map(ToString::to_string).collect();
        assert_eq!(waiting, ["b (has not acknowledged)", "c (rejected lds: cannot bind)"]);
        progress.acknowledged = proxies(&[("a", Some(&both.token())), ("b", Some(&both.token())), ("away", None)]);
        assert_eq!(progress.step(), Step::Take(both.next(&strict()).unwrap()));
        progress.current = Some(strict());
        assert_eq!(progress.step(), Step::Done);
    }

    #[test]
    fn step_does_not_wait_without_connected_proxies() {
        let progress = Progress { target: Some(strict()), current: Some(Rollout::default()), ..Progress::default() };
        assert!(matches!(progress.step(), Step::Take(_)));
    }
}

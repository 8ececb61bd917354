//! A mesh for tests, with the resources that a store would have.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use kodiak_model::{
    Kri, Labels, ProxyKey, ResourceKey,
    kinds::{dataplane::BackendKind, mesh_external_service::Source},
    policy::Body,
};
use kodiak_policies::otlp_backends::OtlpBackend;
use kodiak_reachability::Mode;
use kodiak_rollout::{AppliedBackend, DesiredIdentities, Rollout};
use kodiak_rules::{Policy, Proxy};
use kodiak_services::{
    service_addresses::{AddressAllocator, Ranges},
    tag_services::TagServices,
    vips::Vips,
};
use kodiak_world::{Resource, Stored, destination};
use kodiak_xds::{
    input::{AdminCertificate, Identity},
    node::NodeMetadata,
};
use kodiak_xds_stream::{Snapshot, Version};
use serde_json::{Value, json};

use crate::{
    AcknowledgedState, ClientPair, Engine, EngineChange, EngineSettings, Identities, Leaf, LeafRequest, Outcome,
};

pub(super) const MESH: &str = "default";
/// Half of the lifetime of a certificate.
const EPOCH_HOURS: i64 = 12;

/// The engine under test, and the current state of everything that was applied to it.
pub(super) struct World {
    pub(super) engine: Engine,
    pub(super) now: Timestamp,
    settings: EngineSettings,
    mesh: Option<String>,
    reachability: Option<Mode>,
    rollout: Option<Rollout>,
    /// MeshIdentities that the rollout moves to.
    pub(super) identities: DesiredIdentities,
    vips: Arc<Vips>,
    dataplanes: BTreeMap<String, String>,
    policies: BTreeMap<(&'static str, String), String>,
    objects: BTreeMap<(BackendKind, String), Value>,
    /// MeshOpenTelemetryBackends: when they were created, labels and specs.
    otlp_backends: BTreeMap<String, (i64, Value, Value)>,
    connected: BTreeMap<String, Arc<NodeMetadata>>,
    insights: BTreeMap<String, AcknowledgedState>,
    tags: TagServices,
}

impl Default for World {
    fn default() -> Self {
        Self::new(Mode::Off)
    }
}

impl World {
    /// `reachability` is the setting of the control plane.
    pub(super) fn new(reachability: Mode) -> Self {
        Self::with(Self::settings(reachability))
    }

    pub(super) fn settings(reachability: Mode) -> EngineSettings {
        let explained = Some(Ranges::default().virtual_addresses().into());
        EngineSettings { zone: "default".into(), reachability, explained, ..EngineSettings::default() }
    }

    pub(super) fn with(settings: EngineSettings) -> Self {
        Self {
            engine: Engine::new(settings.clone()),
            now: Timestamp::from_second(1_000_000).unwrap(),
            settings,
            mesh: None,
            reachability: None,
            rollout: None,
            identities: DesiredIdentities::default(),
            vips: Arc::default(),
            dataplanes: BTreeMap::new(),
            policies: BTreeMap::new(),
            objects: BTreeMap::new(),
            otlp_backends: BTreeMap::new(),
            connected: BTreeMap::new(),
            insights: BTreeMap::new(),
            tags: TagServices::default(),
        }
    }

    pub(super) fn apply(&mut self, change: EngineChange) -> Outcome {
        if let EngineChange::Dataplane { key, dataplane } = &change {
            self.tags.set(&key.name, dataplane.as_ref().map(|proxy| &*proxy.dataplane));
        }
        self.engine.apply([change], &Fake, self.now)
    }

    pub(super) fn pass_hours(&mut self, hours: i64) {
        self.now += SignedDuration::from_hours(hours);
    }

    pub(super) fn mesh(&mut self, spec: &str) -> Outcome {
        self.mesh = Some(spec.to_owned());
        self.apply(mesh_change(spec, self.reachability))
    }

    /// Sets the label of the mesh.
    pub(super) fn reachability(&mut self, mode: Option<Mode>) {
        self.reachability = mode;
        if let Some(spec) = self.mesh.clone() {
            self.mesh(&spec);
        }
    }

    /// All proxies acknowledge what they have.
    pub(super) fn acknowledge(&mut self) {
        let names: Vec<String> = self.connected.keys().cloned().collect();
        while names.iter().any(|name| self.acknowledge_of(name).is_some()) {}
    }

    /// One proxy acknowledges what it has. `None` if it has before.
    pub(super) fn acknowledge_of(&mut self, name: &str) -> Option<Outcome> {
        let change = self.engine.updated(&key(name))?.acknowledgement()?;
        let EngineChange::Acknowledged { state: Some(state), .. } = change else { return None };
        (self.insights.insert(name.to_owned(), state) != Some(state)).then(|| self.apply(change))
    }

    /// Until control planes do not wait any longer for servers that are not connected.
    pub(super) fn pass_absence(&mut self) {
        self.now += crate::presence::ABSENCE;
        self.apply(EngineChange::Tick);
    }

    pub(super) fn rollout(&mut self, rollout: Option<Rollout>) -> Outcome {
        self.rollout.clone_from(&rollout);
        self.apply(EngineChange::Rollout { mesh: MESH.into(), rollout })
    }

    pub(super) fn current_rollout(&self) -> Option<Rollout> {
        self.rollout.clone()
    }

    /// Last step of the rollout.
    pub(super) fn target(&self) -> Rollout {
        let mesh = self.mesh.as_deref().expect("the mesh is set");
        Rollout::target(&serde_json::from_str(mesh).unwrap(), &self.identities)
    }

    /// The next rollout step, if the mesh is not at its target.
    pub(super) fn next_rollout(&self) -> Option<Rollout> {
        self.mesh.as_ref()?;
        let target = self.target();
        match &self.rollout {
            None => Some(target),
            Some(current) => current.next(&target, false).map(|(_, next)| next),
        }
    }

    pub(super) fn dataplane(&mut self, name: &str, spec: String) -> Outcome {
        let change = dataplane_change(name, Some(&spec));
        self.dataplanes.insert(name.to_owned(), spec);
        self.apply(change)
    }

    pub(super) fn remove_dataplane(&mut self, name: &str) -> Outcome {
        self.dataplanes.remove(name);
        if self.insights.remove(name).is_some() {
            self.apply(EngineChange::Acknowledged { key: key(name), state: None });
        }
        self.apply(dataplane_change(name, None))
    }

    pub(super) fn permission(&mut self, name: &str, spec: Option<&str>) -> Outcome {
        self.policy("MeshTrafficPermission", name, spec)
    }

    pub(super) fn policy(&mut self, kind: &'static str, name: &str, spec: Option<&str>) -> Outcome {
        let key = (kind, name.to_owned());
        match spec {
            Some(spec) => self.policies.insert(key, spec.to_owned()),
            None => self.policies.remove(&key),
        };
        self.apply(policy_change(kind, name, spec))
    }

    /// `stored` has labels, spec and status. `None` deletes the resource.
    pub(super) fn object(&mut self, kind: BackendKind, name: &str, stored: Option<Value>) -> Outcome {
        let key = (kind, name.to_owned());
        let change = object_change(&key, stored.as_ref());
        match stored {
            Some(stored) => self.objects.insert(key, stored),
            None => self.objects.remove(&key),
        };
        self.apply(change)
    }

    /// `stored` has the time of creation, labels and spec. `None` deletes the MeshOpenTelemetryBackend.
    pub(super) fn otlp_backend(&mut self, name: &str, stored: Option<(i64, Value, Value)>) -> Outcome {
        let change = otlp_backend_change(name, stored.as_ref());
        match stored {
            Some(stored) => self.otlp_backends.insert(name.to_owned(), stored),
            None => self.otlp_backends.remove(name),
        };
        self.apply(change)
    }

    pub(super) fn assign_vips(&mut self) -> Outcome {
        let keep = SignedDuration::from_hours(24);
        let mut allocator = AddressAllocator::new(Ranges::default());
        allocator.set_vips(&MESH.into(), None, Some(&self.vips));
        self.vips = Arc::new(allocator.assign(&MESH.into(), &self.vips, self.tags.names(), self.now, keep).vips);
        self.apply(EngineChange::Vips { mesh: MESH.into(), vips: Some(self.vips.clone()) })
    }

    pub(super) fn connect(&mut self, name: &str) -> Outcome {
        self.connect_as(name, NodeMetadata::default())
    }

    pub(super) fn connect_as(&mut self, name: &str, metadata: NodeMetadata) -> Outcome {
        let metadata = Arc::new(metadata);
        self.connected.insert(name.to_owned(), metadata.clone());
        self.apply(EngineChange::Connected { key: key(name), metadata })
    }

    pub(super) fn disconnect(&mut self, name: &str) -> Outcome {
        self.connected.remove(name);
        if let Some(state) = self.insights.get_mut(name) {
            (state.online, state.left) = (false, Some(self.now));
            let state = Some(*state);
            self.apply(EngineChange::Acknowledged { key: key(name), state });
        }
        self.apply(EngineChange::Disconnected { key: key(name) })
    }

    /// A connected proxy with transparent proxying.
    pub(super) fn redirected(&mut self, name: &str, reachable: &[&str]) {
        let spec = json!({ "networking": {
            "address": "10.0.0.7",
            "inbound": [inbound(80, name, "http")],
            "transparentProxying": {
                "redirectPortInbound": 15006, "redirectPortOutbound": 15001, "reachableServices": reachable,
            },
        } });
        self.dataplane(name, spec.to_string());
        let admin_socket = Some("/tmp/admin.sock".to_owned());
        self.connect_as(name, NodeMetadata { admin_socket, ..NodeMetadata::default() });
    }

    #[track_caller]
    pub(super) fn snapshot(&self, proxy: &str) -> Arc<Snapshot> {
        self.engine.snapshot(&key(proxy)).expect("the proxy has a snapshot")
    }

    pub(super) fn connected(&self) -> impl Iterator<Item = &String> {
        self.connected.keys()
    }

    /// A new engine to which the current state is applied at once.
    pub(super) fn rebuilt(&self) -> (Engine, Outcome) {
        let mut engine = Engine::new(self.settings.clone());
        let outcome = engine.apply(self.changes(), &Fake, self.now);
        (engine, outcome)
    }

    /// As after a restart of the control plane.
    pub(super) fn restart(&mut self) -> Outcome {
        let (engine, outcome) = self.rebuilt();
        self.engine = engine;
        outcome
    }

    /// As [`Self::rebuilt`], without the policies of a kind.
    pub(super) fn rebuilt_without(&self, kind: &str) -> (Engine, Outcome) {
        let mut engine = Engine::new(self.settings.clone());
        let is_other =
            |change: &EngineChange| !matches!(change, EngineChange::Policy { key: (of, _), .. } if *of == kind);
        let outcome = engine.apply(self.changes().into_iter().filter(is_other), &Fake, self.now);
        (engine, outcome)
    }

    /// A new engine to which the current state is applied in batches of one change. The rollout and the virtual addresses
    /// come before the mesh.
    pub(super) fn rebuilt_one_by_one(&self) -> Engine {
        let mut engine = Engine::new(self.settings.clone());
        for change in self.changes() {
            engine.apply([change], &Fake, self.now);
        }
        engine
    }

    /// The current state as changes.
    fn changes(&self) -> Vec<EngineChange> {
        let mut changes = vec![
            EngineChange::Rollout { mesh: MESH.into(), rollout: self.rollout.clone() },
            EngineChange::Vips { mesh: MESH.into(), vips: Some(self.vips.clone()) },
        ];
        changes.extend(self.mesh.iter().map(|spec| mesh_change(spec, self.reachability)));
        changes.extend(self.dataplanes.iter().map(|(name, spec)| dataplane_change(name, Some(spec))));
        changes.extend(self.policies.iter().map(|((kind, name), spec)| policy_change(kind, name, Some(spec))));
        changes.extend(self.otlp_backends.iter().map(|(name, stored)| otlp_backend_change(name, Some(stored))));
        changes.extend(self.objects.iter().map(|(key, stored)| object_change(key, Some(stored))));
        changes.extend(
            self.insights
                .iter()
                .map(|(name, state)| EngineChange::Acknowledged { key: key(name), state: Some(*state) }),
        );
        let connected = self.connected.iter();
        changes.extend(
            connected.map(|(name, metadata)| EngineChange::Connected { key: key(name), metadata: metadata.clone() }),
        );
        changes
    }
}

pub(super) fn key(name: &str) -> ProxyKey {
    ProxyKey::new(MESH, name)
}

pub(super) fn mesh_change(spec: &str, reachability: Option<Mode>) -> EngineChange {
    EngineChange::Mesh { name: MESH.into(), mesh: Some(Arc::new(serde_json::from_str(spec).unwrap())), reachability }
}

pub(super) fn dataplane_change(name: &str, spec: Option<&str>) -> EngineChange {
    let proxy = |spec: &str| Proxy {
        mesh: MESH.into(),
        name: name.into(),
        labels: Arc::default(),
        dataplane: Arc::new(serde_json::from_str(spec).unwrap()),
        admission: None,
    };
    EngineChange::Dataplane { key: key(name), dataplane: spec.map(|spec| Arc::new(proxy(spec))) }
}

pub(super) fn policy_change(kind: &str, name: &str, spec: Option<&str>) -> EngineChange {
    let kind = kodiak_policies::ALL.iter().find(|each| each.name == kind).unwrap();
    let policy = |spec: &str| Policy {
        kind,
        mesh: MESH.into(),
        name: name.into(),
        labels: Arc::default(),
        body: Body::read(kind.policy.as_ref().unwrap(), &serde_json::from_str(spec).unwrap()).unwrap(),
    };
    let policy = spec.map(|spec| Arc::new(policy(spec)));
    EngineChange::Policy { mesh: MESH.into(), key: (kind.name, name.into()), policy }
}

fn otlp_backend_change(name: &str, stored: Option<&(i64, Value, Value)>) -> EngineChange {
    let backend = stored.map(|(created, labels, spec)| OtlpBackend {
        labels: Arc::new(serde_json::from_value(labels.clone()).unwrap()),
        created: Timestamp::from_second(*created).unwrap(),
        spec: Arc::new(serde_json::from_value(spec.clone()).unwrap()),
    });
    EngineChange::OtlpBackend { mesh: MESH.into(), name: name.into(), backend: backend.map(Arc::new) }
}

fn object_change(key: &(BackendKind, String), stored: Option<&Value>) -> EngineChange {
    let (kind, name) = (key.0, Arc::<str>::from(key.1.as_str()));
    let destination = stored.map(|stored| {
        let labels: Labels = serde_json::from_value(stored["labels"].clone()).unwrap();
        let (of_kind, _) = destination::KINDS.iter().find(|(_, known)| *known == kind).unwrap();
        let stored = Stored {
            key: &ResourceKey::in_mesh(of_kind.name, MESH, &name),
            labels: &Arc::new(labels),
            created: Timestamp::from_second(stored["created"].as_i64().unwrap_or_default()).unwrap(),
            version: 1,
            status_version: 1,
            revision: 1,
            spec: &stored["spec"].to_string().into(),
            status: Some(&stored["status"].to_string().into()),
        };
        Resource::decode(stored).destination().unwrap().clone()
    });
    EngineChange::Destination { mesh: MESH.into(), kind, name, destination }
}

pub(super) fn inbound(port: u32, service: &str, protocol: &str) -> Value {
    json!({ "port": port, "tags": { "kuma.io/service": service, "kuma.io/protocol": protocol } })
}

/// Its address is derived from its name, so that instances of a service differ.
pub(super) fn dataplane(name: &str, inbounds: &[Value], outbounds: &[(u32, &str)]) -> String {
    let outbound = |(port, service): &(u32, &str)| json!({ "port": port, "tags": { "kuma.io/service": service } });
    let outbounds: Vec<Value> = outbounds.iter().map(outbound).collect();
    let last = name.rsplit('-').next().and_then(|number| number.parse::<u8>().ok()).unwrap_or_default();
    let address = if name.starts_with("web") { "10.0.0.1".to_owned() } else { format!("10.0.1.{last}") };
    json!({ "networking": { "address": address, "inbound": inbounds, "outbound": outbounds } }).to_string()
}

/// Certificates that consist of their request and period.
pub(super) struct Fake;

impl Identities for Fake {
    fn leaf(&self, request: &LeafRequest, now: Timestamp) -> Result<Arc<Leaf>, String> {
        let epoch = now.as_second() / (EPOCH_HOURS * 3600);
        let mut hasher = DefaultHasher::new();
        (request, epoch).hash(&mut hasher);
        let end = Timestamp::from_second((epoch + 1) * EPOCH_HOURS * 3600).unwrap();
        Ok(Arc::new(Leaf {
            serial: "1".into(),
            spiffe_id: request.uris[0].as_str().into(),
            identity: Identity { certificate: format!("{request:?} {epoch}").into(), key: "key".into() },
            version: Version(u128::from(hasher.finish())),
            not_after: end + SignedDuration::from_hours(EPOCH_HOURS),
            renew_at: end,
        }))
    }

    fn roots(&self, mesh: &str, backend: &AppliedBackend) -> Result<Arc<str>, String> {
        Ok(format!("root of {mesh} {backend}\n").into())
    }

    fn source(&self, mesh: &str, source: &Source) -> Result<Arc<str>, String> {
        Ok(format!("-----BEGIN CERTIFICATE-----\n{mesh} {source:?}\n-----END CERTIFICATE-----\n").into())
    }

    fn client_pair(&self, _: &Kri, pair: ClientPair) -> Result<ClientPair, String> {
        Ok(pair)
    }

    fn admin(&self, _: &ProxyKey) -> Option<Arc<AdminCertificate>> {
        None
    }
}

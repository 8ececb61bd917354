//! Single changes of a mesh that trims its proxies, through the engine.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use jiff::Timestamp;
use kodiak_engine::{Engine, EngineChange, EngineSettings, Outcome, Stats, Updated, offline::Placeholders};
use kodiak_kinds::kinds;
use kodiak_model::{
    Kri, ProxyKey,
    kinds::{dataplane::BackendKind, mesh_service},
    policy::Body,
};
use kodiak_reachability::Mode;
use kodiak_rules::{Policy, Proxy};
use kodiak_terminal::Table;
use kodiak_world::destination::{Behind, Destination, Service};
use kodiak_xds::node::NodeMetadata;
use serde_json::{Value, json};

use super::mesh::{KIND, MESH, Size, name};
use crate::results::millis;

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
const ZONE: &str = "default";
const ROUTE: &str = "MeshHTTPRoute";

/// Change to measure, in a mesh of a number of services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scenario {
    /// One of as many permissions as services, none of which has a Dataplane. Each permission selects one service.
    PermissionByTag,
    /// The same with labels that each of the services may have.
    PermissionByLabel,
    /// All servers acknowledge a permission of the whole mesh.
    Acknowledgements,
    /// The endpoint of one service, in a mesh where each proxy has its own destinations, and one route is for all proxies.
    Endpoint,
}

/// Cost of one change.
#[derive(Debug)]
pub(super) struct Cost {
    pub(super) scenario: Scenario,
    pub(super) services: usize,
    /// Of the samples.
    pub(super) median: Duration,
    /// Of the last sample.
    pub(super) stats: Stats,
}

impl Scenario {
    pub(super) const ALL: [Self; 4] =
        [Self::PermissionByTag, Self::PermissionByLabel, Self::Acknowledgements, Self::Endpoint];

    /// In JSON.
    fn key(self) -> &'static str {
        match self {
            Self::PermissionByTag => "permission_by_tag",
            Self::PermissionByLabel => "permission_by_label",
            Self::Acknowledgements => "acknowledgements",
            Self::Endpoint => "endpoint",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::PermissionByTag => "permission by tag, no Dataplanes",
            Self::PermissionByLabel => "permission by label, no Dataplanes",
            Self::Acknowledgements => "acknowledgements of all servers",
            Self::Endpoint => "endpoint, with a route of the mesh",
        }
    }

    pub(super) fn measure(self, size: Size, samples: usize) -> anyhow::Result<Cost> {
        let mut mesh = EngineMesh::new()?;
        let mut times = Vec::new();
        let mut stats = Stats::default();
        let mut prepared = self.prepare(&mut mesh, size)?;
        for sample in 1..=samples {
            let changes = prepared(&mut mesh, sample)?;
            let start = Instant::now();
            stats = mesh.apply(changes)?.stats;
            times.push(start.elapsed());
        }
        times.sort_unstable();
        Ok(Cost { scenario: self, services: size.services, median: times[times.len() / 2], stats })
    }

    /// Fills the mesh. Returns the changes of each sample, which may depend on changes that are not measured.
    fn prepare(self, mesh: &mut EngineMesh, size: Size) -> anyhow::Result<Samples> {
        let all = 0..size.services;
        match self {
            Self::PermissionByTag | Self::PermissionByLabel => {
                let by_label = self == Self::PermissionByLabel;
                mesh.apply(all.clone().map(unseen_service).collect::<anyhow::Result<Vec<_>>>()?)?;
                let change = move |n: usize, version: usize| {
                    let target = if by_label {
                        json!({ "kind": "Dataplane", "labels": { "app": name(n) } })
                    } else {
                        json!({ "kind": "MeshService", "name": name(n) })
                    };
                    policy(KIND, &name(n), &allow(&target, &name(version)))
                };
                mesh.apply(all.map(|n| change(n, 0)).collect::<anyhow::Result<Vec<_>>>()?)?;
                mesh.apply(connected(0)?)?;
                Ok(Box::new(move |_, sample| Ok(vec![change(sample % size.services, sample)?])))
            }
            Self::Acknowledgements => {
                for n in all {
                    mesh.apply(connected(n)?)?;
                }
                Ok(Box::new(|mesh, sample| {
                    let permission = policy(KIND, "all", &allow(&json!({ "kind": "Mesh" }), &name(sample)))?;
                    let sent = mesh.apply([permission])?.proxies;
                    Ok(sent.iter().filter_map(Updated::acknowledgement).collect())
                }))
            }
            Self::Endpoint => {
                mesh.apply([size.vips()?])?;
                mesh.apply(all.clone().map(|n| size.permission_change(n)).collect::<anyhow::Result<Vec<_>>>()?)?;
                let proxies = all.map(connected).collect::<anyhow::Result<Vec<_>>>()?;
                let sent = mesh.apply(proxies.into_iter().flatten())?.proxies;
                // Clients get their destinations then.
                mesh.apply(sent.iter().filter_map(Updated::acknowledgement).collect::<Vec<_>>())?;
                let backend = json!({ "kind": "MeshService", "name": name(0) });
                let rule = json!({ "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }],
                    "default": { "backendRefs": [{ "kind": "MeshService", "name": name(1) }] } });
                let to = json!([{ "targetRef": backend, "rules": [rule] }]);
                mesh.apply([policy(ROUTE, "route", &json!({ "targetRef": { "kind": "Mesh" }, "to": to }))?])?;
                Ok(Box::new(move |_, sample| {
                    let n = 2 + sample * 7 % (size.services - 2);
                    let state = if sample % 2 == 0 { "Ready" } else { "NotReady" };
                    Ok(vec![dataplane(n, state)?])
                }))
            }
        }
    }
}

type Samples = Box<dyn FnMut(&mut EngineMesh, usize) -> anyhow::Result<Vec<EngineChange>>>;

/// A mesh of strict mTLS in an engine that trims.
struct EngineMesh(Engine);

impl EngineMesh {
    fn new() -> anyhow::Result<Self> {
        let settings = EngineSettings { zone: ZONE.into(), reachability: Mode::On, ..EngineSettings::default() };
        let mut mesh = Self(Engine::new(settings));
        let spec = json!({ "mtls": { "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin" }] } });
        let spec = Some(Arc::new(serde_json::from_value(spec)?));
        mesh.apply([EngineChange::Mesh { name: MESH.into(), mesh: spec, reachability: None }])?;
        Ok(mesh)
    }

    fn apply(&mut self, changes: impl IntoIterator<Item = EngineChange>) -> anyhow::Result<Outcome> {
        let outcome = self.0.apply(changes, &Placeholders, NOW);
        if let Some(faulty) = outcome.proxies.iter().find(|updated| !updated.faults.is_empty()) {
            anyhow::bail!("configuration of {} failed validation: {}", faulty.key.name, faulty.faults.join("; "));
        }
        Ok(outcome)
    }
}

impl Size {
    fn permission_change(self, n: usize) -> anyhow::Result<EngineChange> {
        let policy = self.permission(n, 0)?;
        Ok(EngineChange::Policy { mesh: MESH.into(), key: (KIND, policy.name.clone()), policy: Some(policy) })
    }

    fn vips(self) -> anyhow::Result<EngineChange> {
        let address = |n: usize| format!("240.0.{}.{}", n / 250, n % 250 + 1);
        let services = (0..self.services).map(|n| (name(n), json!({ "address": address(n) })));
        let vips = json!({ "next": self.services, "services": services.collect::<serde_json::Map<_, _>>() });
        Ok(EngineChange::Vips { mesh: MESH.into(), vips: Some(Arc::new(serde_json::from_value(vips)?)) })
    }
}

/// Dataplane of a service, with its redirected proxy.
fn connected(n: usize) -> anyhow::Result<Vec<EngineChange>> {
    let metadata = Arc::new(NodeMetadata { workdir: Some(".".to_owned()), ..NodeMetadata::default() });
    let connected = EngineChange::Connected { key: ProxyKey::new(MESH, &name(n)), metadata };
    Ok(vec![dataplane(n, "Ready")?, connected])
}

fn dataplane(n: usize, state: &str) -> anyhow::Result<EngineChange> {
    let proxy = Size::proxy(n)?;
    let mut spec = serde_json::to_value(&*proxy.dataplane)?;
    spec["networking"]["inbound"][0]["state"] = json!(state);
    spec["networking"]["transparentProxying"] = json!({ "redirectPortInbound": 15006, "redirectPortOutbound": 15001 });
    let proxy = Proxy { dataplane: Arc::new(serde_json::from_value(spec)?), ..(*proxy).clone() };
    Ok(EngineChange::Dataplane { key: proxy.key(), dataplane: Some(Arc::new(proxy)) })
}

/// MeshService that selects no Dataplane.
fn unseen_service(n: usize) -> anyhow::Result<EngineChange> {
    let name: Arc<str> = format!("unseen-{n}").into();
    let tags = json!({ "kuma.io/service": super::mesh::name(n), "unseen": "true" });
    let selector = serde_json::from_value(json!({ "dataplaneTags": tags }))?;
    let destination = Destination {
        kri: Kri::of(&mesh_service::KIND, MESH, &name, &Arc::default()).context("a MeshService has a short name")?,
        name: name.clone(),
        labels: Arc::default(),
        created: NOW,
        ports: Vec::new(),
        vips: Vec::new(),
        hostnames: Vec::new(),
        behind: Behind::Service(Arc::new(Service { selector, ..Service::default() })),
    };
    let destination = Some(Arc::new(destination));
    Ok(EngineChange::Destination { mesh: MESH.into(), kind: BackendKind::MeshService, name, destination })
}

fn policy(kind: &str, name: &str, spec: &Value) -> anyhow::Result<EngineChange> {
    let kind = kinds().by_name(kind).context("the kind exists")?;
    let facts = kind.policy.as_ref().context("the kind is a policy")?;
    let body = Body::read(facts, spec).map_err(|error| anyhow::anyhow!("{error}"))?;
    let policy = Arc::new(Policy { kind, mesh: MESH.into(), name: name.into(), labels: Arc::default(), body });
    Ok(EngineChange::Policy { mesh: MESH.into(), key: (kind.name, policy.name.clone()), policy: Some(policy) })
}

fn allow(target: &Value, caller: &str) -> Value {
    let from = json!([{ "targetRef": { "kind": "MeshService", "name": caller }, "default": { "action": "Allow" } }]);
    json!({ "targetRef": target, "from": from })
}

pub(super) fn table(all: &[Cost]) -> Table {
    let mut table = Table::new(["CHANGE", "SERVICES", "ENCODED", "WOKEN", "MEDIAN MS"]);
    for Cost { scenario, services, median, stats: Stats { encoded, woken } } in all {
        let counts = [encoded, woken].map(ToString::to_string);
        let start = [scenario.title().to_owned(), services.to_string()];
        table.row(start.into_iter().chain(counts).chain([format!("{:.2}", millis(*median))]));
    }
    table
}

impl Cost {
    pub(super) fn json(&self) -> Value {
        let Self { scenario, services, median, stats: Stats { encoded, woken } } = self;
        json!({
            "change": scenario.key(), "services": services, "encoded": encoded, "woken": woken,
            "p50_ms": millis(*median),
        })
    }
}

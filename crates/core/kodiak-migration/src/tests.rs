//! Meshes on their way, as small as can be.

mod consumers;
mod conversions;
mod follow;
mod plans;

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use kodiak_model::{
    Kind, Labels, Language, LegacyNames, PolicyFacts, ResourceKey,
    kinds::{dataplane::BackendKind, mesh, mesh::MeshServicesMode},
    policy::{Body, ConfShape},
};
use kodiak_rules::{Policy, PolicyIndex, Proxy, Resources};
use kodiak_world::{Resource, Stored, destination};
use serde_json::{Value, json};

use super::{Conversion, Landscape, OldItems, convert};
use kodiak_inspection::inspect::MeshView;

/// The languages do not matter: bodies are read as they are.
const fn kind(name: &'static str, short: &'static str, conf: ConfShape) -> Kind {
    let facts = PolicyFacts { to: true, from: true, rules: false, from_as_rules: false, conf, order: 1 };
    Kind::policy(name, "tests", short, facts, Language::of::<mesh::Mesh>())
}

static TIMEOUT: Kind = kind("MeshTimeout", "mt", ConfShape::Default);
static ROUTE: Kind = kind("MeshHTTPRoute", "mhttpr", ConfShape::Routes).legacy_names(LegacyNames::Nothing);
static BALANCING: Kind = kind("MeshLoadBalancingStrategy", "mlbs", ConfShape::Default)
    .legacy_names(LegacyNames::Only(&["localityAwareness", "localZone"]));

struct World {
    view: MeshView,
    specs: Vec<(Arc<Policy>, Value)>,
}

impl World {
    fn new(mode: MeshServicesMode) -> Self {
        let view = MeshView {
            mode,
            kinds: vec![&TIMEOUT, &ROUTE, &BALANCING],
            policy_index: PolicyIndex::default(),
            resources: Resources::default(),
            proxies: BTreeMap::new(),
            destinations: Vec::new(),
            identities: Vec::new(),
            otlp_backends: <_>::default(),
            rollout: <_>::default(),
        };
        Self { view, specs: Vec::new() }
    }

    fn proxy(&mut self, name: &str, labels: Value, networking: &Value) {
        let (name, labels): (Arc<str>, Labels) = (name.into(), serde_json::from_value(labels).unwrap());
        let dataplane = Arc::new(serde_json::from_value(json!({ "networking": networking })).unwrap());
        let proxy =
            Proxy { mesh: "default".into(), name: name.clone(), labels: Arc::new(labels), dataplane, admission: None };
        let proxy = Arc::new(proxy);
        self.view.policy_index.set_proxy(&name, Some(proxy.clone()));
        self.view.proxies.insert(name, proxy);
    }

    /// In zone `east`, at port 8080.
    fn serves(&mut self, name: &str, service: &str) {
        self.serves_in("east", name, service);
    }

    fn serves_in(&mut self, zone: &str, name: &str, service: &str) {
        let tags = json!({ "kuma.io/service": service, "kuma.io/zone": zone });
        let networking = json!({ "inbound": [{ "port": 8080, "tags": tags }] });
        self.proxy(name, json!({ "kuma.io/zone": zone }), &networking);
    }

    fn object(&mut self, kind: BackendKind, name: &str, labels: Value, spec: &Value) {
        let labels = Arc::new(serde_json::from_value(labels).unwrap());
        let address = json!({ "hostname": format!("{name}.svc.mesh.local") });
        let status = json!({ "addresses": [address], "vips": [{ "ip": "241.0.0.1" }] }).to_string();
        let (of_kind, _) = destination::KINDS.iter().find(|(_, known)| *known == kind).unwrap();
        let stored = Stored {
            key: &ResourceKey::in_mesh(of_kind.name, "default", name),
            labels: &labels,
            created: Timestamp::UNIX_EPOCH,
            version: 1,
            status_version: 1,
            revision: 1,
            spec: &spec.to_string().into(),
            status: Some(&status.into()),
        };
        self.view.destinations.extend(Resource::decode(stored).destination().cloned());
    }

    /// As they are made from Dataplanes.
    fn generated(&mut self, service: &str) {
        let selector = json!({ "dataplaneTags": { "kuma.io/service": service } });
        let labels = json!({ "kuma.io/display-name": service, "kuma.io/zone": "east", "kuma.io/origin": "zone" });
        let spec = json!({ "selector": selector, "ports": [{ "port": 8080, "targetPort": 8080 }] });
        self.object(BackendKind::MeshService, service, labels, &spec);
    }

    fn policy(&mut self, kind: &'static Kind, name: &str, spec: Value) -> Arc<Policy> {
        let body = Body::read(&kind.policy.unwrap(), &spec).unwrap();
        let labels = Arc::new(Labels::from([("kuma.io/zone".to_owned(), "east".to_owned())]));
        let policy = Arc::new(Policy { kind, mesh: "default".into(), name: name.into(), labels, body });
        self.view.policy_index.set_policy(&(kind.name, policy.name.clone()), Some(policy.clone()));
        self.specs.push((policy.clone(), spec));
        policy
    }

    fn convert(&mut self, kind: &'static Kind, spec: &Value, old_items: OldItems) -> Conversion {
        let policy = self.policy(kind, "p", spec.clone());
        convert(&policy, spec, &Landscape::of(&self.view), old_items)
    }
}

fn by_name(name: &str) -> Value {
    json!({ "kind": "MeshService", "name": name })
}

fn item(target: &Value) -> Value {
    json!({ "targetRef": target, "default": { "idleTimeout": "5s" } })
}

//! Policies that nobody follows, and what is said of them.

mod patched;
mod presented;
mod property;
mod reasons;
mod scale;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{
    InboundTls, Kind, Labels, Language, LegacyNames, PolicyFacts, PortSection,
    kinds::{mesh, mesh_service},
    policy::{Body, ConfShape},
};
use kodiak_policies::otlp_backends::OtlpBackends;
use kodiak_rollout::Rollout;
use kodiak_rules::{Policy, PolicyIndex, Proxy, Resource, Resources, outbound::NameResolution};
use serde_json::{Value, json};

use super::{PolicyStatus, PolicyStatusContext, State, Why, of};
use kodiak_identity::Identity;

const fn facts(lists: bool, from_as_rules: bool, conf: ConfShape) -> PolicyFacts {
    PolicyFacts { to: lists, from: lists, rules: lists, from_as_rules, conf, order: 1 }
}

/// The languages do not matter: bodies are read as they are.
const fn kind(name: &'static str, short: &'static str, facts: PolicyFacts) -> Kind {
    Kind::policy(name, "tests", short, facts, Language::of::<mesh::Mesh>())
}

static TIMEOUT: Kind = kind("MeshTimeout", "mt", facts(true, true, ConfShape::Default));
static FAULT: Kind = kind("MeshFaultInjection", "mfi", facts(true, false, ConfShape::Default));
static TRACE: Kind = kind("MeshTrace", "mtr", facts(false, false, ConfShape::Default));
static ROUTE: Kind =
    kind("MeshHTTPRoute", "mhttpr", facts(true, false, ConfShape::Routes)).legacy_names(LegacyNames::Nothing);
static RETRY: Kind = kind("MeshRetry", "mr", facts(true, false, ConfShape::Default)).without_effect("not yet");
static PASSTHROUGH: Kind = kind("MeshPassthrough", "mp", facts(false, false, ConfShape::Default));
static PERMISSION: Kind = kind("MeshTrafficPermission", "mtp", facts(true, false, ConfShape::Default));

const IN_FORCE: &[&str] = &["MeshTimeout", "MeshFaultInjection", "MeshTrace", "MeshHTTPRoute"];

#[derive(Default)]
struct World {
    policy_index: PolicyIndex,
    resources: Resources,
    proxies: BTreeMap<Arc<str>, Arc<Proxy>>,
    services: BTreeSet<String>,
    not_redirected: BTreeSet<Arc<str>>,
    identities: Vec<Identity>,
    otlp_backends: OtlpBackends,
    rollout: Rollout,
}

fn labels(pairs: &Value) -> Arc<Labels> {
    Arc::new(serde_json::from_value(pairs.clone()).unwrap())
}

fn policy(kind: &'static Kind, name: &str, pairs: &Value, spec: &Value) -> Arc<Policy> {
    let body = Body::read(&kind.policy.unwrap(), spec).unwrap();
    Arc::new(Policy { kind, mesh: "default".into(), name: name.into(), labels: labels(pairs), body })
}

impl World {
    /// `web` and `db`, with a proxy and a MeshService each.
    fn new() -> Self {
        let mut world = Self::default();
        world.resource(&mesh::KIND, "default", &json!({}));
        for name in ["web", "db"] {
            world.service(&format!("{name}-1"), name);
            world.resource(&mesh_service::KIND, name, &json!({ "team": name }));
        }
        world
    }

    /// Callers have certificates.
    fn with_mtls(mut self) -> Self {
        self.rollout.accept = InboundTls::Permissive;
        self.rollout.issuers.signer = Some("ca-1".into());
        self
    }

    fn service(&mut self, name: &str, service: &str) {
        let tags = json!({ "kuma.io/service": service });
        self.proxy(name, &json!({ "app": service }), &json!({ "inbound": [{ "port": 80, "tags": tags }] }));
    }

    fn proxy(&mut self, name: &str, pairs: &Value, networking: &Value) {
        let dataplane = serde_json::from_value(json!({ "networking": networking })).unwrap();
        let (name, dataplane): (Arc<str>, _) = (name.into(), Arc::new(dataplane));
        let proxy = Arc::new(Proxy {
            mesh: "default".into(),
            name: name.clone(),
            labels: labels(pairs),
            dataplane,
            admission: None,
        });
        self.services
            .extend(proxy.dataplane.inbounds().iter().filter_map(|inbound| inbound.service().map(str::to_owned)));
        self.policy_index.set_proxy(&name, Some(proxy.clone()));
        self.proxies.insert(name, proxy);
    }

    fn resource(&mut self, kind: &'static Kind, name: &str, pairs: &Value) {
        let mesh = if kind.name == "Mesh" { "" } else { "default" };
        let ports = vec![PortSection::of(80, Some("http"))];
        self.resources.insert(Resource { kind, mesh: mesh.into(), name: name.into(), labels: labels(pairs), ports });
    }

    fn put(&mut self, policy: &Arc<Policy>) {
        if policy.kind.name == ROUTE.name {
            self.resources.insert_route(policy.clone());
        }
        self.policy_index.set_policy(&(policy.kind.name, policy.name.clone()), Some(policy.clone()));
    }

    fn add(&mut self, kind: &'static Kind, name: &str, spec: &Value) -> Arc<Policy> {
        let policy = policy(kind, name, &json!({}), spec);
        self.put(&policy);
        policy
    }

    fn context(&self) -> PolicyStatusContext<'_> {
        let Self { policy_index, resources, proxies, services, not_redirected, identities, otlp_backends, rollout } =
            self;
        PolicyStatusContext {
            policy_index,
            resources,
            proxies,
            services,
            not_redirected,
            identities,
            otlp_backends,
            rollout,
            resolution: NameResolution::Both,
        }
    }

    fn status(&self, policy: &Arc<Policy>) -> PolicyStatus {
        of(policy, self.context())
    }
}

/// State, proxies, and each reason as `Why path: message [blamed]`.
fn shown(status: &PolicyStatus) -> (State, usize, Vec<String>) {
    let reason = |reason: &super::Reason| {
        let path = reason.path.as_deref().unwrap_or("all");
        format!("{:?} {path}: {} [{}]", reason.reason, reason.message, reason.policies.join(" "))
    };
    (status.state, status.proxies, status.reasons.iter().map(reason).collect())
}

fn everywhere(field: &str, value: u32) -> Value {
    json!([{ "targetRef": { "kind": "Mesh" }, "default": { field: value } }])
}

fn to_service(name: &str, field: &str, value: u32) -> Value {
    json!([{ "targetRef": { "kind": "MeshService", "name": name }, "default": { field: value } }])
}

fn dataplane(app: &str) -> Value {
    json!({ "kind": "Dataplane", "labels": { "app": app } })
}

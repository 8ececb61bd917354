//! Small policies and resources for tests.

use std::sync::Arc;

use kodiak_model::{
    Kind, Labels, Language, LegacyNames, PolicyFacts, PortSection,
    kinds::{mesh, mesh_external_service, mesh_service},
    policy::{Body, ConfShape},
};
use serde_json::Value;

use crate::{Policy, Resource, Resources};

const fn facts(conf: ConfShape, from_as_rules: bool) -> PolicyFacts {
    PolicyFacts { to: true, from: true, rules: true, from_as_rules, conf, order: 1 }
}

/// The language does not matter: bodies are read without validation.
const fn kind(name: &'static str, short: &'static str, facts: PolicyFacts) -> Kind {
    Kind::policy(name, "tests", short, facts, Language::of::<mesh::Mesh>())
}

pub(crate) static TIMEOUT: Kind = kind("MeshTimeout", "mt", facts(ConfShape::Default, true));
pub(crate) static FAULT: Kind = kind("MeshFaultInjection", "mfi", facts(ConfShape::Default, false));
pub(crate) static HTTP_ROUTE: Kind =
    kind("MeshHTTPRoute", "mhttpr", facts(ConfShape::Routes, false)).legacy_names(LegacyNames::Nothing);
pub(crate) static TCP_ROUTE: Kind =
    kind("MeshTCPRoute", "mtcpr", facts(ConfShape::FirstRule, false)).legacy_names(LegacyNames::Nothing);
pub(crate) static BALANCING: Kind = kind("MeshLoadBalancingStrategy", "mlbs", facts(ConfShape::Default, false))
    .legacy_names(LegacyNames::Only(&["a", "b"]));

pub(crate) fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn policy(kind: &'static Kind, name: &str, spec: &Value) -> Arc<Policy> {
    labelled(kind, name, &[], spec)
}

pub(crate) fn labelled(kind: &'static Kind, name: &str, pairs: &[(&str, &str)], spec: &Value) -> Arc<Policy> {
    let body = Body::read(&kind.policy.unwrap(), spec).unwrap();
    Arc::new(Policy { kind, mesh: "default".into(), name: name.into(), labels: Arc::new(labels(pairs)), body })
}

pub(crate) fn resource(kind: &'static Kind, name: &str, pairs: &[(&str, &str)], ports: &[(u32, &str)]) -> Resource {
    let ports = ports.iter().map(|(port, name)| PortSection::of(*port, Some(*name))).collect();
    let mesh = if kind.name == "Mesh" { "" } else { "default" };
    Resource { kind, mesh: mesh.into(), name: name.into(), labels: Arc::new(labels(pairs)), ports }
}

/// The mesh, a service on Kubernetes in two zones, one on Universal, and an external one.
pub(crate) fn resources() -> Resources {
    let mut resources = Resources::default();
    resources.insert(resource(&mesh::KIND, "default", &[], &[]));
    for zone in ["east", "west"] {
        let labels =
            [("kuma.io/display-name", "web"), ("kuma.io/zone", zone), ("k8s.kuma.io/namespace", "shop"), ("team", "a")];
        let name = format!("web-{zone}");
        resources.insert(resource(&mesh_service::KIND, &name, &labels, &[(80, "http"), (90, "")]));
    }
    resources.insert(resource(&mesh_service::KIND, "plain", &[("team", "a")], &[(80, "http")]));
    resources.insert(resource(&mesh_external_service::KIND, "far", &[], &[(443, "")]));
    resources
}

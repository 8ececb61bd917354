//! From an export of Kuma to resources of Kodiak.
//!
//! ```text
//!  documents --> facts: what the export says about each mesh
//!            --> mesh: CAs stay builtin, legacy backends become policies
//!            --> connection, and a file for each legacy kind: legacy policies to new ones
//!            --> KumaImport: documents to write, and the reasons for those that are left out
//! ```
//!
//! Kuma applies exactly one legacy policy of a kind to a connection, the most specific one; new policies are merged
//! field by field. [`connection`] converts policies only where both have the same result.
//!
//! **Invariant:** every document is valid: it has passed `check`.
//! **Invariant:** a field without a counterpart is never dropped silently; the resource is left out, with the reason.
//! **Invariant:** no conversion creates a CA or a key.

mod circuit_breaker;
mod connection;
mod external_service;
mod facts;
mod fault_injection;
mod fields;
mod health_check;
mod mesh;
mod metrics;
mod outcome;
mod permission;
mod proxy_template;
mod rate_limit;
mod retry;
mod route;
mod selector;
mod timeout;
mod traffic_log;
mod traffic_trace;
mod virtual_outbound;

use std::collections::BTreeMap;

use kodiak_kinds::{LegacyKind, kinds};
use kodiak_model::Scope;
use serde_json::Value;

use facts::MeshFacts;
use outcome::Outcomes;

pub use outcome::{ExportedResource, ImportedResource, KumaConversion, KumaImport, NotImported};

const DEFAULT_MESH: &str = "default";

/// CAs between a control plane and its proxies. Each control plane has its own.
const OF_THE_CONTROL_PLANE: [&str; 2] = ["envoy-admin-ca", "inter-cp-ca"];

/// A legacy policy of one mesh.
#[derive(Debug, Clone)]
struct LegacyPolicy {
    resource: ExportedResource,
    document: Value,
}

/// Converts an export. `documents` are resources in the Universal format, with or without their status.
pub fn import(documents: Vec<Value>) -> KumaImport {
    let facts = facts::of(&documents);
    let none = MeshFacts::default();
    let mut out = Outcomes::default();
    let mut legacy: BTreeMap<(&str, String), Vec<LegacyPolicy>> = BTreeMap::new();
    for document in documents {
        let resource = resource_of(&document);
        let ExportedResource { kind, mesh, name } = &resource;
        if let Some(known) = LegacyKind::by_name(kind) {
            let policies = legacy.entry((known.name, mesh.clone())).or_default();
            policies.push(LegacyPolicy { resource, document });
            continue;
        }
        let Some(known) = kinds().by_name(kind) else {
            let reason = if kind.is_empty() {
                "the document has no type".to_owned()
            } else {
                format!("Kodiak does not have the kind {kind}")
            };
            out.leave_out(resource, reason, "remove what depends on it");
            continue;
        };
        if known.read_only() {
            out.skip(resource, "it is observed, and the new control plane observes it itself");
        } else if known.name == "GlobalSecret" && OF_THE_CONTROL_PLANE.contains(&name.as_str()) {
            out.skip(resource, "each control plane has its own");
        } else if known.name == "Mesh" {
            let facts = facts.get(name).unwrap_or(&none);
            mesh::import(&resource, document, facts, &mut out);
        } else {
            out.take_over(resource, document);
        }
    }
    for ((kind, mesh), policies) in legacy {
        let facts = facts.get(&mesh).unwrap_or(&none);
        convert(kind, policies, facts, &mut out);
    }
    out.finish()
}

fn convert(kind: &str, policies: Vec<LegacyPolicy>, facts: &MeshFacts, out: &mut Outcomes) {
    match kind {
        "Timeout" => connection::convert(&timeout::KIND, policies, facts, out),
        "Retry" => connection::convert(&retry::KIND, policies, facts, out),
        "CircuitBreaker" => connection::convert(&circuit_breaker::KIND, policies, facts, out),
        "HealthCheck" => connection::convert(&health_check::KIND, policies, facts, out),
        "RateLimit" => connection::convert(&rate_limit::KIND, policies, facts, out),
        "FaultInjection" => connection::convert(&fault_injection::KIND, policies, facts, out),
        "TrafficLog" => connection::convert(&traffic_log::KIND, policies, facts, out),
        "TrafficTrace" => connection::convert(&traffic_trace::KIND, policies, facts, out),
        "ProxyTemplate" => connection::convert(&proxy_template::KIND, policies, facts, out),
        "TrafficPermission" => permission::convert(policies, facts, out),
        "TrafficRoute" => route::convert(policies, facts, out),
        "ExternalService" => external_service::convert(policies, out),
        "VirtualOutbound" => virtual_outbound::convert(policies, facts, out),
        _ => {
            for LegacyPolicy { resource, .. } in policies {
                let reason = "Kodiak does not configure listeners of builtin gateways".to_owned();
                out.leave_out(resource, reason, "use a delegated gateway");
            }
        }
    }
}

fn resource_of(document: &Value) -> ExportedResource {
    let text = |field: &str| document.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = text("type");
    let is_global = kinds().by_name(&kind).is_some_and(|kind| kind.scope == Scope::Global);
    let mesh = match text("mesh") {
        _ if is_global => String::new(),
        mesh if mesh.is_empty() => DEFAULT_MESH.to_owned(),
        mesh => mesh,
    };
    ExportedResource { kind, mesh, name: text("name") }
}

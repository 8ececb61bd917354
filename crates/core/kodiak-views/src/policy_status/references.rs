//! What a policy refers to, and whether it is there.

use std::collections::BTreeMap;

use kodiak_model::{BackendRef, Kri, TargetKind, TargetRef, labels};
use kodiak_rules::Policy;
use serde_json::Value;

use super::{Context, Reason, Why};

/// The paths of all that a policy says.
pub(super) fn parts(policy: &Policy) -> Vec<String> {
    let list = |name: &str, count: usize| (0..count).map(|n| format!("spec.{name}[{n}]")).collect::<Vec<_>>();
    let body = &policy.body;
    [list("to", body.to.len()), list("from", body.from.len()), list("rules", body.rules.len())].concat()
}

pub(super) fn find(policy: &Policy, context: Context<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut missing = |path: String, message: String| {
        reasons.push(Reason { reason: Why::Unresolved, message, path: Some(path), policies: Vec::new() });
    };
    for (n, item) in policy.body.to.iter().enumerate() {
        let path = format!("spec.to[{n}]");
        if !is_there(&item.target, policy, context) {
            missing(path.clone(), format!("there is no {}", named(&item.target)));
        }
        for backend in backends(item.conf.json()) {
            let target = target(&backend);
            if !is_real(&backend) && is_there(&target, policy, context) {
                continue;
            }
            let why = if is_real(&backend) { "is not called by port yet" } else { "is not there" };
            missing(format!("{path}.backendRefs"), format!("the backend {} {why}", named(&target)));
        }
    }
    for (n, item) in policy.body.from.iter().enumerate() {
        let by_name = item.target.name.as_deref().is_some_and(|name| !name.is_empty());
        if item.target.known_kind() == Some(TargetKind::MeshService) && !by_name {
            missing(
                format!("spec.from[{n}]"),
                "callers are known by their tags, not by labels of a service".to_owned(),
            );
        }
    }
    reasons
}

/// Whether anything is meant by it.
fn is_there(target: &TargetRef, policy: &Policy, context: Context<'_>) -> bool {
    let kind = match target.known_kind() {
        Some(TargetKind::MeshService | TargetKind::MeshServiceSubset) => {
            if target.name.as_deref().is_some_and(|name| context.services.contains(name)) {
                return true;
            }
            "MeshService"
        }
        Some(TargetKind::MeshExternalService) => "MeshExternalService",
        Some(TargetKind::MeshMultiZoneService) => "MeshMultiZoneService",
        Some(TargetKind::MeshHTTPRoute) => "MeshHTTPRoute",
        Some(TargetKind::Mesh | TargetKind::MeshSubset | TargetKind::MeshGateway | TargetKind::Dataplane) | None => {
            return true;
        }
    };
    if let Some(labels) = &target.labels {
        return !context.resources.by_labels(kind, &policy.mesh, labels).is_empty();
    }
    let name = target.name.clone().unwrap_or_default();
    let short = match kind {
        "MeshService" => "msvc",
        "MeshExternalService" => "extsvc",
        "MeshMultiZoneService" => "mzsvc",
        _ => "mhttpr",
    };
    let meta = policy.meta();
    let namespace = target.namespace.clone().filter(|text| !text.is_empty());
    let kri = Kri {
        short,
        mesh: policy.mesh.to_string(),
        zone: meta.zone().unwrap_or_default().to_owned(),
        namespace: namespace.unwrap_or_else(|| meta.namespace().unwrap_or_default().to_owned()),
        name: name.clone(),
        section: String::new(),
    };
    context.resources.by_kri(&kri).is_some() || by_old_name(&name, policy, context)
}

/// `<name>_<namespace>_svc_<port>`
fn by_old_name(name: &str, policy: &Policy, context: Context<'_>) -> bool {
    let parts: Vec<&str> = name.split('_').collect();
    let [service, namespace, _, ..] = parts.as_slice() else { return false };
    let wanted = BTreeMap::from([
        (labels::DISPLAY_NAME.to_owned(), (*service).to_owned()),
        (labels::NAMESPACE.to_owned(), (*namespace).to_owned()),
    ]);
    !context.resources.by_labels("MeshService", &policy.mesh, &wanted).is_empty()
}

/// Wherever they stand in the conf of a route.
fn backends(conf: &Value) -> Vec<BackendRef> {
    let read = |value: &Value| serde_json::from_value::<BackendRef>(value.clone()).ok();
    match conf {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| match (name.as_str(), value) {
                ("backendRefs", Value::Array(list)) => list.iter().filter_map(read).collect(),
                ("backendRef", value) => read(value).into_iter().collect(),
                _ => backends(value),
            })
            .collect(),
        Value::Array(list) => list.iter().flat_map(backends).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// Whether it means an object and not a value of `kuma.io/service`.
fn is_real(backend: &BackendRef) -> bool {
    match backend.kind.as_ref().and_then(kodiak_model::Choice::known) {
        Some(TargetKind::MeshService) => backend.port.is_some() || backend.section_name.is_some(),
        Some(TargetKind::MeshExternalService | TargetKind::MeshMultiZoneService) => true,
        _ => false,
    }
}

fn target(backend: &BackendRef) -> TargetRef {
    let BackendRef { kind, name, namespace, labels, .. } = backend.clone();
    TargetRef { kind, name, namespace, labels, ..TargetRef::default() }
}

fn named(target: &TargetRef) -> String {
    let kind = target.kind.as_ref().map(ToString::to_string).unwrap_or_default();
    match (&target.name, &target.labels) {
        (Some(name), _) => format!("{kind} {name:?}"),
        (None, Some(labels)) => {
            let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("{kind} labelled {}", pairs.join(", "))
        }
        (None, None) => kind,
    }
}

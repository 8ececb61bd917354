//! What a policy refers to, and whether it is there.

use std::{slice, sync::Arc};

use kodiak_model::{
    BackendRef, TargetKind, TargetRef,
    policy::{Body, Item},
};
use kodiak_rules::{Policy, outbound};
use serde_json::Value;

use super::{Context, Reason, Why, followed::is_for_route};

pub(super) fn find(policy: &Policy, context: Context<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut missing = |path: String, message: String| reasons.push(Reason::new(Why::Unresolved, message).at(path));
    for (n, item) in policy.body.to.iter().enumerate() {
        let path = format!("spec.to[{n}]");
        if !is_there(item, policy, context) {
            let target = named(&item.target);
            let later = !context.objects && is_resource(item, policy, context);
            let message = if later {
                format!("{target} is not called as an object yet: name a kuma.io/service")
            } else {
                format!("there is no {target}")
            };
            missing(path.clone(), message);
        }
        let mut seen = Vec::new();
        for backend in backends(item.conf.json()).filter(|backend| !is_reached(backend, policy, context)) {
            let why = if is_real(&backend) { "is not called by port yet" } else { "is not there" };
            let message = format!("the backend {} {why}", named(&target(&backend)));
            if !seen.contains(&message) {
                missing(format!("{path}.backendRefs"), message.clone());
                seen.push(message);
            }
        }
    }
    for (n, item) in policy.body.from.iter().enumerate() {
        let by_name = item.target.name.as_deref().is_some_and(|name| !name.is_empty());
        if item.target.known_kind() == Some(TargetKind::MeshService) && !by_name {
            let message = "callers are known by their tags, not by labels of a service";
            missing(format!("spec.from[{n}]"), message.to_owned());
        }
    }
    reasons
}

/// Whether an item of `to` means anything: a tag that proxies have, or a resource. What is for a route, is for the
/// destinations of the route.
pub(super) fn is_there(item: &Item, policy: &Policy, context: Context<'_>) -> bool {
    if is_for_route(policy) {
        return true;
    }
    let TargetRef { name, section_name, .. } = &item.target;
    match item.target.known_kind() {
        Some(TargetKind::MeshService | TargetKind::MeshServiceSubset) => {
            let whole = section_name.as_deref().is_none_or(str::is_empty);
            let by_tag = whole && name.as_deref().is_some_and(|name| context.services.contains(name));
            by_tag || (context.objects && is_resource(item, policy, context))
        }
        Some(TargetKind::MeshExternalService | TargetKind::MeshMultiZoneService | TargetKind::MeshHTTPRoute) => {
            context.objects && is_resource(item, policy, context)
        }
        Some(TargetKind::Mesh | TargetKind::MeshSubset | TargetKind::MeshGateway | TargetKind::Dataplane) | None => {
            true
        }
    }
}

/// As rules for destinations would find it.
fn is_resource(item: &Item, policy: &Policy, context: Context<'_>) -> bool {
    let body = Body { to: vec![item.clone()], ..Body::default() };
    let alone = Arc::new(Policy { body, ..policy.clone() });
    !outbound::rules(slice::from_ref(&alone), context.resources).is_empty()
}

fn is_reached(backend: &BackendRef, policy: &Policy, context: Context<'_>) -> bool {
    let item = Item { target: target(backend), conf: <_>::default() };
    !is_real(backend) && is_there(&item, policy, context)
}

/// Wherever they stand in the conf of a route.
fn backends(conf: &Value) -> impl Iterator<Item = BackendRef> {
    let mut found = Vec::new();
    collect(conf, &mut found);
    found.into_iter()
}

fn collect(conf: &Value, found: &mut Vec<BackendRef>) {
    let read = |value: &Value| serde_json::from_value::<BackendRef>(value.clone()).ok();
    match conf {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("backendRefs", Value::Array(list)) => found.extend(list.iter().filter_map(read)),
                    ("backendRef", value) => found.extend(read(value)),
                    _ => collect(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
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
    let mut text = match (&target.name, &target.labels) {
        (Some(name), _) => format!("{kind} {name:?}"),
        (None, Some(labels)) => {
            let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("{kind} labelled {}", pairs.join(", "))
        }
        (None, None) => kind,
    };
    if let Some(section) = target.section_name.as_deref().filter(|section| !section.is_empty()) {
        text = format!("{text} with a port {section:?}");
    }
    text
}

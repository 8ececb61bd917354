//! References of a policy, and whether their targets exist.

use std::{slice, sync::Arc};

use kodiak_model::{
    BackendRef, TargetKind, TargetRef,
    policy::{Body, Item},
};
use kodiak_policies::otlp_backends::Unresolved;
use kodiak_rules::{
    Policy,
    outbound::{Asked, NameResolution, ResourceRule, ResourceRules},
};
use serde_json::Value;

use super::{PolicyStatusContext, Reason, Why, followed::is_for_route};

pub(super) fn find(policy: &Policy, context: PolicyStatusContext<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut missing = |path: String, message: String| reasons.push(Reason::new(Why::Unresolved, message).at(path));
    if is_for_route(policy) && context.resolution == NameResolution::Objects {
        let message = "this way of naming a route is about values of kuma.io/service, which nobody calls in this mesh: \
                       name the MeshHTTPRoute in spec.to";
        missing("spec.targetRef".to_owned(), message.to_owned());
    }
    for (n, item) in policy.body.to.iter().enumerate() {
        let path = format!("spec.to[{n}]");
        if !is_there(item, policy, context) {
            missing(path.clone(), why_missing(item, policy, context));
        }
        let mut seen = Vec::new();
        for backend in backends(item.conf.json()).filter(|backend| !is_reached(backend, policy, context)) {
            let port = backend.port.map(|port| format!(" at port {port}")).unwrap_or_default();
            let backend_name = named(&target(&backend));
            let message = if backend.is_legacy() && context.resolution == NameResolution::Objects {
                format!(
                    "the backend {backend_name} without a port is a value of kuma.io/service, which nobody calls in this \
                     mesh: write the port of the MeshService"
                )
            } else {
                format!("the backend {backend_name}{port} does not exist")
            };
            if !seen.contains(&message) {
                missing(format!("{path}.backendRefs"), message.clone());
                seen.push(message);
            }
        }
    }
    for (n, item) in policy.body.from.iter().enumerate() {
        let by_name = item.target.name.as_deref().is_some_and(|name| !name.is_empty());
        if item.target.known_kind() == Some(TargetKind::MeshService) && !by_name {
            let message = "callers are identified by their tags, not by labels of a service";
            missing(format!("spec.from[{n}]"), message.to_owned());
        }
    }
    for Unresolved { path, message } in context.otlp_backends.unresolved(&policy.body) {
        missing(path, message);
    }
    reasons
}

/// Whether the target of an item of `to` exists: a tag that proxies have, or a resource. A route targets its own
/// destinations.
pub(super) fn is_there(item: &Item, policy: &Policy, context: PolicyStatusContext<'_>) -> bool {
    if is_for_route(policy) {
        return true;
    }
    match item.target.known_kind() {
        Some(TargetKind::MeshService | TargetKind::MeshServiceSubset) => {
            is_called(&item.target, context) || is_resource(item, policy, context)
        }
        Some(TargetKind::MeshExternalService | TargetKind::MeshMultiZoneService | TargetKind::MeshHTTPRoute) => {
            is_resource(item, policy, context)
        }
        Some(TargetKind::Mesh | TargetKind::MeshSubset | TargetKind::MeshGateway | TargetKind::Dataplane) | None => {
            true
        }
    }
}

/// Message with advice, where another resource has the name.
fn why_missing(item: &Item, policy: &Policy, context: PolicyStatusContext<'_>) -> String {
    let target = named(&item.target);
    let in_other_era = match context.resolution {
        NameResolution::Both => {
            is_resource(item, policy, PolicyStatusContext { resolution: NameResolution::Objects, ..context })
        }
        NameResolution::Objects => is_tag(&item.target, context),
    };
    match (in_other_era, context.resolution) {
        (false, _) => format!("there is no {target}"),
        (true, NameResolution::Both) => {
            format!("{target} is an object, and without sectionName a value of kuma.io/service is meant: add it")
        }
        (true, NameResolution::Objects) => {
            format!("{target} is a value of kuma.io/service, which nobody calls in this mesh: name the object")
        }
    }
}

/// Whether it matches tags of destinations.
pub(super) fn is_called(target: &TargetRef, context: PolicyStatusContext<'_>) -> bool {
    let is_service = matches!(target.known_kind(), Some(TargetKind::MeshService | TargetKind::MeshServiceSubset));
    context.resolution == NameResolution::Both && (!is_service || is_tag(target, context))
}

/// Whether it is a value of `kuma.io/service` that proxies have.
fn is_tag(target: &TargetRef, context: PolicyStatusContext<'_>) -> bool {
    !target.has_section() && target.name.as_deref().is_some_and(|name| context.services.contains(name))
}

/// Lookup as in the rules for destinations.
fn is_resource(item: &Item, policy: &Policy, context: PolicyStatusContext<'_>) -> bool {
    !resources(item, policy, context).is_empty()
}

fn resources(item: &Item, policy: &Policy, context: PolicyStatusContext<'_>) -> ResourceRules {
    let body = Body { to: vec![item.clone()], ..Body::default() };
    let alone = Arc::new(Policy { body, ..policy.clone() });
    Asked::new(slice::from_ref(&alone), context.resolution).rules(context.resources)
}

fn is_reached(backend: &BackendRef, policy: &Policy, context: PolicyStatusContext<'_>) -> bool {
    if backend.is_legacy() {
        return is_called(&target(backend), context);
    }
    let item = Item { target: target(backend), conf: <_>::default() };
    // With a port, a name is that of an object in both eras.
    let found = resources(&item, policy, PolicyStatusContext { resolution: NameResolution::Objects, ..context });
    let has_port = |rule: &ResourceRule| {
        backend.port.is_none_or(|number| rule.resource.ports.iter().any(|port| port.port == number))
    };
    found.values().any(has_port)
}

/// Backend references anywhere in the conf of a route. Those to MeshOpenTelemetryBackends are no destinations.
fn backends(conf: &Value) -> impl Iterator<Item = BackendRef> {
    let mut found = Vec::new();
    collect(conf, &mut found);
    found.into_iter()
}

fn collect(conf: &Value, found: &mut Vec<BackendRef>) {
    let is_destination = |backend: &BackendRef| backend.kind.as_ref().is_none_or(|kind| kind.known().is_some());
    let read = |value: &Value| serde_json::from_value(value.clone()).ok().filter(is_destination);
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

fn target(backend: &BackendRef) -> TargetRef {
    let BackendRef { kind, name, namespace, labels, section_name, .. } = backend.clone();
    TargetRef { kind, name, namespace, labels, section_name, ..TargetRef::default() }
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

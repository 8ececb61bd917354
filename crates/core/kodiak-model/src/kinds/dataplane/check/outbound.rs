//! Validation of an outbound.

use crate::{
    Choice, FieldPath, Problems, Word,
    address::{check_ip, check_port},
    kinds::dataplane::{BackendKind, Outbound, OutboundBackendRef},
    tags,
};

pub(super) fn check(outbound: &Outbound, at: &FieldPath<'_>, problems: &mut Problems) {
    let Outbound { address, port, tags, backend_ref } = outbound;
    check_port(*port, &at.field("port"), problems);
    check_ip(address, &at.field("address"), problems);
    if let Some(backend_ref) = backend_ref {
        let at = at.field("backendRef");
        check_backend_ref(backend_ref, &at, problems);
        problems.require(tags.is_empty(), &at, "both backendRef and tags/service cannot be defined");
    } else {
        let at = at.field("tags");
        tags::check_values(tags, &at, problems);
        super::require_service(tags, &at, problems);
    }
}

fn check_backend_ref(backend_ref: &OutboundBackendRef, at: &FieldPath<'_>, problems: &mut Problems) {
    let OutboundBackendRef { kind, name, namespace, port, labels } = backend_ref;
    check_kind(kind.as_ref(), at, problems);
    let chosen = !name.is_empty() || !labels.is_empty();
    problems.require(chosen, at, "either 'name' or 'labels' should be specified");
    let is_one = name.is_empty() || labels.is_empty();
    problems.require(is_one, &at.field("labels"), "labels cannot be defined when name is specified");
    let placed = namespace.is_empty() || !name.is_empty();
    problems.require(placed, &at.field("name"), "name is required, when namespace is defined");
    // A MeshExternalService has one port, so that a reference without it is clear. Kuma does not require it either.
    if !kind.as_ref().is_some_and(|kind| kind.is(BackendKind::MeshExternalService)) {
        check_port(*port, &at.field("port"), problems);
    }
}

pub(super) fn check_kind(kind: Option<&Choice<BackendKind>>, at: &FieldPath<'_>, problems: &mut Problems) {
    if kind.and_then(Choice::known).is_none() {
        let kinds: Vec<&str> = BackendKind::ALL.iter().map(|(text, _)| *text).collect();
        problems.add(&at.field("kind"), format!("invalid value. Available values are: {}", kinds.join(",")));
    }
}

//! Validation of reachable backends.

use super::outbound::check_kind;
use crate::{
    FieldPath, Problems,
    address::check_port,
    kinds::dataplane::{ReachableBackendRef, ReachableBackends, TransparentProxying},
    names,
};

/// Kuma's paths omit the `y`.
const FIELD: &str = "transparentProxing";

pub(super) fn check(transparent_proxying: &TransparentProxying, at: &FieldPath<'_>, problems: &mut Problems) {
    if let Some(mode) = &transparent_proxying.ip_family_mode {
        mode.check(&at.field("transparentProxying"), "ipFamilyMode", problems);
    }
    let Some(backends) = &transparent_proxying.reachable_backends else { return };
    let at = at.field(FIELD);
    check_backends(backends, &at.field("reachableBackends"), problems);
}

/// Rules of the field of a Dataplane, and of the annotation of a Pod.
pub(in crate::kinds::dataplane) fn check_backends(
    backends: &ReachableBackends,
    at: &FieldPath<'_>,
    problems: &mut Problems,
) {
    let at = at.field("refs");
    for (n, backend) in backends.refs.iter().enumerate() {
        check_ref(backend, &at.index(n), problems);
    }
}

fn check_ref(backend: &ReachableBackendRef, at: &FieldPath<'_>, problems: &mut Problems) {
    let ReachableBackendRef { kind, name, namespace, port, labels } = backend;
    check_kind(kind.as_ref(), at, problems);
    let at_name = at.field("name");
    match (name.as_str(), namespace.as_str()) {
        ("", "") => problems.require(labels.is_some(), &at_name, "name or labels are required"),
        ("", _) => problems.add(&at_name, "name is required, when namespace is defined"),
        (name, _) => {
            if let Some(fault) = names::fault(name) {
                problems.add(&at_name, fault);
            }
        }
    }
    if let Some(port) = port {
        check_port(*port, &at.field("port"), problems);
    }
    let named = !name.is_empty() || !namespace.is_empty();
    // Beside a name, an empty map means nothing.
    if labels.as_ref().is_none_or(|labels| labels.is_empty() && named) {
        return;
    }
    problems.require(!named, &at.field("labels"), "labels cannot be defined when name is specified");
    problems.require(
        port.is_none(),
        &at.field("port"),
        "port cannot be defined together with labels; list the services by name to choose a port",
    );
}

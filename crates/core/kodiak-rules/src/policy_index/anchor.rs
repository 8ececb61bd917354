//! Index keys of policies and proxies.
//!
//! A policy is stored under one anchor that every selected proxy has; a proxy has many. Hash collisions are possible: a
//! match by anchor must be verified.

use std::hash::{DefaultHasher, Hash, Hasher};

use kodiak_model::{Labels, TargetKind, TargetRef, labels, tags};

use crate::{Gateway, Meta, Policy, Proxy, Role, Routes, select::kind_of};

/// A hash, so that it is small, cheap to compare and owns nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Anchor(u64);

#[derive(Hash)]
enum By<'a> {
    Everyone,
    Namespace(&'a str),
    Name(&'a str),
    Gateway(&'a str),
    Tag(&'a str, &'a str),
    Label(&'a str, &'a str),
}

impl From<By<'_>> for Anchor {
    fn from(by: By<'_>) -> Self {
        let mut hasher = DefaultHasher::new();
        by.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Tags and labels that many proxies have.
const WIDE: [&str; 7] =
    [labels::MESH, labels::ORIGIN, labels::ZONE, labels::ENV, labels::PROXY_TYPE, labels::NAMESPACE, tags::PROTOCOL];

/// Whether many proxies share each value of a tag or label.
pub(crate) fn is_wide(key: &str) -> bool {
    WIDE.contains(&key)
}

pub(super) fn of_policy(policy: &Policy, routes: &Routes) -> Anchor {
    let meta = policy.meta();
    let target = policy.body.target.as_ref();
    let narrow = match (kind_of(target), target) {
        (Some(TargetKind::MeshHTTPRoute), Some(target)) => followed(target)
            .and_then(|name| routes.find(meta.mesh, name))
            .and_then(|route| route.body.target.as_ref())
            .and_then(narrowed),
        (_, Some(target)) => narrowed(target),
        (_, None) => None,
    };
    narrow.unwrap_or_else(|| widest(&meta)).into()
}

/// Name of the route that a target references.
pub(super) fn followed(target: &TargetRef) -> Option<&str> {
    (target.known_kind() == Some(TargetKind::MeshHTTPRoute)).then(|| target.name.as_deref().unwrap_or_default())
}

/// The anchor of all proxies that a policy can apply to, whatever its target.
fn widest<'a>(policy: &Meta<'a>) -> By<'a> {
    match (policy.role(), policy.namespace()) {
        (Role::Consumer | Role::WorkloadOwner, Some(namespace)) => By::Namespace(namespace),
        _ => By::Everyone,
    }
}

/// An anchor that all selected proxies have. `None` when there is none, or when the target selects nothing.
fn narrowed(target: &TargetRef) -> Option<By<'_>> {
    let TargetRef { name, tags, labels, .. } = target;
    let name = name.as_deref().filter(|name| !name.is_empty());
    match target.known_kind()? {
        TargetKind::MeshSubset => tags.as_ref().and_then(narrowest).map(|(key, value)| By::Tag(key, value)),
        TargetKind::MeshService | TargetKind::MeshServiceSubset => {
            name.filter(|name| *name != "*").map(|name| By::Tag(tags::SERVICE, name))
        }
        TargetKind::MeshGateway => name.map(By::Gateway),
        TargetKind::Dataplane => match name {
            Some(name) => Some(By::Name(name)),
            None => labels.as_ref().and_then(narrowest).map(|(key, value)| By::Label(key, value)),
        },
        TargetKind::Mesh
        | TargetKind::MeshExternalService
        | TargetKind::MeshMultiZoneService
        | TargetKind::MeshHTTPRoute => None,
    }
}

/// The pair that probably the fewest proxies have.
fn narrowest(wanted: &Labels) -> Option<(&str, &str)> {
    let exact = wanted.iter().filter(|(_, value)| *value != "*").map(|(key, value)| (key.as_str(), value.as_str()));
    exact.min_by_key(|(key, _)| (*key != tags::SERVICE, is_wide(key)))
}

/// Sorted, without duplicates.
pub(super) fn of_proxy(proxy: &Proxy, gateway: Option<&Gateway>) -> Vec<Anchor> {
    let meta = proxy.meta();
    let mut anchors = vec![By::Everyone.into(), By::Name(meta.display_name()).into()];
    anchors.extend(meta.namespace().map(|namespace| Anchor::from(By::Namespace(namespace))));
    anchors.extend(proxy.labels.iter().map(|(key, value)| Anchor::from(By::Label(key, value))));
    let of_gateway = gateway.into_iter().flat_map(|gateway| {
        let listeners = gateway.spec.listeners().iter().map(|listener| &listener.tags);
        listeners.chain([&gateway.spec.tags])
    });
    for tags in proxy.dataplane.tag_sets().chain(of_gateway) {
        anchors.extend(tags.iter().map(|(key, value)| Anchor::from(By::Tag(key, value))));
    }
    anchors.extend(gateway.map(|gateway| Anchor::from(By::Gateway(gateway.meta().display_name()))));
    anchors.sort_unstable();
    anchors.dedup();
    anchors
}

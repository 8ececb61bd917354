//! Which inbounds of a proxy a policy selects.

use std::collections::BTreeMap;

use kodiak_model::{
    ProxyType, TargetKind, TargetRef,
    kinds::dataplane::{Dataplane, Inbound, Listener},
    tags,
};

use crate::{Meta, Origin, Policy, Proxy, Role};

/// What of a proxy a policy selects. Nothing by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// The policy applies to this proxy: what does not belong to an inbound follows it.
    pub proxy: bool,
    /// Indexes into `networking.inbound`, ascending.
    pub inbounds: Vec<usize>,
    /// Indexes into `networking.listeners`, ascending.
    pub listeners: Vec<usize>,
}

/// Whether policies that are only tried out count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shadow {
    #[default]
    Ignored,
    Included,
}

pub fn select(policy: &Policy, proxy: &Proxy, shadow: Shadow) -> Selection {
    let (meta, target, dataplane) = (&policy.meta(), policy.body.target.as_ref(), &*proxy.dataplane);
    let proxy = &proxy.meta();
    let hidden = meta.is_shadow() && shadow == Shadow::Ignored;
    if hidden || meta.mesh != proxy.mesh || !in_zone(meta, proxy) || !in_namespace(meta, proxy) {
        return Selection::default();
    }
    let everything = TargetRef::default();
    let (kind, target) = target.map_or((Some(TargetKind::Mesh), &everything), |target| (target.known_kind(), target));
    match kind {
        Some(TargetKind::Mesh) if takes_type(target, dataplane) => whole(dataplane),
        Some(TargetKind::MeshSubset) if takes_type(target, dataplane) => by_tags(dataplane, None, target.tags.as_ref()),
        Some(TargetKind::MeshService) if target.name.is_some() => by_tags(dataplane, target.name.as_deref(), None),
        Some(TargetKind::MeshServiceSubset) if target.name.is_some() => {
            by_tags(dataplane, target.name.as_deref(), target.tags.as_ref())
        }
        Some(TargetKind::Dataplane) if !dataplane.is_builtin_gateway() && is_meant(target, meta, proxy) => {
            by_section(dataplane, target.section_name.as_deref())
        }
        // The rest are gateways and routes, which no proxy here serves, and what is no target of a policy.
        _ => Selection::default(),
    }
}

/// What a zone made is for its own proxies, unless it is for the callers of a service that it offers to all zones.
fn in_zone(policy: &Meta<'_>, proxy: &Meta<'_>) -> bool {
    if policy.role() == Role::Producer || proxy.origin() != Origin::Zone || policy.origin() != Origin::Zone {
        return true;
    }
    policy.zone().is_none_or(|zone| proxy.zone().is_none_or(|own| own == zone))
}

/// The owners of a namespace decide for their own proxies only.
fn in_namespace(policy: &Meta<'_>, proxy: &Meta<'_>) -> bool {
    match policy.role() {
        Role::System | Role::Producer => true,
        Role::Consumer | Role::WorkloadOwner => {
            policy.namespace().is_some_and(|namespace| proxy.namespace() == Some(namespace))
        }
    }
}

fn takes_type(target: &TargetRef, dataplane: &Dataplane) -> bool {
    let own = if dataplane.gateway().is_some() { ProxyType::Gateway } else { ProxyType::Sidecar };
    target.proxy_types.as_ref().is_none_or(|types| types.is_empty() || types.iter().any(|each| each.is(own)))
}

fn whole(dataplane: &Dataplane) -> Selection {
    let inbounds = (0..dataplane.inbounds().len()).collect();
    Selection { proxy: true, inbounds, listeners: (0..dataplane.listeners().len()).collect() }
}

/// Each inbound by its own tags: those of the others do not count.
fn by_tags(dataplane: &Dataplane, service: Option<&str>, wanted: Option<&BTreeMap<String, String>>) -> Selection {
    let selected = |own: &BTreeMap<String, String>| {
        let has = |key: &str, value: &str| own.get(key).is_some_and(|tag| value == "*" || tag == value);
        service.is_none_or(|service| has(tags::SERVICE, service))
            && wanted.into_iter().flatten().all(|(key, value)| has(key, value))
    };
    let inbounds = indexes(dataplane.inbounds(), |inbound| selected(&inbound.tags));
    let gateway = dataplane.gateway().is_some_and(|gateway| selected(&gateway.tags));
    Selection { proxy: gateway || !inbounds.is_empty(), inbounds, listeners: Vec::new() }
}

/// A name means a proxy where the policy is from: of its zone and, where none is written, of its namespace.
fn is_meant(target: &TargetRef, policy: &Meta<'_>, proxy: &Meta<'_>) -> bool {
    let TargetRef { name, namespace, labels, .. } = target;
    let given = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    if given(name) {
        let namespace = namespace.as_deref().filter(|text| !text.is_empty()).or(policy.namespace());
        return name.as_deref() == Some(proxy.display_name())
            && namespace == proxy.namespace()
            && policy.zone() == proxy.zone();
    }
    match labels {
        Some(labels) => labels.iter().all(|(key, value)| proxy.labels.get(key) == Some(value)),
        None => !given(namespace),
    }
}

fn by_section(dataplane: &Dataplane, section: Option<&str>) -> Selection {
    let Some(section) = section.filter(|section| !section.is_empty()) else { return whole(dataplane) };
    let inbounds = indexes(dataplane.inbounds(), |inbound: &Inbound| inbound.section_name() == section);
    let listeners = indexes(dataplane.listeners(), |listener: &Listener| listener.section_name() == section);
    Selection { proxy: !inbounds.is_empty() || !listeners.is_empty(), inbounds, listeners }
}

fn indexes<T>(list: &[T], wanted: impl Fn(&T) -> bool) -> Vec<usize> {
    list.iter().enumerate().filter(|(_, each)| wanted(each)).map(|(n, _)| n).collect()
}

//! Selection of inbounds and listeners by a policy.

use std::collections::BTreeMap;

use kodiak_model::{
    ProxyType, TargetKind, TargetRef,
    kinds::dataplane::{Dataplane, Inbound},
    tags,
};

use crate::{Gateway, Meta, Origin, Policy, Proxy, Role, Routes, gateway::Listener, tags::Tags};

/// The parts of a proxy that a policy selects. Empty by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Selection {
    /// The policy applies to everything that does not belong to an inbound.
    pub proxy: bool,
    /// Indexes into `networking.inbound`, ascending. Includes ignored inbounds: their state does not affect matching.
    pub inbounds: Vec<usize>,
    /// Indexes into `networking.listeners`, ascending.
    pub listeners: Vec<usize>,
    /// Of a builtin gateway.
    pub gateway: Vec<Listener>,
    /// Why the policy could not be resolved, in Kuma's wording.
    pub warning: Option<String>,
}

/// Whether shadow policies are included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shadow {
    #[default]
    Ignored,
    Included,
}

/// Other resources that selection needs.
#[derive(Debug, Clone, Copy, Default)]
pub struct SelectionContext<'a> {
    /// The MeshGateway of the proxy.
    pub gateway: Option<&'a Gateway>,
    pub routes: Option<&'a Routes>,
}

pub fn select(policy: &Policy, proxy: &Proxy, context: SelectionContext<'_>, shadow: Shadow) -> Selection {
    let meta = &policy.meta();
    if (meta.is_shadow() && shadow == Shadow::Ignored) || !is_for(meta, proxy, context) {
        return Selection::default();
    }
    let target = policy.body.target.as_ref();
    let found = if kind_of(target) == Some(TargetKind::MeshHTTPRoute) {
        let name = target.and_then(|target| target.name.as_deref()).unwrap_or_default();
        let route = context.routes.and_then(|routes| routes.find(meta.mesh, name));
        match route {
            Some(route) if !is_for(&route.meta(), proxy, context) => Ok(Selection::default()),
            Some(route) => by_target(&route.meta(), route.body.target.as_ref(), proxy, context),
            None => Err(format!("couldn't resolve MeshHTTPRoute targetRef with name '{name}'")),
        }
    } else {
        by_target(meta, target, proxy, context)
    };
    found.unwrap_or_else(|fault| {
        let Meta { mesh, name, .. } = meta;
        let warning = format!("unable to resolve TargetRef on policy: mesh:{mesh} name:{name} error:{fault:?}");
        Selection { warning: Some(warning), ..Selection::default() }
    })
}

pub(crate) fn kind_of(target: Option<&TargetRef>) -> Option<TargetKind> {
    target.map_or(Some(TargetKind::Mesh), TargetRef::known_kind)
}

/// Whether the origin of the policy allows it to apply to the proxy.
fn is_for(policy: &Meta<'_>, proxy: &Proxy, context: SelectionContext<'_>) -> bool {
    let proxy = &proxy.meta();
    let made = context.gateway.map_or(*proxy, Gateway::meta);
    policy.mesh == proxy.mesh && in_zone(policy, &made) && in_namespace(policy, proxy)
}

/// A policy from a zone is for proxies of that zone, unless it is a producer policy, for clients in all zones.
fn in_zone(policy: &Meta<'_>, proxy: &Meta<'_>) -> bool {
    if policy.role() == Role::Producer || proxy.origin() != Origin::Zone || policy.origin() != Origin::Zone {
        return true;
    }
    policy.zone().is_none_or(|zone| proxy.zone().is_none_or(|own| own == zone))
}

/// Policies of a namespace apply only to its own proxies.
fn in_namespace(policy: &Meta<'_>, proxy: &Meta<'_>) -> bool {
    match policy.role() {
        Role::System | Role::Producer => true,
        Role::Consumer | Role::WorkloadOwner => {
            policy.namespace().is_some_and(|namespace| proxy.namespace() == Some(namespace))
        }
    }
}

fn by_target(
    policy: &Meta<'_>,
    target: Option<&TargetRef>,
    proxy: &Proxy,
    context: SelectionContext<'_>,
) -> Result<Selection, String> {
    let (everything, kind) = (TargetRef::default(), kind_of(target));
    let target = target.unwrap_or(&everything);
    let TargetRef { name, tags, .. } = target;
    let (dataplane, name) = (&*proxy.dataplane, name.as_deref());
    let selected = match kind {
        Some(TargetKind::Mesh) => takes_type(target, dataplane).then(|| whole(dataplane, context)),
        Some(TargetKind::MeshSubset) => {
            takes_type(target, dataplane).then(|| by_tags(dataplane, context, None, tags.as_ref()))
        }
        Some(TargetKind::MeshService) => name.map(|_| by_tags(dataplane, context, name, None)),
        Some(TargetKind::MeshServiceSubset) => name.map(|_| by_tags(dataplane, context, name, tags.as_ref())),
        Some(TargetKind::MeshGateway) => {
            let meant = |gateway: &&Gateway| name == Some(gateway.meta().display_name());
            context.gateway.filter(meant).map(|_| by_tags(dataplane, context, None, tags.as_ref()))
        }
        Some(TargetKind::Dataplane) => (!dataplane.is_builtin_gateway() && is_meant(target, policy, &proxy.meta()))
            .then(|| by_section(dataplane, context, target.section_name.as_deref())),
        Some(TargetKind::MeshExternalService | TargetKind::MeshMultiZoneService | TargetKind::MeshHTTPRoute) | None => {
            let kind = target.kind.as_ref().map_or("", |kind| kind.as_str());
            return Err(format!("unsupported targetRef kind '{kind}'"));
        }
    };
    Ok(selected.unwrap_or_default())
}

fn takes_type(target: &TargetRef, dataplane: &Dataplane) -> bool {
    let own = if dataplane.gateway().is_some() { ProxyType::Gateway } else { ProxyType::Sidecar };
    target.proxy_types.as_ref().is_none_or(|types| types.is_empty() || types.iter().any(|each| each.is(own)))
}

fn whole(dataplane: &Dataplane, context: SelectionContext<'_>) -> Selection {
    Selection {
        proxy: true,
        inbounds: inbounds(dataplane, |_| true),
        listeners: (0..dataplane.listeners().len()).collect(),
        gateway: gateway_listeners(dataplane, context, |_| true),
        warning: None,
    }
}

/// Each inbound and each listener of a gateway is matched by its own tags only.
fn by_tags(
    dataplane: &Dataplane,
    context: SelectionContext<'_>,
    service: Option<&str>,
    wanted: Option<&BTreeMap<String, String>>,
) -> Selection {
    let selected = |own: &Tags<'_>| {
        service.is_none_or(|service| own.has(tags::SERVICE, service))
            && wanted.is_none_or(|wanted| own.have_all(wanted))
    };
    let inbounds = inbounds(dataplane, |inbound| selected(&Tags(&[&inbound.tags])));
    let gateway = gateway_listeners(dataplane, context, selected);
    // Without listeners, a gateway is matched by the tags of its proxy.
    let itself = context.gateway.is_none() && dataplane.gateway().is_some_and(|own| selected(&Tags(&[&own.tags])));
    let proxy = itself || !gateway.is_empty() || !inbounds.is_empty();
    Selection { proxy, inbounds, gateway, ..Selection::default() }
}

/// A name references a proxy in the zone of the policy and, by default, in its namespace.
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

fn by_section(dataplane: &Dataplane, context: SelectionContext<'_>, section: Option<&str>) -> Selection {
    let Some(section) = section.filter(|section| !section.is_empty()) else { return whole(dataplane, context) };
    let inbounds = inbounds(dataplane, |inbound| inbound.section_name() == section);
    let all = dataplane.listeners().iter().enumerate();
    let listeners: Vec<usize> = all.filter(|(_, each)| each.section_name() == section).map(|(n, _)| n).collect();
    Selection { proxy: !inbounds.is_empty() || !listeners.is_empty(), inbounds, listeners, ..Selection::default() }
}

fn inbounds(dataplane: &Dataplane, wanted: impl Fn(&Inbound) -> bool) -> Vec<usize> {
    let all = dataplane.inbounds().iter().enumerate();
    let selected = all.filter(|(_, inbound)| wanted(inbound));
    selected.map(|(n, _)| n).collect()
}

fn gateway_listeners(
    dataplane: &Dataplane,
    context: SelectionContext<'_>,
    wanted: impl Fn(&Tags<'_>) -> bool,
) -> Vec<Listener> {
    let (Some(gateway), Some(own)) = (context.gateway, dataplane.gateway()) else { return Vec::new() };
    gateway.listeners(&own.tags, wanted)
}

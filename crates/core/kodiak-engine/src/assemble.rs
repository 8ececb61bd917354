//! The resources of one proxy, merged and validated.

use std::sync::Arc;

use kodiak_policies::mesh_proxy_patch::ProxyPatches;
use kodiak_xds::{
    Built,
    check::{self, Fault, Links},
};
use kodiak_xds_stream::{ResourceSet, TypeUrl};

use crate::{
    cache::Group,
    class::{Class, address_clash, same_groups},
    fallback::{self, Available, ModificationsInForce, Settled},
    patched::Origin,
};

/// In faults, stands for a resource where there is no single one.
const OUTBOUNDS: &str = "outbounds";

/// Resources of the class and of the proxy itself that a snapshot without faults was assembled from.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) class: ResourceSet,
    pub(crate) own: Vec<Group>,
}

/// Merges the resources of the class and of the proxy, and validates references, names and addresses.
///
/// A type for which both are unchanged keeps its map: when endpoints change, a thousand proxies neither store nor compare
/// new maps of listeners.
pub(crate) fn assemble(
    class: &Class,
    own: &[Group],
    before: Option<(&ResourceSet, &Parts)>,
    faults: &mut Vec<Fault>,
) -> ResourceSet {
    let before = before.filter(|(_, parts)| same_groups(&parts.own, own));
    let kept = |type_url: TypeUrl| {
        // Secrets are published only if a resource references one, so they depend on other types.
        let before = before.filter(|_| type_url != TypeUrl::Secret);
        let (resources, _) = before.filter(|(_, parts)| parts.class.of(type_url).ptr_eq(class.set.of(type_url)))?;
        Some(resources.of(type_url))
    };
    let mut set = class.set.clone();
    for type_url in TypeUrl::ALL {
        if let Some(resources) = kept(type_url) {
            set.replace(type_url, resources.clone());
        }
    }
    let built = || own.iter().flat_map(|group| group.iter());
    let mut binds: Vec<(&String, &Arc<str>)> = Vec::new();
    // Envoy does not subscribe to secrets that nothing references; waiting for its ACK would never end.
    let needs = built().flat_map(|built| &built.links.needs).chain(class.needed_secrets.iter());
    let needs_secrets = needs.into_iter().any(|(type_url, _)| *type_url == TypeUrl::Secret);
    let used = |built: &&Built| needs_secrets || built.type_url != TypeUrl::Secret;
    for Built { type_url, encoded, links } in built().filter(used) {
        if kept(*type_url).is_none() {
            // Two inbounds in front of one workload share its cluster.
            if set.of(*type_url).get(&encoded.name).is_some_and(|other| other != encoded) {
                faults.push(own_fault(&encoded.name, "two resources have this name"));
            }
            set.insert(*type_url, encoded.clone());
        }
        faults.extend(check::own(&encoded.name, links));
        if let Some(address) = &links.binds {
            let other = binds.iter().find(|(bound, _)| *bound == address).map(|(_, name)| *name);
            if let Some(other) = other.or_else(|| class.bound_addresses.get(address)) {
                faults.push(blamed(address_clash(&encoded.name, other, address), links));
            }
            binds.push((address, &encoded.name));
        }
    }
    let exists = |type_url: TypeUrl, name: &str| set.of(type_url).contains_key(name);
    for built in built() {
        faults.extend(check::dangling(&built.encoded.name, &built.links, exists));
    }
    for ((type_url, name), fault) in &class.unresolved {
        if !exists(*type_url, name) {
            faults.push(fault.clone());
        }
    }
    for (type_url, name) in class.needed_secrets.iter() {
        if !exists(*type_url, name) {
            faults.push(Fault::Dangling { resource: OUTBOUNDS.into(), kind: *type_url, name: name.clone() });
        }
    }
    set
}

/// What a proxy with faults has of earlier configurations. Nothing else depends on the past.
#[derive(Clone, Copy)]
pub(crate) struct Earlier<'a> {
    /// Modifications of the last configuration without faults.
    pub(crate) modifications: Option<&'a ModificationsInForce>,
    pub(crate) published: Option<&'a ResourceSet>,
}

/// Resources that can be sent in place of `assembled`, which has faults. The second is whether some of them have TLS
/// settings of an earlier state.
pub(crate) fn without_faults(
    mut assembled: ResourceSet,
    class: &Class,
    own: &[Group],
    generated: &[(Origin, Group)],
    patches: Option<&Arc<ProxyPatches>>,
    earlier: Earlier<'_>,
) -> (ResourceSet, bool) {
    // The proxy's own resources come first: inbounds matter most.
    let current = || own.iter().chain(class.groups()).flat_map(|group| group.iter());
    let generated = generated.iter().chain(class.generated());
    let available = Available::new(current(), generated, patches, earlier.modifications, earlier.published);
    let Settled { resources, stale } = fallback::settle(current(), &available);
    for type_url in TypeUrl::ALL {
        let set = assembled.of(type_url);
        let gone = set.keys().filter(|name| !resources.contains_key(&(type_url, (*name).clone())));
        for name in gone.cloned().collect::<Vec<_>>() {
            assembled.remove(type_url, &name);
        }
    }
    for ((type_url, name), built) in &resources {
        if assembled.of(*type_url).get(name) != Some(&built.encoded) {
            assembled.insert(*type_url, built.encoded.clone());
        }
    }
    // Listeners that accept mTLS are never sent with other TLS settings than the current ones.
    let has_stale_tls = stale.iter().any(|(type_url, _)| matches!(type_url, TypeUrl::Cluster | TypeUrl::Secret));
    (assembled, has_stale_tls)
}

pub(crate) fn own_fault(resource: &Arc<str>, fault: &str) -> Fault {
    Fault::Own { resource: resource.clone(), fault: fault.to_owned() }
}

/// A cluster that exists without modifications, and that nobody else references wrongly, was removed by one.
pub(crate) fn with_remover(fault: &Fault, patches: &ProxyPatches) -> Fault {
    let at = match fault {
        Fault::Dangling { kind: TypeUrl::Cluster, name, .. } => patches.remover(name),
        Fault::Dangling { .. } | Fault::Own { .. } | Fault::Clash { .. } | Fault::Patch { .. } => None,
    };
    match at.cloned() {
        Some(at) => Fault::Patch { at, fault: fault.to_string() },
        None => fault.clone(),
    }
}

/// A clash of a listener whose address a modification changed.
fn blamed(fault: Fault, links: &Links) -> Fault {
    match links.patch.as_ref().and_then(|trace| trace.binds.as_ref()) {
        Some(at) => Fault::Patch { at: at.clone(), fault: fault.to_string() },
        None => fault,
    }
}

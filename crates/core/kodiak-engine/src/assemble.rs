//! The resources of one proxy, merged and validated.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_policies::mesh_proxy_patch::ProxyPatches;
use kodiak_xds::{
    Built,
    check::{self, Fault, Links},
    names,
};
use kodiak_xds_stream::{ResourceSet, TypeUrl};

use crate::{
    cache::Group,
    class::{Class, address_clash, same_groups},
    collections::CountedSet,
    fallback::{self, Available, ModificationsInForce, Settled},
    patched::Origin,
};

/// In faults, stands for a resource where there is no single one.
const OUTBOUNDS: &str = "outbounds";

/// Resources of the class and of the proxy itself that a snapshot without faults was assembled from.
#[derive(Default)]
pub(crate) struct Parts {
    class: ResourceSet,
    /// Own secrets that resources of the class reference.
    needed: CountedSet<(TypeUrl, Arc<str>)>,
    own: Vec<Group>,
}

impl Parts {
    pub(crate) fn of(class: &Class, own: &[Group]) -> Self {
        Self { class: class.set.clone(), needed: class.needed_secrets.clone(), own: own.to_vec() }
    }
}

/// Secrets that cannot be had now. What references them is sent all the same: Envoy uses what it has, or waits for them.
#[derive(Debug, Default)]
pub(crate) struct MissingSecrets {
    /// Name of the secret with the certificate.
    pub(crate) certificate: Option<Arc<str>>,
    /// Mesh whose validation contexts are missing.
    pub(crate) trust_of: Option<Arc<str>>,
}

impl MissingSecrets {
    pub(crate) fn has(&self, type_url: TypeUrl, name: &str) -> bool {
        let is_trust = |mesh: &Arc<str>| names::is_validation_secret(mesh, name);
        type_url == TypeUrl::Secret
            && (self.certificate.as_deref() == Some(name) || self.trust_of.as_ref().is_some_and(is_trust))
    }
}

/// Merges the resources of the class and of the proxy, and validates references, names and addresses.
///
/// A type for which both are unchanged keeps its map: when endpoints change, a thousand proxies neither store nor compare
/// new maps of listeners.
pub(crate) fn assemble(
    class: &Class,
    own: &[Group],
    missing: &MissingSecrets,
    before: Option<(&ResourceSet, &Parts)>,
    faults: &mut Vec<Fault>,
) -> ResourceSet {
    let before = before.filter(|(_, parts)| same_groups(&parts.own, own));
    let kept = |type_url: TypeUrl| {
        // A secret is published only if a resource references it, so secrets depend on other types.
        let before = before
            .filter(|(_, parts)| type_url != TypeUrl::Secret || parts.needed.has_same_values(&class.needed_secrets));
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
    // Envoy does not subscribe to a secret that nothing references; waiting for its ACK would never end.
    let needs = built().flat_map(|built| &built.links.needs).chain(class.needed_secrets.iter());
    let secrets: BTreeSet<&Arc<str>> =
        needs.filter(|(type_url, _)| *type_url == TypeUrl::Secret).map(|(_, name)| name).collect();
    let used = |built: &&Built| built.type_url != TypeUrl::Secret || secrets.contains(&built.encoded.name);
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
    let exists = |type_url: TypeUrl, name: &str| set.of(type_url).contains_key(name) || missing.has(type_url, name);
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

/// Earlier configurations of a proxy with faults. Nothing else depends on the past.
#[derive(Clone, Copy)]
pub(crate) struct Earlier<'a> {
    /// Modifications of the last configuration without faults.
    pub(crate) modifications: Option<&'a ModificationsInForce>,
    pub(crate) published: Option<&'a ResourceSet>,
    pub(crate) missing_secrets: &'a MissingSecrets,
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
    let available = Available::new(current(), generated, patches, earlier);
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

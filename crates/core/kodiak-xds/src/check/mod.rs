//! The checker: references between resources, and whether they resolve.
//!
//! [`Links`] are collected from a message once, when it is built. The check itself compares only names, so its cost is
//! proportional to the change.

mod listener;
#[cfg(test)]
mod tests;
mod tls;

use std::collections::BTreeMap;
use std::sync::Arc;

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use kodiak_envoy::envoy::config::core::v3::{ConfigSource, config_source::ConfigSourceSpecifier};
use kodiak_envoy::envoy::config::endpoint::v3::ClusterLoadAssignment;
use kodiak_envoy::envoy::config::listener::v3::Listener;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::Secret;
use kodiak_policies::target::NOWHERE;
use kodiak_xds_stream::TypeUrl;

/// References of one resource, the address it binds, and its own violations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    /// Sorted, without duplicates.
    pub needs: Vec<(TypeUrl, Arc<str>)>,
    /// Address and port, or path, that no other listener may have. Envoy requires this also for listeners that do not
    /// bind.
    pub binds: Option<String>,
    pub faults: Vec<String>,
    /// Set if a MeshProxyPatch changed the resource.
    pub patch: Option<Arc<PatchTrace>>,
}

/// Which modifications of MeshProxyPatches caused what in a resource, so that faults name them. A modification is
/// written as in `MeshProxyPatch "a": spec.default.appendModifications[2].httpFilter`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchTrace {
    /// Modifications that failed or made the resource invalid, and why.
    pub faults: Vec<(Arc<str>, String)>,
    /// References that a modification introduced.
    pub needs: BTreeMap<(TypeUrl, Arc<str>), Arc<str>>,
    /// The modification that changed the address.
    pub binds: Option<Arc<str>>,
}

/// Why a snapshot is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{resource}: {fault}")]
    Own { resource: Arc<str>, fault: String },
    #[error("{resource} references {}, which does not exist", named(*kind, name))]
    Dangling { resource: Arc<str>, kind: TypeUrl, name: Arc<str> },
    #[error("{resource} and {other} have the same address {address}")]
    Clash { resource: Arc<str>, other: Arc<str>, address: String },
    /// Caused by a modification of a MeshProxyPatch.
    #[error("{at}: {fault}")]
    Patch { at: Arc<str>, fault: String },
}

impl Links {
    pub fn of_listener(listener: &Listener) -> Self {
        let mut links = Self::named(&listener.name);
        listener::collect(listener, &mut links);
        links.settled()
    }

    pub fn of_cluster(cluster: &Cluster) -> Self {
        let mut links = Self::named(&cluster.name);
        if let Some(name) = discovered_endpoints(cluster) {
            links.need(TypeUrl::Endpoint, name);
        }
        let matches = cluster.transport_socket_matches.iter().filter_map(|matched| matched.transport_socket.as_ref());
        for socket in cluster.transport_socket.iter().chain(matches) {
            tls::upstream(socket, &mut links);
        }
        links.settled()
    }

    pub fn of_assignment(assignment: &ClusterLoadAssignment) -> Self {
        Self::named(&assignment.cluster_name)
    }

    pub fn of_secret(secret: &Secret) -> Self {
        Self::named(&secret.name)
    }

    fn named(name: &str) -> Self {
        let mut links = Self::default();
        if name.is_empty() {
            links.fault("has no name".to_owned());
        }
        links
    }

    fn need(&mut self, kind: TypeUrl, name: &str) {
        if !name.starts_with(NOWHERE) {
            self.needs.push((kind, name.into()));
        }
    }

    fn fault(&mut self, fault: String) {
        self.faults.push(fault);
    }

    fn settled(mut self) -> Self {
        self.needs.sort();
        self.needs.dedup();
        self
    }
}

/// Violations of a resource on its own.
pub fn own(resource: &Arc<str>, links: &Links) -> Vec<Fault> {
    let fault = |fault: &String| Fault::Own { resource: Arc::clone(resource), fault: fault.clone() };
    let patched = links.patch.iter().flat_map(|trace| &trace.faults);
    let patched = patched.map(|(at, fault)| Fault::Patch { at: Arc::clone(at), fault: fault.clone() });
    links.faults.iter().map(fault).chain(patched).collect()
}

/// Unresolved references of a resource.
pub fn dangling(resource: &Arc<str>, links: &Links, exists: impl Fn(TypeUrl, &str) -> bool) -> Vec<Fault> {
    links
        .needs
        .iter()
        .filter(|(kind, name)| !exists(*kind, name))
        .map(|need| unresolved(resource, links, need))
        .collect()
}

/// Fault of a reference that does not resolve.
pub fn unresolved(resource: &Arc<str>, links: &Links, need: &(TypeUrl, Arc<str>)) -> Fault {
    let (kind, name) = need;
    let fault = Fault::Dangling { resource: Arc::clone(resource), kind: *kind, name: Arc::clone(name) };
    match links.patch.as_ref().and_then(|trace| trace.needs.get(need)) {
        Some(at) => Fault::Patch { at: Arc::clone(at), fault: fault.to_string() },
        None => fault,
    }
}

/// Listeners with the same address. The first keeps it; each later one is a fault.
pub fn clashes<'a>(listeners: impl IntoIterator<Item = (&'a Arc<str>, &'a Links)>) -> Vec<Fault> {
    let mut taken: BTreeMap<&str, &Arc<str>> = BTreeMap::new();
    let mut faults = Vec::new();
    for (resource, links) in listeners {
        let Some(address) = &links.binds else { continue };
        if let Some(other) = taken.get(address.as_str()) {
            let (resource, other) = (Arc::clone(resource), Arc::clone(other));
            faults.push(Fault::Clash { resource, other, address: address.clone() });
        } else {
            taken.insert(address, resource);
        }
    }
    faults
}

/// Name of the cluster load assignment, if it comes over ADS.
fn discovered_endpoints(cluster: &Cluster) -> Option<&str> {
    let eds = ClusterDiscoveryType::Type(DiscoveryType::Eds.into());
    if cluster.cluster_discovery_type.as_ref() != Some(&eds) {
        return None;
    }
    let config = cluster.eds_cluster_config.as_ref()?;
    let service = Some(config.service_name.as_str()).filter(|name| !name.is_empty());
    is_over_ads(config.eds_config.as_ref()).then(|| service.unwrap_or(&cluster.name))
}

fn is_over_ads(source: Option<&ConfigSource>) -> bool {
    let specifier = source.and_then(|source| source.config_source_specifier.as_ref());
    matches!(specifier, Some(ConfigSourceSpecifier::Ads(_)))
}

fn named(kind: TypeUrl, name: &str) -> String {
    let word = match kind {
        TypeUrl::Cluster => "cluster",
        TypeUrl::Endpoint => "the endpoints of",
        TypeUrl::Listener => "listener",
        TypeUrl::Route => "route configuration",
        TypeUrl::Secret => "secret",
    };
    format!("{word} {name:?}")
}

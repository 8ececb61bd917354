//! Callers of a mesh: classes of Dataplanes with equal certificates.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_identity::Identity;
use kodiak_policies::mesh_traffic_permission::uris;
use kodiak_reachability::certificate;
use kodiak_world::World;

/// Dataplanes with equal certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallerClass {
    /// Name of one of them.
    pub(super) example: Arc<str>,
    pub(super) dataplanes: usize,
    /// URI SANs of the certificate that the mesh CA issues.
    pub(super) legacy: Vec<String>,
    /// SPIFFE IDs that MeshIdentities give to them, with or without a provider.
    pub(super) ids: BTreeSet<String>,
}

/// Caller classes by the SPIFFE IDs of their certificates.
pub(super) struct Holders<'a>(BTreeMap<&'a str, BTreeSet<usize>>);

impl<'a> Holders<'a> {
    pub(super) fn of(callers: &'a [CallerClass]) -> Self {
        let mut holders: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for (class, caller) in callers.iter().enumerate() {
            for id in caller.ids.iter().chain(&caller.legacy) {
                holders.entry(id).or_default().insert(class);
            }
        }
        Self(holders)
    }

    /// In the order of the classes.
    pub(super) fn of_id(&self, id: &str) -> impl Iterator<Item = usize> {
        self.0.get(id).into_iter().flatten().copied()
    }
}

pub(super) fn classes(world: &World, mesh: &str, identities: &[Identity]) -> Vec<CallerClass> {
    let mut known: BTreeMap<(Vec<String>, BTreeSet<String>), usize> = BTreeMap::new();
    let mut classes: Vec<CallerClass> = Vec::new();
    for proxy in world.proxies(mesh) {
        // Without a service or a workload, the mesh CA issues nothing; the tags still say whom a policy means.
        let legacy = certificate(mesh, proxy)
            .map_or_else(|| uris(mesh, proxy.dataplane.tag_sets()), |certificate| certificate.to_vec());
        let ids: BTreeSet<String> = identities.iter().filter_map(|identity| identity.id_of(proxy)).collect();
        let place = *known.entry((legacy.clone(), ids.clone())).or_insert(classes.len());
        match classes.get_mut(place) {
            Some(class) => class.dataplanes += 1,
            None => classes.push(CallerClass { example: proxy.name.clone(), dataplanes: 1, legacy, ids }),
        }
    }
    classes
}

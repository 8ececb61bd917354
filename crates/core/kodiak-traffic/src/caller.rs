//! Callers as permissions name them: SPIFFE IDs of observed clients, and the form of the permissions of a mesh.

use std::collections::{BTreeMap, BTreeSet};

use kodiak_identity::Identity;
use kodiak_policies::mesh_traffic_permission::{KIND, MeshTrafficPermission};
use kodiak_world::World;
use kodiak_xds::names;

use crate::ClientId;

/// Form in which new permissions of a mesh name callers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PermissionForm {
    /// By SPIFFE ID.
    #[default]
    Rules,
    /// By tags, as existing permissions do: `rules` would override these.
    From,
}

impl PermissionForm {
    pub fn of(world: &World, mesh: &str) -> Self {
        let mut specs = world.list_in(KIND.name, mesh).filter_map(|policy| policy.spec::<MeshTrafficPermission>());
        let is_legacy = specs.any(|spec| spec.from.as_ref().is_some_and(|from| !from.is_empty()));
        if is_legacy { Self::From } else { Self::Rules }
    }
}

/// SPIFFE IDs that proxies of each client present, or will present once the mesh issues certificates.
pub(crate) fn spiffe_ids(world: &World, mesh: &str) -> BTreeMap<ClientId, BTreeSet<String>> {
    let identities: Vec<Identity> =
        world.list_in("MeshIdentity", mesh).filter_map(|resource| Identity::of(resource)).collect();
    let spec = world.mesh(mesh);
    let has_backend = spec.and_then(|spec| spec.mtls.as_ref()?.enabled_backend().map(drop)).is_some();
    let mut ids: BTreeMap<ClientId, BTreeSet<String>> = BTreeMap::new();
    for proxy in world.proxies(mesh) {
        let Some(client) = ClientId::of(proxy) else { continue };
        let issued = kodiak_identity::possible(&identities, proxy);
        let own = (has_backend || issued.is_empty()).then(|| of_backend(mesh, &client));
        ids.entry(client).or_default().extend(issued.into_iter().chain(own.into_iter().flatten()));
    }
    ids
}

/// SPIFFE IDs in certificates of a CA backend.
fn of_backend(mesh: &str, client: &ClientId) -> Vec<String> {
    client.services().chain(client.workload()).map(|name| names::service_identity(mesh, name)).collect()
}

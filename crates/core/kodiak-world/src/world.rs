//! All resources as one immutable, typed value.

use std::sync::Arc;

use imbl::{OrdMap, ordmap::DiffItem};
use jiff::Timestamp;
use kodiak_model::{
    Kind, Labels, ProxyKey, ResourceKey,
    kinds::{
        dataplane_insight::DataplaneInsight,
        global_secret::GlobalSecret,
        mesh::{Mesh, MeshServicesMode},
        secret::Secret,
    },
};
use kodiak_rules::{Gateway, Policy, Proxy};

use crate::{Destination, Resource, decode::decode, destination, redirects_outbound};

/// Stored record.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    pub key: &'a ResourceKey,
    pub labels: &'a Arc<Labels>,
    pub created: Timestamp,
    pub version: u64,
    pub status_version: u64,
    pub revision: u64,
    /// JSON text.
    pub spec: &'a Arc<str>,
    pub status: Option<&'a Arc<str>>,
}

/// Write of a resource, or its deletion when `resource` is `None`.
#[derive(Debug, Clone)]
pub struct Change {
    pub key: ResourceKey,
    /// Revision of the write or deletion.
    pub revision: u64,
    pub resource: Option<Arc<Resource>>,
}

impl Change {
    pub fn put(resource: Arc<Resource>) -> Self {
        Self { key: resource.key.clone(), revision: resource.revision, resource: Some(resource) }
    }
}

/// Stored resources at one revision. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct World {
    resources: OrdMap<ResourceKey, Arc<Resource>>,
    /// Resources that are unreadable in full or in part; normally none.
    flagged: OrdMap<ResourceKey, Arc<Resource>>,
}

/// Writing.
impl World {
    /// Decodes the record and replaces its previous version.
    pub fn put(&mut self, stored: Stored<'_>) -> Arc<Resource> {
        let resource = self.decoded(stored);
        let flagged = resource.unreadable.is_some() || !resource.invalid_regexes.is_empty();
        if flagged {
            self.flagged.insert(resource.key.clone(), resource.clone());
        } else {
            self.flagged.remove(&resource.key);
        }
        self.resources.insert(resource.key.clone(), resource.clone());
        resource
    }

    /// Uses readable versions of another world for unreadable resources of this one. For a world that replaces the
    /// other as a whole.
    pub fn inherit(&mut self, before: &Self) {
        let unreadable: Vec<_> = self.unreadable().cloned().collect();
        for resource in unreadable {
            let Some(last) = before.get(&resource.key).and_then(|known| known.readable()) else { continue };
            let inherited = Arc::new(resource.standing_in(last));
            self.flagged.insert(inherited.key.clone(), inherited.clone());
            self.resources.insert(inherited.key.clone(), inherited);
        }
    }

    pub fn delete(&mut self, key: &ResourceKey) {
        self.resources.remove(key);
        self.flagged.remove(key);
    }

    /// Decodes a record as [`put`](Self::put) does, or returns the resource of this world that was decoded from it.
    pub fn decoded(&self, stored: Stored<'_>) -> Arc<Resource> {
        let before = self.resources.get(stored.key);
        match before {
            Some(known) if known.text.is_of(stored) => known.clone(),
            _ => Arc::new(decode(stored, before.map(AsRef::as_ref))),
        }
    }
}

/// Reading.
impl World {
    pub fn get(&self, key: &ResourceKey) -> Option<&Arc<Resource>> {
        self.resources.get(key)
    }

    /// Resources of a kind, ordered by mesh and name.
    pub fn list(&self, kind: &str) -> impl Iterator<Item = &Arc<Resource>> + use<'_> {
        let start = ResourceKey::global(kind, "");
        let kind = start.kind.clone();
        self.resources
            .range(start..)
            .map(|(_, resource)| resource)
            .take_while(move |resource| resource.key.kind == kind)
    }

    /// Resources of a kind in one mesh, ordered by name.
    pub fn list_in(&self, kind: &str, mesh: &str) -> impl Iterator<Item = &Arc<Resource>> + use<'_> {
        let start = ResourceKey::in_mesh(kind, mesh, "");
        let (kind, mesh) = (start.kind.clone(), start.mesh.clone());
        let resources = self.resources.range(start..).map(|(_, resource)| resource);
        resources.take_while(move |resource| resource.key.kind == kind && resource.key.mesh == mesh)
    }

    /// Changes from this world to another one.
    pub fn difference(&self, next: &Self) -> Vec<Change> {
        self.resources
            .diff(&next.resources)
            .map(|difference| match difference {
                DiffItem::Add(key, new) | DiffItem::Update { new: (key, new), .. } => {
                    Change { key: key.clone(), revision: new.revision, resource: Some(new.clone()) }
                }
                DiffItem::Remove(key, old) => Change { key: key.clone(), revision: old.revision, resource: None },
            })
            .collect()
    }

    /// All resources, as changes.
    pub fn changes(&self) -> impl Iterator<Item = Change> + use<'_> {
        self.resources.values().map(|resource| Change::put(resource.clone()))
    }

    /// Resources with an unreadable spec.
    pub fn unreadable(&self) -> impl Iterator<Item = &Arc<Resource>> + use<'_> {
        self.flagged.values().filter(|resource| resource.unreadable.is_some())
    }

    /// Policies with regular expressions that Envoy cannot compile.
    pub fn resources_with_invalid_regexes(&self) -> impl Iterator<Item = &Arc<Resource>> + use<'_> {
        self.flagged.values().filter(|resource| !resource.invalid_regexes.is_empty())
    }
}

/// Questions that several readers ask.
impl World {
    /// `None` when it does not exist or was never readable.
    pub fn mesh(&self, name: &str) -> Option<Arc<Mesh>> {
        self.get(&ResourceKey::global("Mesh", name))?.spec()
    }

    pub fn mesh_services_mode(&self, mesh: &str) -> MeshServicesMode {
        self.mesh(mesh).map(|mesh| mesh.mesh_services_mode()).unwrap_or_default()
    }

    pub fn proxy(&self, key: &ProxyKey) -> Option<&Arc<Proxy>> {
        self.get(&key.dataplane())?.proxy()
    }

    pub fn proxies(&self, mesh: &str) -> impl Iterator<Item = &Arc<Proxy>> + use<'_> {
        self.list_in("Dataplane", mesh).filter_map(|resource| resource.proxy())
    }

    pub fn insight(&self, key: &ProxyKey) -> Option<Arc<DataplaneInsight>> {
        self.get(&key.insight())?.spec()
    }

    /// See [`redirects_outbound`].
    pub fn redirects_outbound(&self, proxy: &Proxy) -> Option<bool> {
        let insight = self.insight(&proxy.key());
        redirects_outbound(&proxy.dataplane, insight.as_ref().and_then(|insight| insight.metadata.as_ref()))
    }

    /// Bytes of a Secret or GlobalSecret.
    pub fn secret(&self, key: &ResourceKey) -> Option<Vec<u8>> {
        let resource = self.get(key)?;
        let of_mesh = || resource.spec::<Secret>().map(|secret| secret.data.bytes());
        let global = || resource.spec::<GlobalSecret>().map(|secret| secret.data.bytes());
        of_mesh().or_else(global)?.ok()
    }

    pub fn gateways(&self, mesh: &str) -> impl Iterator<Item = Gateway> + use<'_> {
        self.list_in("MeshGateway", mesh).filter_map(|resource| {
            let ResourceKey { mesh, name, .. } = resource.key.clone();
            Some(Gateway { mesh, name, labels: resource.labels.clone(), spec: resource.spec()? })
        })
    }

    /// Policies of one kind.
    pub fn policies(&self, kind: &Kind, mesh: &str) -> impl Iterator<Item = &Arc<Policy>> + use<'_> {
        self.list_in(kind.name, mesh).filter_map(|resource| resource.policy())
    }

    /// MeshServices, MeshExternalServices and MeshMultiZoneServices.
    pub fn destinations(&self, mesh: &str) -> impl Iterator<Item = &Arc<Destination>> + use<'_> {
        let mesh: Arc<str> = mesh.into();
        destination::KINDS
            .iter()
            .flat_map(move |(kind, _)| self.list_in(kind.name, &mesh))
            .filter_map(|resource| resource.destination())
    }
}

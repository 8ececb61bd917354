//! Resources that policies reference: meshes, destinations and routes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{Kind, Kri, Labels, PortSection};

use crate::{Policy, Routes};

/// A possible target of a `to` item.
#[derive(Debug, Clone)]
pub struct Resource {
    pub kind: &'static Kind,
    /// Empty for a Mesh.
    pub mesh: Arc<str>,
    pub name: Arc<str>,
    pub labels: Arc<Labels>,
    /// Of destinations.
    pub ports: Vec<PortSection>,
}

impl Resource {
    /// `None` for kinds without a short name, which nothing can reference.
    pub fn kri(&self) -> Option<Kri> {
        Kri::of(self.kind, &self.mesh, &self.name, &self.labels)
    }
}

/// Resources of one kind, in one mesh, with one label.
type LabelKey = (&'static str, Arc<str>, String, String);

/// Resources, indexed by KRI and by labels.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    all: BTreeMap<Kri, Arc<Resource>>,
    by_label: BTreeMap<LabelKey, BTreeSet<Kri>>,
    routes: Routes,
    kinds: BTreeMap<&'static str, &'static Kind>,
}

impl Resources {
    /// Replaces a resource with the same KRI. A resource without a KRI cannot be a destination and is ignored.
    pub fn insert(&mut self, resource: Resource) {
        let Some(kri) = resource.kri() else { return };
        if let Some(old) = self.all.remove(&kri) {
            for key in label_keys(&old) {
                self.by_label.entry(key).or_default().remove(&kri);
            }
        }
        for key in label_keys(&resource) {
            self.by_label.entry(key).or_default().insert(kri.clone());
        }
        self.kinds.insert(resource.kind.name, resource.kind);
        self.all.insert(kri, Arc::new(resource));
    }

    /// Adds a MeshHTTPRoute: other policies can target its routes.
    pub fn insert_route(&mut self, route: Arc<Policy>) {
        let Policy { kind, mesh, name, labels, .. } = &*route;
        let (mesh, name, labels) = (mesh.clone(), name.clone(), labels.clone());
        self.insert(Resource { kind, mesh, name, labels, ports: Vec::new() });
        self.routes.insert(route);
    }

    pub fn by_kri(&self, kri: &Kri) -> Option<&Arc<Resource>> {
        self.all.get(kri)
    }

    /// Those that have all of the labels, in the order of KRIs. Empty labels match nothing.
    pub fn by_labels(&self, kind: &str, mesh: &str, labels: &Labels) -> Vec<&Arc<Resource>> {
        let Some(kind) = self.kind(kind) else { return Vec::new() };
        let place = |(key, value): (&String, &String)| (kind.name, mesh.into(), key.clone(), value.clone());
        let found: Option<Vec<&BTreeSet<Kri>>> = labels.iter().map(|label| self.by_label.get(&place(label))).collect();
        let found = found.unwrap_or_default();
        let Some(fewest) = found.iter().min_by_key(|kris| kris.len()) else { return Vec::new() };
        let all = fewest.iter().filter(|kri| found.iter().all(|kris| kris.contains(*kri)));
        all.filter_map(|kri| self.all.get(kri)).collect()
    }

    /// The route with this display name, of any zone and namespace.
    pub fn route(&self, mesh: &str, display_name: &str) -> Option<&Arc<Policy>> {
        self.routes.find(mesh, display_name)
    }

    /// A kind of which there is at least one resource.
    pub(crate) fn kind(&self, name: &str) -> Option<&'static Kind> {
        self.kinds.get(name).copied()
    }
}

fn label_keys(resource: &Resource) -> impl Iterator<Item = LabelKey> {
    let Resource { kind, mesh, labels, .. } = resource;
    labels.iter().map(|(key, value)| (kind.name, mesh.clone(), key.clone(), value.clone()))
}

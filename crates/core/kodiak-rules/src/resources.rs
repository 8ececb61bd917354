//! What policies refer to: meshes, destinations and routes.

use std::sync::Arc;

use kodiak_model::{Kind, Kri, Labels, PortSection};

use crate::Policy;

/// Something that an item of `to` can mean.
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

/// All of them, found by KRI and by labels.
#[derive(Debug, Clone, Default)]
pub struct Resources {}

impl Resources {
    pub fn insert(&mut self, resource: Resource) {
        todo!()
    }

    /// A MeshHTTPRoute: other policies are about its routes.
    pub fn insert_route(&mut self, route: Arc<Policy>) {
        todo!()
    }

    pub fn by_kri(&self, kri: &Kri) -> Option<&Arc<Resource>> {
        todo!()
    }

    /// In the order of KRIs.
    pub fn by_labels(&self, kind: &str, mesh: &str, labels: &Labels) -> Vec<&Arc<Resource>> {
        todo!()
    }

    /// The route with this display name, of whichever zone and namespace.
    pub fn route(&self, mesh: &str, display_name: &str) -> Option<&Arc<Policy>> {
        todo!()
    }
}

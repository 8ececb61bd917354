//! Resource identity: kind, mesh and name.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// Key of a resource in the store. Global resources have an empty mesh.
///
/// Keys order by kind, then mesh, then name: the order of lists in the API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResourceKey {
    pub kind: Arc<str>,
    pub mesh: Arc<str>,
    pub name: Arc<str>,
}

impl ResourceKey {
    pub fn global(kind: &str, name: &str) -> Self {
        Self::in_mesh(kind, "", name)
    }

    pub fn in_mesh(kind: &str, mesh: &str, name: &str) -> Self {
        Self { kind: kind.into(), mesh: mesh.into(), name: name.into() }
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, mesh, name } = self;
        if mesh.is_empty() { write!(f, "{kind}/{name}") } else { write!(f, "{kind}/{mesh}/{name}") }
    }
}

/// Identity of a proxy: mesh and name of its Dataplane.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProxyKey {
    pub mesh: Arc<str>,
    pub name: Arc<str>,
}

impl ProxyKey {
    pub fn new(mesh: &str, name: &str) -> Self {
        Self { mesh: mesh.into(), name: name.into() }
    }

    /// Parses Envoy's `node.id`, `<mesh>.<name>`. A name may contain dots, a mesh name never does.
    pub fn from_node_id(id: &str) -> Option<Self> {
        let (mesh, name) = id.split_once('.')?;
        (!mesh.is_empty() && !name.is_empty()).then(|| Self::new(mesh, name))
    }

    pub fn node_id(&self) -> String {
        format!("{}.{}", self.mesh, self.name)
    }

    pub fn dataplane(&self) -> ResourceKey {
        ResourceKey::in_mesh("Dataplane", &self.mesh, &self.name)
    }
}

impl fmt::Display for ProxyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.mesh, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_id_is_split_at_its_first_dot() {
        let key = ProxyKey::from_node_id("default.pod.namespace");
        assert_eq!(key, Some(ProxyKey::new("default", "pod.namespace")));
        assert_eq!(key.map(|key| key.node_id()).as_deref(), Some("default.pod.namespace"));
        for none in ["", "default", ".ingress", "default."] {
            assert_eq!(ProxyKey::from_node_id(none), None, "{none}");
        }
    }
}

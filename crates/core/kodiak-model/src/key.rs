//! What a resource is called: its kind, its mesh and its name.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// The identity of a resource. Global resources have an empty mesh.
///
/// Keys order by kind, then mesh, then name: the order in which lists are answered.
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

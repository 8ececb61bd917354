//! Destinations: a `kuma.io/service`, or a resource such as a MeshService.

use std::sync::Arc;

use kodiak_model::Kri;

/// A destination as a whole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// All subsets of this `kuma.io/service`.
    Service(Arc<str>),
    /// A MeshService, MeshExternalService or MeshMultiZoneService.
    Object(Arc<Kri>),
}

impl Target {
    pub fn service(&self) -> Option<&Arc<str>> {
        match self {
            Self::Service(name) => Some(name),
            Self::Object(_) => None,
        }
    }

    pub fn object(&self) -> Option<&Arc<Kri>> {
        match self {
            Self::Service(_) => None,
            Self::Object(kri) => Some(kri),
        }
    }
}

//! What the engine is told.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::{
    ProxyKey,
    kinds::{dataplane::Dataplane, mesh::Mesh},
};
use kodiak_policies::mesh_traffic_permission::MeshTrafficPermission;
use kodiak_views::{rollout::Rollout, vips::Vips};
use kodiak_xds::node::NodeMetadata;

/// One thing that is different now. `None`: it is gone.
#[derive(Debug, Clone)]
pub enum Change {
    Mesh {
        name: Arc<str>,
        mesh: Option<Arc<Mesh>>,
    },
    Rollout {
        mesh: Arc<str>,
        rollout: Option<Rollout>,
    },
    Vips {
        mesh: Arc<str>,
        vips: Option<Arc<Vips>>,
    },
    /// What the authorities of a mesh are made of may have changed.
    Authority {
        mesh: Arc<str>,
    },
    Dataplane {
        key: ProxyKey,
        dataplane: Option<Arc<Labelled<Dataplane>>>,
    },
    Permission {
        mesh: Arc<str>,
        name: Arc<str>,
        policy: Option<Arc<Labelled<MeshTrafficPermission>>>,
    },
    /// With what the proxy says of itself.
    Connected {
        key: ProxyKey,
        metadata: Arc<NodeMetadata>,
    },
    Disconnected {
        key: ProxyKey,
    },
    /// Time went on: certificates may be due.
    Tick,
}

/// A resource with its labels, as far as generation looks at it.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled<S> {
    pub labels: Arc<BTreeMap<String, String>>,
    pub spec: S,
}

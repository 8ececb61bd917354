//! What the engine is told.

use std::sync::Arc;

use kodiak_model::{
    ProxyKey,
    kinds::{dataplane::BackendKind, mesh::Mesh, zone_egress::ZoneEgress},
};
use kodiak_rollout::Rollout;
use kodiak_rules::{Policy, Proxy, book::PolicyKey};
use kodiak_services::vips::Vips;
use kodiak_world::Destination;
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
        dataplane: Option<Arc<Proxy>>,
    },
    /// A MeshService, MeshExternalService or MeshMultiZoneService.
    Destination {
        mesh: Arc<str>,
        kind: BackendKind,
        name: Arc<str>,
        destination: Option<Arc<Destination>>,
    },
    /// A proxy that lets calls out of its zone.
    ZoneEgress {
        name: Arc<str>,
        egress: Option<Arc<ZoneEgress>>,
    },
    Policy {
        mesh: Arc<str>,
        key: PolicyKey,
        policy: Option<Arc<Policy>>,
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

impl Change {
    /// Whether a resource or a connection is gone.
    pub fn is_removal(&self) -> bool {
        match self {
            Self::Mesh { mesh, .. } => mesh.is_none(),
            Self::Rollout { rollout, .. } => rollout.is_none(),
            Self::Vips { vips, .. } => vips.is_none(),
            Self::Dataplane { dataplane, .. } => dataplane.is_none(),
            Self::Destination { destination, .. } => destination.is_none(),
            Self::ZoneEgress { egress, .. } => egress.is_none(),
            Self::Policy { policy, .. } => policy.is_none(),
            Self::Disconnected { .. } => true,
            Self::Authority { .. } | Self::Connected { .. } | Self::Tick => false,
        }
    }
}

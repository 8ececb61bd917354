//! Changes that the engine applies.

use std::sync::Arc;

use kodiak_model::{
    ProxyKey,
    kinds::{dataplane::BackendKind, mesh::Mesh, zone_egress::ZoneEgress},
};
use kodiak_policies::otlp_backends::OtlpBackend;
use kodiak_reachability::Mode;
use kodiak_rollout::Rollout;
use kodiak_rules::{Policy, Proxy, policy_index::PolicyKey};
use kodiak_services::vips::Vips;
use kodiak_world::Destination;
use kodiak_xds::node::NodeMetadata;

use crate::AcknowledgedState;

/// A changed resource or connection. `None`: it was deleted.
#[derive(Debug, Clone)]
pub enum EngineChange {
    Mesh {
        name: Arc<str>,
        mesh: Option<Arc<Mesh>>,
        /// Its label, if it has one.
        reachability: Option<Mode>,
    },
    Rollout {
        mesh: Arc<str>,
        rollout: Option<Rollout>,
    },
    /// The record of the rollout cannot be read: the step before stays.
    UnreadableRollout {
        mesh: Arc<str>,
    },
    Vips {
        mesh: Arc<str>,
        vips: Option<Arc<Vips>>,
    },
    /// The CAs of the mesh and data sources of MeshExternalServices are read again.
    Secret {
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
    /// A MeshOpenTelemetryBackend.
    OtlpBackend {
        mesh: Arc<str>,
        name: Arc<str>,
        backend: Option<Arc<OtlpBackend>>,
    },
    ZoneEgress {
        name: Arc<str>,
        egress: Option<Arc<ZoneEgress>>,
    },
    Policy {
        mesh: Arc<str>,
        key: PolicyKey,
        policy: Option<Arc<Policy>>,
    },
    /// A proxy connected, with the metadata that it sent.
    Connected {
        key: ProxyKey,
        metadata: Arc<NodeMetadata>,
    },
    Disconnected {
        key: ProxyKey,
    },
    /// A DataplaneInsight. No proxy depends on anything else in it.
    Acknowledged {
        key: ProxyKey,
        state: Option<AcknowledgedState>,
    },
    /// Time passed: certificates may be due for renewal.
    Tick,
}

impl EngineChange {
    /// Whether a resource was deleted or a proxy disconnected.
    pub fn is_removal(&self) -> bool {
        match self {
            Self::Mesh { mesh, .. } => mesh.is_none(),
            Self::Rollout { rollout, .. } => rollout.is_none(),
            Self::Vips { vips, .. } => vips.is_none(),
            Self::Dataplane { dataplane, .. } => dataplane.is_none(),
            Self::Destination { destination, .. } => destination.is_none(),
            Self::OtlpBackend { backend, .. } => backend.is_none(),
            Self::ZoneEgress { egress, .. } => egress.is_none(),
            Self::Policy { policy, .. } => policy.is_none(),
            Self::Acknowledged { state, .. } => state.is_none(),
            Self::Disconnected { .. } => true,
            Self::UnreadableRollout { .. } | Self::Secret { .. } | Self::Connected { .. } | Self::Tick => false,
        }
    }
}

//! Inputs and outputs of the service reconciler.

use std::{net::Ipv4Addr, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use kodiak_model::{
    Labels,
    kinds::{
        dataplane::{Admission, Dataplane},
        dataplane_insight::DataplaneInsight,
        mesh::MeshServicesMode,
        mesh_external_service::MeshExternalServiceStatus,
        mesh_multi_zone_service::{MeshMultiZoneService, MeshMultiZoneServiceStatus},
        mesh_service::{MeshService, MeshServiceStatus, Vip},
    },
};

use kodiak_rollout::Rollout;

use crate::{generated_services::Rules, hostnames::ServiceKey, service_addresses::Ranges};

#[derive(Debug, Clone)]
pub struct ServiceSettings {
    pub rules: Rules,
    pub ranges: Ranges,
    /// Time for which a proxy counts as connected after it disconnected.
    pub connection_grace: SignedDuration,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        let connection_grace = SignedDuration::from_secs(30);
        Self { rules: Rules::default(), ranges: Ranges::default(), connection_grace }
    }
}

/// Facts of a mesh that services depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshFacts {
    pub mode: MeshServicesMode,
    /// Whether proxies have certificates, or are about to.
    pub mtls: bool,
    /// Step that decides on the SPIFFE IDs of proxies.
    pub rollout: Arc<Rollout>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DataplaneFacts {
    pub labels: Arc<Labels>,
    pub created: Timestamp,
    pub dataplane: Arc<Dataplane>,
    /// Fields that the token of the proxy binds, if the proxy registered the Dataplane.
    pub admission: Option<Arc<Admission>>,
}

/// Observed state of a proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    pub online: bool,
    /// Time at which it disconnected. `None` while it is connected.
    pub left: Option<Timestamp>,
    /// Whether it has a certificate.
    pub certified: bool,
}

impl Seen {
    pub fn of(insight: &DataplaneInsight) -> Self {
        let online = insight.is_online();
        let left = kodiak_identity::disconnected(insight);
        let certified = insight.mtls.as_ref().is_some_and(|mtls| !mtls.issued_backend.is_empty());
        Self { online, left, certified }
    }

    /// `None` while it is connected, and when it never connected.
    pub(super) fn counts_until(&self, grace: SignedDuration) -> Option<Timestamp> {
        self.left.filter(|_| !self.online).and_then(|left| left.checked_add(grace).ok())
    }

    pub(super) fn is_connected(&self, grace: SignedDuration, now: Timestamp) -> bool {
        self.online || self.counts_until(grace).is_some_and(|end| now < end)
    }
}

/// Stored MeshService, MeshExternalService or MeshMultiZoneService.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    pub labels: Arc<Labels>,
    pub created: Timestamp,
    /// Version of spec and labels.
    pub version: u64,
    /// `None` while there is no status.
    pub status_version: Option<u64>,
    pub content: Content,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Service {
        spec: MeshService,
        status: MeshServiceStatus,
    },
    External {
        /// Why its TLS settings cannot be configured, and what proxies do meanwhile.
        fault: Option<String>,
        status: MeshExternalServiceStatus,
    },
    MultiZone {
        spec: MeshMultiZoneService,
        status: MeshMultiZoneServiceStatus,
    },
}

impl Stored {
    /// Virtual addresses in its status.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Ipv4Addr> {
        let vips = match &self.content {
            Content::Service { status, .. } => status.vips.as_slice(),
            Content::External { status, .. } => std::slice::from_ref(&status.vip),
            Content::MultiZone { status, .. } => status.vips.as_slice(),
        };
        vips.iter().filter_map(|Vip { ip }| ip.parse().ok())
    }
}

/// Write of one service, with its precondition.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    pub key: ServiceKey,
    pub write: Write,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Spec and labels of a MeshService. Without a version it must not exist yet.
    Put {
        labels: Labels,
        spec: MeshService,
        version: Option<u64>,
    },
    /// Without a version there must be no status yet.
    Status {
        status: Status,
        version: Option<u64>,
    },
    Delete {
        version: u64,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    Service(MeshServiceStatus),
    External(MeshExternalServiceStatus),
    MultiZone(MeshMultiZoneServiceStatus),
}

/// Counters since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    pub services_looked_at: u64,
    pub workloads_looked_at: u64,
    /// Writes of spec and labels, and deletions.
    pub spec_writes: u64,
    pub status_writes: u64,
}

//! Destinations that are resources: MeshService, MeshExternalService and MeshMultiZoneService, as their callers see
//! them.

use std::{net::Ipv4Addr, sync::Arc};

use jiff::Timestamp;
use kodiak_model::{
    Kind, Kri, Labels, PortSection, Protocol,
    kinds::{
        dataplane::BackendKind,
        hostname_generator::Address,
        mesh_external_service::{self, MeshExternalService, MeshExternalServiceStatus},
        mesh_multi_zone_service::{self, MeshMultiZoneService, MeshMultiZoneServiceStatus},
        mesh_service::{self, Identity, MeshService, MeshServiceStatus, Port, Selector, State, Vip},
    },
    labels,
};

pub const KINDS: [(&Kind, BackendKind); 3] = [
    (&mesh_service::KIND, BackendKind::MeshService),
    (&mesh_external_service::KIND, BackendKind::MeshExternalService),
    (&mesh_multi_zone_service::KIND, BackendKind::MeshMultiZoneService),
];

/// One of them, whole. What is only counted in its status is no part of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Destination {
    /// Of the whole resource.
    pub kri: Kri,
    /// The name that it is stored under.
    pub name: Arc<str>,
    pub labels: Arc<Labels>,
    pub created: Timestamp,
    pub ports: Vec<DestinationPort>,
    /// Where it is called, in this order.
    pub vips: Vec<Ipv4Addr>,
    /// The names that lead to the first of its addresses.
    pub hostnames: Vec<Arc<str>>,
    pub behind: Behind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationPort {
    pub section: String,
    pub port: u32,
    pub protocol: Protocol,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Behind {
    Service(Arc<Service>),
    External(Arc<MeshExternalService>),
    /// The MeshServices that it stands for.
    MultiZone(Arc<MeshMultiZoneService>),
}

/// What a MeshService says of the proxies behind it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Service {
    pub selector: Selector,
    pub ports: Vec<Port>,
    pub identities: Vec<Identity>,
    pub available: bool,
}

/// What is stored of it.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    pub mesh: &'a str,
    pub name: &'a Arc<str>,
    pub labels: &'a Arc<Labels>,
    pub created: Timestamp,
    pub spec: &'a str,
    /// Empty when there is none.
    pub status: &'a str,
}

impl Destination {
    /// `None` where the spec cannot be read. A status that cannot be is as good as none: it is made anew.
    pub fn read(kind: BackendKind, stored: Stored<'_>) -> Option<Self> {
        match kind {
            BackendKind::MeshService => Self::service(stored),
            BackendKind::MeshExternalService => Self::external(stored),
            BackendKind::MeshMultiZoneService => Self::multi_zone(stored),
        }
    }

    fn service(stored: Stored<'_>) -> Option<Self> {
        let MeshService { state, selector, ports, identities } = serde_json::from_str(stored.spec).ok()?;
        let MeshServiceStatus { addresses, vips, .. } = serde_json::from_str(stored.status).unwrap_or_default();
        let port = |port: &Port| port_of(port.port, port.name.as_deref(), &port.app_protocol);
        let sections = ports.iter().map(port).collect();
        let (identities, available) = (identities.unwrap_or_default(), state.is(State::Available));
        let behind = Behind::Service(Arc::new(Service { selector, ports, identities, available }));
        Some(Self::new(&mesh_service::KIND, stored, sections, behind).called_at(&vips, &addresses))
    }

    fn external(stored: Stored<'_>) -> Option<Self> {
        let spec: MeshExternalService = serde_json::from_str(stored.spec).ok()?;
        let status: MeshExternalServiceStatus = serde_json::from_str(stored.status).unwrap_or_default();
        let ports = vec![port_of(spec.matching.port, None, spec.matching.protocol.as_str())];
        let behind = Behind::External(Arc::new(spec));
        let made = Self::new(&mesh_external_service::KIND, stored, ports, behind);
        Some(made.called_at(&[status.vip], &status.addresses))
    }

    fn multi_zone(stored: Stored<'_>) -> Option<Self> {
        let spec: MeshMultiZoneService = serde_json::from_str(stored.spec).ok()?;
        let MeshMultiZoneServiceStatus { addresses, vips, .. } =
            serde_json::from_str(stored.status).unwrap_or_default();
        let port = |port: &mesh_multi_zone_service::Port| port_of(port.port, port.name.as_deref(), &port.app_protocol);
        let ports = spec.ports.iter().map(port).collect();
        let behind = Behind::MultiZone(Arc::new(spec));
        Some(Self::new(&mesh_multi_zone_service::KIND, stored, ports, behind).called_at(&vips, &addresses))
    }

    fn new(kind: &Kind, stored: Stored<'_>, ports: Vec<DestinationPort>, behind: Behind) -> Self {
        let Stored { mesh, name, labels, created, .. } = stored;
        Self {
            kri: Kri::of(kind, mesh, name, labels).expect("destinations have a short name"),
            name: name.clone(),
            labels: labels.clone(),
            created,
            ports,
            vips: Vec::new(),
            hostnames: Vec::new(),
            behind,
        }
    }

    /// A proxy listens at nothing but addresses that can be read.
    fn called_at(self, vips: &[Vip], addresses: &[Address]) -> Self {
        let vips = vips.iter().filter_map(|vip| vip.ip.parse().ok()).collect();
        let hostnames = addresses.iter().map(|address| address.hostname.as_str().into()).collect();
        Self { vips, hostnames, ..self }
    }

    pub fn kind(&self) -> BackendKind {
        match self.behind {
            Behind::Service(_) => BackendKind::MeshService,
            Behind::External(_) => BackendKind::MeshExternalService,
            Behind::MultiZone(_) => BackendKind::MeshMultiZoneService,
        }
    }

    pub fn port(&self, section: &str) -> Option<&DestinationPort> {
        self.ports.iter().find(|port| port.section == section)
    }

    /// What came from another zone is served there.
    pub fn is_local(&self) -> bool {
        self.labels.get(labels::ORIGIN).is_none_or(|origin| origin == "zone")
    }
}

/// A protocol that is not known is carried as bytes.
fn port_of(port: u32, name: Option<&str>, protocol: &str) -> DestinationPort {
    let section = PortSection::of(port, name).section;
    DestinationPort { section, port, protocol: Protocol::parse(protocol).unwrap_or(Protocol::Tcp) }
}

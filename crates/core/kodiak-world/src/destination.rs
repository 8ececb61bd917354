//! Destinations that are resources, as clients see them: MeshService, MeshExternalService and MeshMultiZoneService.

use std::{collections::BTreeSet, net::Ipv4Addr, sync::Arc};

use jiff::Timestamp;
use kodiak_model::{
    Erased, Kind, Kri, Labels, PortSection, Protocol,
    kinds::{
        dataplane::BackendKind,
        hostname_generator::Address,
        mesh_external_service::{self, MeshExternalService, MeshExternalServiceStatus},
        mesh_multi_zone_service::{self, MeshMultiZoneService, MeshMultiZoneServiceStatus},
        mesh_service::{self, Identity, MeshService, MeshServiceStatus, Port, Selector, State, Vip},
    },
    labels,
};

use crate::Resource;

pub const KINDS: [(&Kind, BackendKind); 3] = [
    (&mesh_service::KIND, BackendKind::MeshService),
    (&mesh_external_service::KIND, BackendKind::MeshExternalService),
    (&mesh_multi_zone_service::KIND, BackendKind::MeshMultiZoneService),
];

/// Destination, without the counts of its status.
#[derive(Debug, Clone, PartialEq)]
pub struct Destination {
    /// KRI of the whole resource.
    pub kri: Kri,
    /// Name in the store.
    pub name: Arc<str>,
    pub labels: Arc<Labels>,
    pub created: Timestamp,
    pub ports: Vec<DestinationPort>,
    /// Virtual addresses, in order.
    pub vips: Vec<Ipv4Addr>,
    /// Hostnames of the first address.
    pub hostnames: Vec<Arc<str>>,
    pub behind: Behind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationPort {
    pub section: String,
    pub port: u32,
    pub protocol: Protocol,
}

/// Endpoints of a destination.
#[derive(Debug, Clone, PartialEq)]
pub enum Behind {
    Service(Arc<Service>),
    External(Arc<MeshExternalService>),
    /// MeshServices that a MeshMultiZoneService matches.
    MultiZone(Arc<MeshMultiZoneService>),
}

/// Selector, ports, identities and availability of a MeshService.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Service {
    pub selector: Selector,
    pub ports: Vec<Port>,
    pub identities: Vec<Identity>,
    pub available: bool,
}

impl Destination {
    /// `None` when the spec is not of this kind. An unreadable status counts as empty, because it is recomputed.
    pub(crate) fn of(kind: BackendKind, spec: &Erased, resource: &Resource) -> Option<Self> {
        match kind {
            BackendKind::MeshService => Some(Self::service(&*spec.get()?, resource)),
            BackendKind::MeshExternalService => Some(Self::external(spec.get()?, resource)),
            BackendKind::MeshMultiZoneService => Some(Self::multi_zone(&*spec.get()?, resource)),
        }
    }

    fn service(spec: &MeshService, resource: &Resource) -> Self {
        let MeshService { state, selector, mut ports, identities } = spec.clone();
        once(&mut ports, |port| port.port);
        let status = resource.status::<MeshServiceStatus>();
        let port = |port: &Port| port_of(port.port, port.name.as_deref(), &port.app_protocol);
        let sections = ports.iter().map(port).collect();
        let (identities, available) = (identities.unwrap_or_default(), state.is(State::Available));
        let behind = Behind::Service(Arc::new(Service { selector, ports, identities, available }));
        Self::new(&mesh_service::KIND, resource, sections, behind).called_at(&status.vips, &status.addresses)
    }

    fn external(spec: Arc<MeshExternalService>, resource: &Resource) -> Self {
        let status = resource.status::<MeshExternalServiceStatus>();
        let ports = vec![port_of(spec.matching.port, None, spec.matching.protocol.as_str())];
        let made = Self::new(&mesh_external_service::KIND, resource, ports, Behind::External(spec));
        made.called_at(std::slice::from_ref(&status.vip), &status.addresses)
    }

    fn multi_zone(spec: &MeshMultiZoneService, resource: &Resource) -> Self {
        let mut spec = spec.clone();
        once(&mut spec.ports, |port| port.port);
        let status = resource.status::<MeshMultiZoneServiceStatus>();
        let port = |port: &mesh_multi_zone_service::Port| port_of(port.port, port.name.as_deref(), &port.app_protocol);
        let ports = spec.ports.iter().map(port).collect();
        let behind = Behind::MultiZone(Arc::new(spec));
        let made = Self::new(&mesh_multi_zone_service::KIND, resource, ports, behind);
        made.called_at(&status.vips, &status.addresses)
    }

    fn new(kind: &Kind, resource: &Resource, ports: Vec<DestinationPort>, behind: Behind) -> Self {
        let Resource { key, labels, created, .. } = resource;
        Self {
            kri: Kri::of(kind, &key.mesh, &key.name, labels).expect("destinations have a short name"),
            name: key.name.clone(),
            labels: labels.clone(),
            created: *created,
            ports,
            vips: Vec::new(),
            hostnames: Vec::new(),
            behind,
        }
    }

    /// Valid addresses only: proxies cannot listen on others.
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

    /// Name in SNIs: with the namespace, if it has one.
    pub fn sni_name(&self) -> String {
        match self.kind() {
            BackendKind::MeshService if !self.kri.namespace.is_empty() => {
                format!("{}.{}", self.kri.name, self.kri.namespace)
            }
            BackendKind::MeshService if self.is_local() => self.name.to_string(),
            _ => self.kri.name.clone(),
        }
    }

    pub fn port(&self, section: &str) -> Option<&DestinationPort> {
        self.ports.iter().find(|port| port.section == section)
    }

    /// Resources of another zone are served there.
    pub fn is_local(&self) -> bool {
        self.labels.get(labels::ORIGIN).is_none_or(|origin| origin == "zone")
    }
}

/// Ports without duplicates; the first entry of a number wins.
fn once<P>(ports: &mut Vec<P>, number: fn(&P) -> u32) {
    let mut seen = BTreeSet::new();
    ports.retain(|port| seen.insert(number(port)));
}

/// An unknown protocol counts as TCP.
fn port_of(port: u32, name: Option<&str>, protocol: &str) -> DestinationPort {
    let section = PortSection::of(port, name).section;
    DestinationPort { section, port, protocol: Protocol::parse(protocol).unwrap_or(Protocol::Tcp) }
}

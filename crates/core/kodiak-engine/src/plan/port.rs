//! Outbounds and clusters of ports of MeshServices, MeshExternalServices and MeshMultiZoneServices.

use std::{collections::BTreeSet, net::Ipv4Addr, sync::Arc};

use kodiak_model::{
    Kri, Protocol,
    kinds::{dataplane::BackendKind, mesh::MeshServicesMode},
};
use kodiak_policies::target::{Backend, Endpoint, EndpointLabels, PortRef};
use kodiak_services::reachable::{self, Wanted};
use kodiak_world::destination::{Behind, Destination, DestinationPort};
use kodiak_xds::{
    external,
    input::{
        Callee, Carried, DnsRecord, ExternalCluster, ExternalEndpoint, ExternalTls, HostHeader, OutboundCluster,
        OutboundListener, Peer, UpstreamProtocol,
    },
    names::{self, Naming},
};

use super::{Cluster, Outbound, RouteBackends, Socket, Sources, Traffic, permission, placed};
use crate::{
    class_key::{ClassKey, Reach},
    objects::Object,
    rules::{MergedConf, Rules},
    target::{ClusterTarget, PortTarget, Target},
    view::{ExternalAccess, ZonePriority},
};

/// Outbounds at the virtual addresses of a resource, by the names of their clusters.
pub(super) fn redirected(
    key: &ClassKey,
    rules: &Rules,
    from: Sources<'_>,
    kri: &Arc<Kri>,
) -> Vec<(Arc<str>, Outbound)> {
    let Reach::Redirected { objects: reach, .. } = &key.reach else { return Vec::new() };
    let Some(object) = from.objects.get(kri).filter(|object| is_called(from, &object.destination)) else {
        return Vec::new();
    };
    let vips = &object.destination.vips;
    let records = records_of(&object.destination);
    let ports = object.destination.ports.iter().filter(|port| reach.takes(&object.destination, port));
    let plan = |port: &DestinationPort| {
        let port_target = Arc::new(PortTarget::new(kri, &port.section, port.port));
        let planned = PortOutbound::new(rules, from, object, port_target);
        let own = ClusterTarget::Port(planned.port_target.clone());
        if !permission::may_be_answered(key, from, &own, planned.traffic()) {
            let outbound = Outbound::trimmed(own.destination(), planned.traffic())?;
            return Some((planned.cluster.clone(), outbound));
        }
        let listen = |(n, vip): (usize, &Ipv4Addr)| {
            // Listener names are unique, and only one listener can be named after the port.
            let naming = if n == 0 { from.view.naming } else { Naming::default() };
            planned.listener(key, from, naming, (&vip.to_string(), port.port), Socket::at(key, *vip))
        };
        let listeners = vips.iter().enumerate().map(listen).collect();
        Some((planned.cluster.clone(), Outbound { listeners, records: records.clone(), ..planned.outbound() }))
    };
    ports.filter(|_| !vips.is_empty()).filter_map(plan).collect()
}

/// DNS records of a resource, unless proxies reach it only if they list it.
pub(super) fn records(from: Sources<'_>, kri: &Arc<Kri>) -> Vec<DnsRecord> {
    let object = from.objects.get(kri).filter(|object| is_called(from, &object.destination));
    let object = object.filter(|_| from.view.mode != MeshServicesMode::ReachableBackends);
    object
        .filter(|object| !object.destination.ports.is_empty())
        .map_or_else(Vec::new, |object| records_of(&object.destination))
}

fn records_of(destination: &Destination) -> Vec<DnsRecord> {
    let Destination { vips, hostnames, .. } = destination;
    let Some(first) = vips.first() else { return Vec::new() };
    hostnames.iter().map(|name| DnsRecord { name: name.to_ascii_lowercase().into(), address: *first }).collect()
}

/// Outbound that a Dataplane lists. `None` if its reference resolves to no port, or to more than one.
pub(super) fn listed(
    key: &ClassKey,
    rules: &Rules,
    from: Sources<'_>,
    wanted: &Wanted,
    at: (&str, u32),
) -> Option<(Arc<str>, Outbound)> {
    let [port_target] = <[PortTarget; 1]>::try_from(from.objects.resolve_outbound(wanted)).ok()?;
    let object = from.objects.get(&port_target.object).filter(|object| is_called(from, &object.destination))?;
    let planned = PortOutbound::new(rules, from, object, Arc::new(port_target));
    // The same port may be listed at several addresses.
    let listeners = vec![planned.listener(key, from, Naming::default(), at, Socket::Bound)];
    Some((planned.cluster.clone(), Outbound { listeners, ..planned.outbound() }))
}

/// Backend of a route. `None` if its reference does not resolve.
pub(super) fn backend(from: Sources<'_>, written: &PortRef) -> Option<(ClusterTarget, Backend)> {
    let port_target = from.objects.resolve_backend(written, &from.view.name, &from.view.zone)?;
    let object = from.objects.get(&port_target.object).filter(|object| is_called(from, &object.destination))?;
    let protocol = object.destination.port(&port_target.kri.section).map_or(Protocol::Tcp, |port| port.protocol);
    let external = written.kind == BackendKind::MeshExternalService;
    let backend = Backend { cluster: port_target.cluster_name(from.view.naming), protocol, external };
    Some((ClusterTarget::Port(Arc::new(port_target)), backend))
}

/// The cluster of a port, and its endpoints.
pub(super) fn cluster(key: &ClassKey, rules: &Rules, from: Sources<'_>, port_target: &PortTarget) -> Cluster {
    let (name, mesh) = (port_target.cluster_name(from.view.naming), from.view.name.clone());
    let object = from.objects.get(&port_target.object);
    let port = object.and_then(|object| object.destination.port(&port_target.kri.section));
    let protocol = port.map_or(Protocol::Tcp, |port| port.protocol);
    let merged = object.map(|object| rules.for_port(&object.resource, &port_target.kri.section)).unwrap_or_default();
    let mtls = from.view.calls_with_mtls(&key.certificate);
    let (endpoints, identities, upstream) = match object.map(|object| &object.destination.behind) {
        Some(Behind::External(spec)) if from.view.external == ExternalAccess::Direct => {
            let tls = spec.tls.as_ref().map(|tls| {
                let mut read = |source: &_| from.identities.source(&mesh, source);
                external::tls(tls, spec.endpoints.as_deref().unwrap_or_default(), key.system_ca.as_deref(), &mut read)
            });
            let tls = tls.transpose().and_then(|tls| matching(from, &port_target.object, tls.flatten()));
            // Without the TLS that is configured, no endpoint may be called.
            let (endpoints, tls) = match tls {
                Ok(tls) => (spec.endpoints.as_deref().unwrap_or_default(), tls),
                Err(_) => (&[][..], None),
            };
            let endpoints = endpoints.iter().map(|endpoint| ExternalEndpoint {
                priority: endpoint.priority.unwrap_or_default(),
                address: endpoint.address.clone(),
                port: endpoint.port,
            });
            return Cluster::External(ExternalCluster {
                name,
                upstream: UpstreamProtocol::outside(protocol),
                endpoints: endpoints.collect(),
                tls,
                ipv6: key.reach.shape().ipv6,
                confs: merged.cluster,
            });
        }
        Some(Behind::External(_)) => {
            let identities = vec![names::service_identity(&mesh, names::ZONE_EGRESS)];
            (from.view.egresses.clone(), identities, UpstreamProtocol::outside(protocol))
        }
        Some(Behind::Service(_) | Behind::MultiZone(_)) | None => {
            let identities = object.map(|object| object.identities.clone()).unwrap_or_default();
            let object = object.filter(|_| !from.view.is_cut_off(&key.certificate));
            let endpoints = object.map(|object| object.endpoints(&port_target.kri.section)).unwrap_or_default();
            (endpoints, identities, UpstreamProtocol::inside(protocol))
        }
    };
    let sni = object.map(|object| {
        names::port_sni(&object.destination.sni_name(), port_target.number, &mesh, object.destination.kind())
    });
    let labels = || object.map(|object| object.labels().clone()).unwrap_or_default();
    let assignment = near(key, &merged, from, name.clone(), (endpoints, &labels));
    let some_plaintext = assignment.endpoints.iter().any(|endpoint| endpoint.plaintext);
    let peer = Peer { sni: sni.unwrap_or_default(), some_plaintext, ..Peer::default() };
    let peer = mtls.then(|| super::peer(key, from, (&name, identities), peer));
    let (peer, validation) = peer.unzip();
    Cluster::Discovered {
        cluster: OutboundCluster { name, mesh, peer, upstream, confs: merged.cluster },
        assignment,
        validation: validation.flatten(),
    }
}

/// The settings with a client certificate that belongs to its key.
fn matching(from: Sources<'_>, service: &Kri, tls: Option<ExternalTls>) -> Result<Option<Arc<ExternalTls>>, String> {
    let Some(mut tls) = tls else { return Ok(None) };
    if let Some(pair) = tls.client.take() {
        tls.client = Some(from.identities.client_pair(service, pair)?);
    }
    Ok(Some(Arc::new(tls)))
}

/// Endpoints of resources in the local zone always come first.
fn near(
    key: &ClassKey,
    merged: &MergedConf,
    from: Sources<'_>,
    cluster: Arc<str>,
    endpoints: (Arc<[Endpoint]>, &dyn Fn() -> Arc<EndpointLabels>),
) -> kodiak_xds::input::Assignment {
    placed(key, merged, from.view, cluster, endpoints, ZonePriority::LocalFirst)
}

/// Whether proxies of this zone may call it.
fn is_called(from: Sources<'_>, destination: &Destination) -> bool {
    let is_external = destination.kind() == BackendKind::MeshExternalService;
    let is_forbidden = is_external && from.view.external == ExternalAccess::Forbidden;
    !is_forbidden && reachable::is_served_in(destination, Some(&from.view.zone))
}

/// An outbound to a port, with the merged configuration of policies.
struct PortOutbound {
    port_target: Arc<PortTarget>,
    cluster: Arc<str>,
    protocol: Protocol,
    carried: Carried,
    host: HostHeader,
    merged: MergedConf,
    route_backends: RouteBackends,
}

impl PortOutbound {
    fn new(rules: &Rules, from: Sources<'_>, object: &Object, port_target: Arc<PortTarget>) -> Self {
        let merged = rules.for_port(&object.resource, &port_target.kri.section);
        let direct = object.destination.kind() == BackendKind::MeshExternalService
            && from.view.external == ExternalAccess::Direct;
        let protocol = object.destination.port(&port_target.kri.section).map_or(Protocol::Tcp, |port| port.protocol);
        let carried = merged.carried(Some(protocol));
        Self {
            cluster: port_target.cluster_name(from.view.naming),
            protocol,
            carried,
            host: if direct { HostHeader::OwnHostname } else { HostHeader::Unchanged },
            route_backends: RouteBackends::new(&merged, carried, from),
            port_target,
            merged,
        }
    }

    fn listener(
        &self,
        key: &ClassKey,
        from: Sources<'_>,
        naming: Naming,
        (address, port): (&str, u32),
        socket: Socket,
    ) -> OutboundListener {
        OutboundListener {
            mesh: from.view.name.clone(),
            name: names::port_listener(naming, &self.port_target.kri, address, port).into(),
            address: address.to_owned(),
            port,
            callee: Callee::Port { kri: self.port_target.kri.clone(), host: self.host },
            cluster: self.cluster.clone(),
            protocol: self.protocol,
            carried: self.carried,
            confs: self.merged.listener.clone(),
            facts: self.merged.facts(&key.facts),
            backends: self.route_backends.backends.clone(),
            route_names: self.merged.route_names.clone(),
            bind: socket == Socket::Bound,
            shape: key.reach.shape(),
        }
    }

    fn traffic(&self) -> Traffic<'_> {
        Traffic { merged: &self.merged, carried: self.carried, route_backends: &self.route_backends }
    }

    fn outbound(&self) -> Outbound {
        let mut cluster_targets = self.route_backends.cluster_targets.clone();
        cluster_targets.extend(self.merged.collectors());
        cluster_targets.insert(ClusterTarget::Port(self.port_target.clone()));
        Outbound {
            target: Target::Object(self.port_target.object.clone()),
            listeners: Vec::new(),
            records: Vec::new(),
            cluster_targets,
            backend_refs: self.route_backends.backend_refs.clone(),
            trimmed: BTreeSet::new(),
        }
    }
}

//! Ports of resources: where they are called, and what they lead to.

use std::{net::Ipv4Addr, sync::Arc};

use kodiak_model::{Kri, Protocol, kinds::dataplane::BackendKind};
use kodiak_policies::target::{Backend, Endpoint, PortRef};
use kodiak_views::reachable::{self, Wanted};
use kodiak_world::destination::{Behind, Destination, DestinationPort};
use kodiak_xds::{
    external,
    input::{
        Callee, DnsRecord, ExternalCluster, ExternalEndpoint, HostHeader, OutboundCluster, OutboundListener, Peer,
        UpstreamProtocol,
    },
    names::{self, Naming},
};

use super::{Cluster, Outbound, Routed, Socket, Sources, placed};
use crate::{
    class_key::{ClassKey, Reach},
    objects::Object,
    rules::{Rules, Said},
    target::{Goal, PortGoal, Target},
    view::{Way, ZonePriority},
};

/// The ports of a resource that are called at its virtual addresses, by the names of their clusters.
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
    let Destination { vips, hostnames, .. } = &*object.destination;
    let Some(first) = vips.first() else { return Vec::new() };
    let record = |name: &Arc<str>| DnsRecord { name: name.to_ascii_lowercase().into(), address: *first };
    let ports = object.destination.ports.iter().filter(|port| reach.takes(&object.destination, port));
    let plan = |port: &DestinationPort| {
        let goal = Arc::new(PortGoal::new(kri, &port.section, port.port));
        let called = Called::new(rules, from, object, goal);
        let listen = |(n, vip): (usize, &Ipv4Addr)| {
            // A name can be had once.
            let naming = if n == 0 { from.view.naming } else { Naming::default() };
            called.listener(key, from, naming, (&vip.to_string(), port.port), Socket::Redirected)
        };
        let listeners = vips.iter().enumerate().map(listen).collect();
        let records = hostnames.iter().map(record).collect();
        (called.cluster.clone(), Outbound { listeners, records, ..called.outbound() })
    };
    ports.map(plan).collect()
}

/// What an outbound that is written by hand leads to. One that means nothing, or more than one port, leads nowhere.
pub(super) fn listed(
    key: &ClassKey,
    rules: &Rules,
    from: Sources<'_>,
    wanted: &Wanted,
    at: (&str, u32),
) -> Option<(Arc<str>, Outbound)> {
    let [goal] = <[PortGoal; 1]>::try_from(from.objects.wanted(wanted)).ok()?;
    let object = from.objects.get(&goal.object).filter(|object| is_called(from, &object.destination))?;
    let called = Called::new(rules, from, object, Arc::new(goal));
    // The same port may be listed at several addresses.
    let listeners = vec![called.listener(key, from, Naming::default(), at, Socket::Bound)];
    Some((called.cluster.clone(), Outbound { listeners, ..called.outbound() }))
}

/// Where a route leads to, if that is there.
pub(super) fn backend(from: Sources<'_>, written: &PortRef) -> Option<(Goal, Backend)> {
    let goal = from.objects.find(written, &from.view.name, &from.view.zone)?;
    let object = from.objects.get(&goal.object).filter(|object| is_called(from, &object.destination))?;
    let protocol = object.destination.port(&goal.kri.section).map_or(Protocol::Tcp, |port| port.protocol);
    let external = written.kind == BackendKind::MeshExternalService;
    let backend = Backend { cluster: goal.cluster(from.view.naming), protocol, external };
    Some((Goal::Port(Arc::new(goal)), backend))
}

/// The cluster of a port, and who serves it.
pub(super) fn cluster(key: &ClassKey, rules: &Rules, from: Sources<'_>, goal: &PortGoal) -> Cluster {
    let (name, mesh) = (goal.cluster(from.view.naming), from.view.name.clone());
    let object = from.objects.get(&goal.object);
    let port = object.and_then(|object| object.destination.port(&goal.kri.section));
    let protocol = port.map_or(Protocol::Tcp, |port| port.protocol);
    let said = object.map(|object| rules.about_port(&object.resource, &goal.kri.section)).unwrap_or_default();
    let mtls = from.view.rollout.call;
    let (endpoints, peer, upstream) = match object.map(|object| &object.destination.behind) {
        Some(Behind::External(spec)) if from.view.external == Way::Direct => {
            let tls = spec.tls.as_ref().map(|tls| {
                let mut read = |source: &_| from.identities.source(&mesh, source);
                external::tls(tls, spec.endpoints.as_deref().unwrap_or_default(), key.system_ca.as_deref(), &mut read)
            });
            // What cannot be called as it should be is not called at all.
            let (endpoints, tls) = match tls.transpose() {
                Ok(tls) => (spec.endpoints.as_deref().unwrap_or_default(), tls.flatten().map(Arc::new)),
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
                confs: said.cluster,
            });
        }
        Some(Behind::External(_)) => {
            let identities = vec![names::service_identity(&mesh, names::ZONE_EGRESS)];
            (from.view.egresses.clone(), identities, UpstreamProtocol::outside(protocol))
        }
        Some(Behind::Service(_) | Behind::MultiZone(_)) | None => {
            let identities = object.map(|object| object.identities.clone()).unwrap_or_default();
            let endpoints = object.map(|object| object.endpoints(&goal.kri.section)).unwrap_or_default();
            (endpoints, identities, UpstreamProtocol::inside(protocol))
        }
    };
    let sni = object.map(|object| names::port_sni(&object.sni_name(), goal.number, &mesh, object.destination.kind()));
    let peer = mtls.then(|| Arc::new(Peer { sni: sni.unwrap_or_default(), identities: peer }));
    let assignment = near(key, &said, from, name.clone(), endpoints);
    Cluster::Discovered(OutboundCluster { name, mesh, peer, upstream, confs: said.cluster }, assignment)
}

/// Calls to resources stay in the own zone as long as they can.
fn near(
    key: &ClassKey,
    said: &Said,
    from: Sources<'_>,
    cluster: Arc<str>,
    endpoints: Arc<[Endpoint]>,
) -> kodiak_xds::input::Assignment {
    placed(key, said, from.view, cluster, endpoints, ZonePriority::LocalFirst)
}

/// Whether it may be called from here at all.
fn is_called(from: Sources<'_>, destination: &Destination) -> bool {
    let is_external = destination.kind() == BackendKind::MeshExternalService;
    let is_forbidden = is_external && from.view.external == Way::Forbidden;
    !is_forbidden && reachable::is_served_in(destination, Some(&from.view.zone))
}

/// A port, and what policies say of it.
struct Called {
    goal: Arc<PortGoal>,
    cluster: Arc<str>,
    protocol: Protocol,
    host: HostHeader,
    said: Said,
    routed: Routed,
}

impl Called {
    fn new(rules: &Rules, from: Sources<'_>, object: &Object, goal: Arc<PortGoal>) -> Self {
        let said = rules.about_port(&object.resource, &goal.kri.section);
        let direct = object.destination.kind() == BackendKind::MeshExternalService && from.view.external == Way::Direct;
        Self {
            cluster: goal.cluster(from.view.naming),
            protocol: object.destination.port(&goal.kri.section).map_or(Protocol::Tcp, |port| port.protocol),
            host: if direct { HostHeader::OwnHostname } else { HostHeader::Unchanged },
            routed: Routed::new(&said, from),
            goal,
            said,
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
            name: names::port_listener(naming, &self.goal.kri, address, port).into(),
            address: address.to_owned(),
            port,
            callee: Callee::Port { kri: self.goal.kri.clone(), host: self.host },
            cluster: self.cluster.clone(),
            protocol: self.protocol,
            carried: self.said.carried(self.protocol),
            confs: self.said.listener.clone(),
            backends: self.routed.backends.clone(),
            route_names: self.said.route_names.clone(),
            bind: socket == Socket::Bound,
            shape: key.reach.shape(),
        }
    }

    fn outbound(&self) -> Outbound {
        let mut leads_to = self.routed.goals.clone();
        leads_to.insert(Goal::Port(self.goal.clone()));
        Outbound {
            target: Target::Object(self.goal.object.clone()),
            listeners: Vec::new(),
            records: Vec::new(),
            leads_to,
            asks: self.routed.asks.clone(),
        }
    }
}

//! Desired outbounds and clusters of a class, before resources are built.

mod direct_access;
mod permission;
mod port;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    sync::Arc,
};

use kodiak_identity::{ServerAccess, expected_ids};
use kodiak_model::{Protocol, tags};
use kodiak_policies::target::{Backend, BackendKey, Backends, Collector, EndpointLabels, Endpoints, PortRef};
use kodiak_reachability::MeshGraph;
use kodiak_rules::Proxy;
use kodiak_services::vips::{self, Vips};
use kodiak_xds::{
    input::{
        Assignment, Callee, Carried, CollectorCluster, DirectAccessCluster, DnsRecord, Endpoint, ExternalCluster,
        OutboundCluster, OutboundListener, Peer, Tags, TlsSource, UpstreamProtocol, Validation,
    },
    names,
};

use crate::{
    Identities,
    class_key::{ClassKey, OutboundRef, Reach},
    objects::Objects,
    rules::{MergedConf, Rules},
    services::{Service, Services},
    target::{ClusterTarget, Target, Touched},
    view::{View, ZonePriority},
};

/// State of the mesh that classes are computed from.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) view: &'a View,
    pub(crate) services: &'a Services,
    pub(crate) vips: &'a Vips,
    pub(crate) objects: &'a Objects,
    pub(crate) dataplanes: &'a BTreeMap<Arc<str>, Arc<Proxy>>,
    pub(crate) identities: &'a dyn Identities,
    /// `None` while no proxy loses destinations that it may not call.
    pub(crate) graph: Option<&'a MeshGraph>,
}

/// Listeners and DNS records of a destination, and the clusters that its listeners reference.
pub(crate) struct Outbound {
    pub(crate) target: Target,
    pub(crate) listeners: Vec<OutboundListener>,
    pub(crate) records: Vec<DnsRecord>,
    pub(crate) cluster_targets: BTreeSet<ClusterTarget>,
    /// Backend references of routes, whether they resolve or not.
    pub(crate) backend_refs: BTreeSet<PortRef>,
    /// Without listeners, because no server that the traffic gets to would admit the class: the destinations that it would
    /// get to.
    pub(crate) trimmed: BTreeSet<Target>,
}

impl Outbound {
    /// A routed one gets its listeners with a permission of one of its backends.
    fn trimmed(target: Target, traffic: Traffic<'_>) -> Option<Self> {
        traffic.merged.route(traffic.carried)?;
        let RouteBackends { cluster_targets, backend_refs, .. } = traffic.route_backends;
        let trimmed = cluster_targets.iter().map(ClusterTarget::destination).chain([target.clone()]).collect();
        Some(Self {
            target,
            listeners: Vec::new(),
            records: Vec::new(),
            cluster_targets: BTreeSet::new(),
            backend_refs: backend_refs.clone(),
            trimmed,
        })
    }
}

/// Whether an outbound listener opens its port. Redirected connections reach it without that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Socket {
    Bound,
    Redirected,
}

impl Socket {
    /// Connections to loopback addresses are not redirected, so a proxy may ask for listeners that bind them.
    fn at(key: &ClassKey, vip: Ipv4Addr) -> Self {
        if key.reach.binds_loopback() && vip.is_loopback() { Self::Bound } else { Self::Redirected }
    }
}

/// Cluster of a destination, with endpoints from EDS or of its own.
pub(crate) enum Cluster {
    Discovered {
        cluster: OutboundCluster,
        assignment: Assignment,
        /// With mTLS: of its servers.
        validation: Option<Validation>,
    },
    External(ExternalCluster),
    DirectAccess(DirectAccessCluster),
    Collector(CollectorCluster),
}

/// The outbounds of touched targets, by the name of their own cluster.
pub(crate) fn outbounds(
    key: &ClassKey,
    rules: &Rules,
    from: Sources<'_>,
    touched: Touched<'_>,
) -> BTreeMap<Arc<str>, Outbound> {
    let mut plans = BTreeMap::new();
    match &key.reach {
        Reach::Redirected { services, direct_access, .. } => {
            let listed = permission::named_targets(key, rules, from);
            // With a list, no other targets can be reachable.
            let touched = match (touched, &listed) {
                (Touched::All, Some(listed)) => Touched::Some(listed),
                _ => touched,
            };
            let (names, objects): (Vec<_>, Vec<_>) = match touched {
                Touched::All => (from.services.names().collect(), from.objects.names().collect()),
                Touched::Some(targets) => (
                    targets.iter().filter_map(Target::service).collect(),
                    targets.iter().filter_map(Target::object).collect(),
                ),
            };
            if let Some(direct) = direct_access
                && touched.services().is_none_or(|mut services| services.any(|name| direct.includes(name)))
            {
                plans.extend([direct_access::outbound(key, rules, from, direct)]);
            }
            let is_visible = |name: &&Arc<str>| services.as_ref().is_none_or(|list| list.contains(&***name));
            let names = names.into_iter().filter(|_| from.view.has_legacy_destinations()).filter(is_visible);
            let names =
                names.filter(|name| permission::may_have(key, rules, from, || Target::Service((*name).clone())));
            plans.extend(names.filter_map(|name| Some((name.clone(), redirected(key, rules, from, name)?))));
            let objects = objects.into_iter();
            for kri in objects.filter(|kri| permission::may_have(key, rules, from, || Target::Object((*kri).clone()))) {
                plans.extend(port::redirected(key, rules, from, kri));
            }
        }
        Reach::Listed { outbounds, .. } => {
            for (address, port, listed) in outbounds.iter() {
                match listed {
                    OutboundRef::Service(tags) => {
                        if from.view.has_legacy_destinations() && touched.has_service(names::service(tags)) {
                            let planned = ServiceOutbound::new(rules, from, tags);
                            let listener = planned.listener(key, from, address.clone(), *port, Socket::Bound);
                            let plan = plans.entry(planned.cluster.clone());
                            plan.or_insert_with(|| planned.outbound()).listeners.push(listener);
                        }
                    }
                    OutboundRef::Object(wanted) => {
                        if let Some((cluster, outbound)) = port::listed(key, rules, from, wanted, (address, *port)) {
                            match plans.get_mut(&cluster) {
                                Some(plan) => plan.listeners.extend(outbound.listeners),
                                None => drop(plans.insert(cluster, outbound)),
                            }
                        }
                    }
                }
            }
        }
    }
    plans
}

/// DNS records of a destination, for transparent proxies that list none.
pub(crate) fn records(from: Sources<'_>, target: &Target) -> Vec<DnsRecord> {
    match target {
        Target::Service(name) => {
            let vip = service_address(from, name).filter(|_| from.view.has_legacy_destinations());
            vip.map_or_else(Vec::new, |vip| service_records(name, vip))
        }
        Target::Object(kri) => port::records(from, kri),
    }
}

fn service_address(from: Sources<'_>, name: &Arc<str>) -> Option<Ipv4Addr> {
    from.services.get(name)?;
    from.vips.get(name)
}

fn service_records(name: &str, vip: Ipv4Addr) -> Vec<DnsRecord> {
    let record = |hostname: String| DnsRecord { name: hostname.to_ascii_lowercase().into(), address: vip };
    vips::hostnames(name).map(record).collect()
}

fn redirected(key: &ClassKey, rules: &Rules, from: Sources<'_>, name: &Arc<str>) -> Option<Outbound> {
    let vip = service_address(from, name)?;
    let tags = Tags::from([(tags::SERVICE.to_owned(), name.to_string())]);
    let planned = ServiceOutbound::new(rules, from, &tags);
    let own = ClusterTarget::Service(planned.tags.clone());
    if !permission::may_be_answered(key, from, &own, planned.traffic()) {
        return Outbound::trimmed(own.destination(), planned.traffic());
    }
    Some(Outbound {
        listeners: vec![planned.listener(key, from, vip.to_string(), vips::PORT, Socket::at(key, vip))],
        records: service_records(name, vip),
        ..planned.outbound()
    })
}

/// An outbound to a `kuma.io/service`, with the merged configuration of policies.
struct ServiceOutbound {
    cluster: Arc<str>,
    tags: Arc<Tags>,
    protocol: Protocol,
    carried: Carried,
    merged: MergedConf,
    route_backends: RouteBackends,
}

impl ServiceOutbound {
    fn new(rules: &Rules, from: Sources<'_>, tags: &Tags) -> Self {
        let merged = rules.for_service(names::service(tags));
        let protocol = protocol(from, tags);
        let carried = merged.carried(protocol);
        Self {
            cluster: names::service_cluster(tags).into(),
            tags: Arc::new(tags.clone()),
            protocol: protocol.unwrap_or(Protocol::Tcp),
            carried,
            route_backends: RouteBackends::new(&merged, carried, from),
            merged,
        }
    }

    fn listener(
        &self,
        key: &ClassKey,
        from: Sources<'_>,
        address: String,
        port: u32,
        socket: Socket,
    ) -> OutboundListener {
        OutboundListener {
            mesh: from.view.name.clone(),
            name: names::outbound_listener(&address, port).into(),
            address,
            port,
            callee: Callee::Service(self.tags.clone()),
            cluster: self.cluster.clone(),
            protocol: self.protocol,
            carried: self.carried,
            confs: self.merged.listener.clone(),
            facts: self.merged.facts(&key.facts),
            backends: self.route_backends.backends.clone(),
            route_names: Arc::default(),
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
        cluster_targets.insert(ClusterTarget::Service(self.tags.clone()));
        Outbound {
            target: Target::Service(names::service(&self.tags).into()),
            listeners: Vec::new(),
            records: Vec::new(),
            cluster_targets,
            backend_refs: self.route_backends.backend_refs.clone(),
            trimmed: BTreeSet::new(),
        }
    }
}

/// Inputs that decide which clusters the traffic of an outbound reaches.
#[derive(Clone, Copy)]
struct Traffic<'a> {
    merged: &'a MergedConf,
    carried: Carried,
    route_backends: &'a RouteBackends,
}

/// Backends to which routes send the requests for a destination.
struct RouteBackends {
    backends: Arc<Backends>,
    cluster_targets: BTreeSet<ClusterTarget>,
    backend_refs: BTreeSet<PortRef>,
}

impl RouteBackends {
    fn new(merged: &MergedConf, carried: Carried, from: Sources<'_>) -> Self {
        let mut route_backends =
            Self { backends: Arc::default(), cluster_targets: BTreeSet::new(), backend_refs: BTreeSet::new() };
        let mut backends = BTreeMap::new();
        for key in merged.backends(carried) {
            let backend = match key {
                BackendKey::Service(_) if !from.view.has_legacy_destinations() => None,
                // A service without endpoints keeps its cluster, so that requests fail instead of taking another route.
                BackendKey::Service(tags) => {
                    route_backends.cluster_targets.insert(ClusterTarget::Service(Arc::new(tags.clone())));
                    let cluster = names::service_cluster(tags).into();
                    let protocol = protocol(from, tags).unwrap_or(Protocol::Tcp);
                    Some(Backend { cluster, protocol, external: false })
                }
                BackendKey::Port(written) => {
                    route_backends.backend_refs.insert(written.clone());
                    port::backend(from, written).map(|(cluster_target, backend)| {
                        route_backends.cluster_targets.insert(cluster_target);
                        backend
                    })
                }
            };
            backends.extend(backend.map(|backend| (key.clone(), backend)));
        }
        route_backends.backends = Arc::new(Backends(backends));
        route_backends
    }
}

/// `None` for a service without instances.
fn protocol(from: Sources<'_>, tags: &Tags) -> Option<Protocol> {
    tags.get(tags::SERVICE).and_then(|service| from.services.get(service)).map(Service::protocol)
}

/// The cluster of a target, and its endpoints.
pub(crate) fn cluster(key: &ClassKey, rules: &Rules, from: Sources<'_>, cluster_target: &ClusterTarget) -> Cluster {
    let tags = match cluster_target {
        ClusterTarget::Service(tags) => tags,
        ClusterTarget::Port(port) => return port::cluster(key, rules, from, port),
        ClusterTarget::DirectAccess(access) => return direct_access::cluster(key, from, *access),
        ClusterTarget::Collector(collector) => {
            let ipv6 = key.reach.shape().ipv6;
            return Cluster::Collector(CollectorCluster { collector: Collector::clone(collector), ipv6 });
        }
    };
    let service = names::service(tags);
    let (name, mesh): (Arc<str>, _) = (names::service_cluster(tags).into(), from.view.name.clone());
    let merged = rules.for_service(service);
    let known = from.services.get(service);
    let endpoints = known.map_or_else(Arc::default, |service| called(key, from, service, tags));
    let labels = || known.map_or_else(Arc::default, |service| service.labels().clone());
    let assignment = placed(key, &merged, from.view, name.clone(), (endpoints, &labels), from.view.zone_priority);
    let some_plaintext = assignment.endpoints.iter().any(|endpoint| endpoint.plaintext);
    let servers = || known.into_iter().flat_map(Service::dataplanes).filter_map(|name| from.dataplanes.get(name));
    let peer = || {
        let mut identities = BTreeSet::from([names::service_identity(&mesh, service)]);
        identities.extend(servers().flat_map(|server| expected_ids(&from.view.rollout, server)));
        let accepted = identities.into_iter().collect();
        peer(key, from, (&name, accepted), Peer { sni: names::sni(tags, &mesh), some_plaintext, ..Peer::default() })
    };
    let (peer, validation) = from.view.calls_with_mtls(&key.certificate).then(peer).unzip();
    // A service without instances may be HTTP when the first one comes.
    let upstream =
        from.services.get(service).map_or(UpstreamProtocol::Proxy, |known| UpstreamProtocol::inside(known.protocol()));
    Cluster::Discovered {
        cluster: OutboundCluster { name, mesh, peer, upstream, confs: merged.cluster },
        assignment,
        validation: validation.flatten(),
    }
}

/// Endpoints of a service, as its servers are reached at this step.
fn called(key: &ClassKey, from: Sources<'_>, service: &Service, tags: &Tags) -> Arc<[Endpoint]> {
    if from.view.is_cut_off(&key.certificate) {
        return Arc::default();
    }
    let endpoints = service.endpoints(tags);
    let irregular = accesses(from, service);
    if irregular.is_empty() {
        return endpoints;
    }
    let access = |each: &Endpoint| irregular.get(&(&each.address, each.port)).copied();
    let called = endpoints.iter().filter_map(|each| match access(each) {
        None | Some(ServerAccess::Regular) => Some(each.clone()),
        Some(ServerAccess::Plaintext) => Some(Endpoint { plaintext: true, ..each.clone() }),
        Some(ServerAccess::Closed) => None,
    });
    called.collect()
}

/// Addresses of instances that are not reached as others are. Of several Dataplanes with one address, the most regular
/// counts: plain text never replaces mTLS.
fn accesses<'a>(from: Sources<'_>, service: &'a Service) -> BTreeMap<(&'a Arc<str>, u32), ServerAccess> {
    let mut accesses = BTreeMap::new();
    for (dataplane, address) in service.addresses() {
        let Some(server) = from.dataplanes.get(dataplane) else { continue };
        let access = ServerAccess::of(&from.view.rollout, server);
        let least = accesses.entry(address).or_insert(access);
        *least = access.min(*least);
    }
    accesses.retain(|_, access| *access != ServerAccess::Regular);
    accesses
}

/// How a client verifies the servers of a cluster: they have one of the SPIFFE IDs, or any when there are none.
fn peer(
    key: &ClassKey,
    from: Sources<'_>,
    (cluster, identities): (&str, Vec<String>),
    peer: Peer,
) -> (Arc<Peer>, Option<Validation>) {
    let tls = key.certificate.source(&identities);
    let validation = match tls {
        TlsSource::ControlPlane => from.view.server_validation(cluster, identities),
        TlsSource::Spire { .. } => None,
    };
    (Arc::new(Peer { tls, tls_parameters: key.tls_parameters.clone(), ..peer }), validation)
}

/// Sets priorities of endpoints: by zone, then as policies configure them.
fn placed(
    key: &ClassKey,
    merged: &MergedConf,
    view: &View,
    cluster: Arc<str>,
    (endpoints, labels): (Arc<[Endpoint]>, &dyn Fn() -> Arc<EndpointLabels>),
    zone_priority: ZonePriority,
) -> Assignment {
    let hooks = kodiak_policies::in_force().iter();
    let confs = hooks.filter_map(|hook| Some((hook, merged.cluster.get(hook.kind().name)?)));
    let confs: Vec<_> = confs.filter(|(hook, _)| hook.places()).collect();
    if zone_priority == ZonePriority::Equal && confs.is_empty() {
        return Assignment { cluster, endpoints, overprovisioning_factor: None };
    }
    let mut placed = Endpoints {
        list: endpoints.to_vec(),
        labels: if confs.is_empty() { Arc::default() } else { labels() },
        zone: view.zone.clone(),
        caller: key.caller_tags.clone(),
        overprovisioning_factor: None,
    };
    if zone_priority == ZonePriority::LocalFirst {
        for endpoint in &mut placed.list {
            endpoint.priority = u32::from(!endpoint.zone.is_empty() && endpoint.zone != view.zone);
        }
    }
    for (hook, conf) in confs {
        hook.endpoints(conf, &mut placed);
    }
    placed.list.sort();
    Assignment { cluster, endpoints: placed.list.into(), overprovisioning_factor: placed.overprovisioning_factor }
}

//! What a class should have, before anything is built.

mod port;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{Protocol, tags};
use kodiak_policies::target::{Backend, BackendKey, Backends, Endpoints, PortRef};
use kodiak_views::vips::{self, Vips};
use kodiak_xds::{
    input::{
        Assignment, Callee, DnsRecord, Endpoint, ExternalCluster, OutboundCluster, OutboundListener, Peer, Tags,
        UpstreamProtocol,
    },
    names,
};

use crate::{
    Identities,
    class_key::{ClassKey, Listed, Reach},
    objects::Objects,
    rules::{Rules, Said},
    services::{Service, Services},
    target::{Goal, Target, Touched},
    view::{View, ZonePriority},
};

/// What classes look at.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) view: &'a View,
    pub(crate) services: &'a Services,
    pub(crate) vips: &'a Vips,
    pub(crate) objects: &'a Objects,
    pub(crate) identities: &'a dyn Identities,
}

/// Where a destination is called, and what calls lead to.
pub(crate) struct Outbound {
    pub(crate) target: Target,
    pub(crate) listeners: Vec<OutboundListener>,
    pub(crate) records: Vec<DnsRecord>,
    pub(crate) leads_to: BTreeSet<Goal>,
    /// What routes are written to lead to, whether it was found or not.
    pub(crate) asks: BTreeSet<PortRef>,
}

/// Whether an outbound listener opens its port. Redirected connections reach it without that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Socket {
    Bound,
    Redirected,
}

/// A destination as it is called.
pub(crate) enum Cluster {
    Discovered(OutboundCluster, Assignment),
    External(ExternalCluster),
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
        Reach::Redirected { services, .. } => {
            let listed = key.reach.named();
            // Of a list, only what is in it has to be looked at.
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
            let is_visible = |name: &&Arc<str>| services.as_ref().is_none_or(|list| list.contains(&***name));
            let names = names.into_iter().filter(|_| !from.view.is_exclusive()).filter(is_visible);
            plans.extend(names.filter_map(|name| Some((name.clone(), redirected(key, rules, from, name)?))));
            for kri in objects {
                plans.extend(port::redirected(key, rules, from, kri));
            }
        }
        Reach::Listed { outbounds, .. } => {
            for (address, port, listed) in outbounds.iter() {
                match listed {
                    Listed::Service(tags) => {
                        if touched.has_service(names::service(tags)) {
                            let destination = Destination::new(rules, from, tags);
                            let listener = destination.listener(key, from, address.clone(), *port, Socket::Bound);
                            let plan = plans.entry(destination.cluster.clone());
                            plan.or_insert_with(|| destination.outbound()).listeners.push(listener);
                        }
                    }
                    Listed::Object(wanted) => {
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

fn redirected(key: &ClassKey, rules: &Rules, from: Sources<'_>, name: &Arc<str>) -> Option<Outbound> {
    from.services.get(name)?;
    let vip = from.vips.get(name)?;
    let tags = Tags::from([(tags::SERVICE.to_owned(), name.to_string())]);
    let destination = Destination::new(rules, from, &tags);
    let record = |hostname: String| DnsRecord { name: hostname.to_ascii_lowercase().into(), address: vip };
    Some(Outbound {
        listeners: vec![destination.listener(key, from, vip.to_string(), vips::PORT, Socket::Redirected)],
        records: vips::hostnames(name).map(record).collect(),
        ..destination.outbound()
    })
}

/// A `kuma.io/service`, and what policies say of it.
struct Destination {
    cluster: Arc<str>,
    tags: Arc<Tags>,
    protocol: Protocol,
    said: Said,
    routed: Routed,
}

impl Destination {
    fn new(rules: &Rules, from: Sources<'_>, tags: &Tags) -> Self {
        let said = rules.about(names::service(tags));
        Self {
            cluster: names::service_cluster(tags).into(),
            tags: Arc::new(tags.clone()),
            protocol: protocol(from, tags),
            routed: Routed::new(&said, from),
            said,
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
            carried: self.said.carried(self.protocol),
            confs: self.said.listener.clone(),
            backends: self.routed.backends.clone(),
            route_names: Arc::default(),
            bind: socket == Socket::Bound,
            shape: key.reach.shape(),
        }
    }

    fn outbound(&self) -> Outbound {
        let mut leads_to = self.routed.goals.clone();
        leads_to.insert(Goal::Service(self.tags.clone()));
        Outbound {
            target: Target::Service(names::service(&self.tags).into()),
            listeners: Vec::new(),
            records: Vec::new(),
            leads_to,
            asks: self.routed.asks.clone(),
        }
    }
}

/// Where policies send the calls to a destination.
struct Routed {
    backends: Arc<Backends>,
    goals: BTreeSet<Goal>,
    asks: BTreeSet<PortRef>,
}

impl Routed {
    fn new(said: &Said, from: Sources<'_>) -> Self {
        let mut routed = Self { backends: Arc::default(), goals: BTreeSet::new(), asks: BTreeSet::new() };
        let mut backends = BTreeMap::new();
        for key in &said.backends {
            let backend = match key {
                // A service that nobody serves is called in vain; it is not that nobody wanted to call it.
                BackendKey::Service(tags) => {
                    routed.goals.insert(Goal::Service(Arc::new(tags.clone())));
                    let cluster = names::service_cluster(tags).into();
                    Some(Backend { cluster, protocol: protocol(from, tags), external: false })
                }
                BackendKey::Port(written) => {
                    routed.asks.insert(written.clone());
                    port::backend(from, written).map(|(goal, backend)| {
                        routed.goals.insert(goal);
                        backend
                    })
                }
            };
            backends.extend(backend.map(|backend| (key.clone(), backend)));
        }
        routed.backends = Arc::new(Backends(backends));
        routed
    }
}

fn protocol(from: Sources<'_>, tags: &Tags) -> Protocol {
    tags.get(tags::SERVICE).and_then(|service| from.services.get(service)).map_or(Protocol::Tcp, Service::protocol)
}

/// A cluster, and who serves it.
pub(crate) fn cluster(key: &ClassKey, rules: &Rules, from: Sources<'_>, goal: &Goal) -> Cluster {
    let tags = match goal {
        Goal::Service(tags) => tags,
        Goal::Port(port) => return port::cluster(key, rules, from, port),
    };
    let service = names::service(tags);
    let (name, mesh): (Arc<str>, _) = (names::service_cluster(tags).into(), from.view.name.clone());
    let said = rules.about(service);
    let endpoints = from.services.get(service).map_or_else(Arc::default, |service| service.endpoints(tags));
    let assignment = placed(key, &said, from.view, name.clone(), endpoints, from.view.zone_priority);
    let peer = || {
        let identities = vec![names::service_identity(&mesh, service)];
        Arc::new(Peer { sni: names::sni(tags, &mesh), identities })
    };
    let peer = from.view.rollout.call.then(peer);
    // What nobody serves now may be HTTP when somebody does.
    let upstream =
        from.services.get(service).map_or(UpstreamProtocol::Proxy, |known| UpstreamProtocol::inside(known.protocol()));
    Cluster::Discovered(OutboundCluster { name, mesh, peer, upstream, confs: said.cluster }, assignment)
}

/// Other zones come second when the mesh wants calls to stay near; policies may want more.
fn placed(
    key: &ClassKey,
    said: &Said,
    view: &View,
    cluster: Arc<str>,
    endpoints: Arc<[Endpoint]>,
    zone_priority: ZonePriority,
) -> Assignment {
    let hooks = kodiak_policies::in_force().iter();
    let confs = hooks.filter_map(|hook| Some((hook, said.cluster.get(hook.kind().name)?)));
    let confs: Vec<_> = confs.filter(|(hook, _)| hook.places()).collect();
    if zone_priority == ZonePriority::Equal && confs.is_empty() {
        return Assignment { cluster, endpoints, overprovisioning_factor: None };
    }
    let mut placed = Endpoints {
        list: endpoints.to_vec(),
        zone: view.zone.clone(),
        caller: key.caller.clone(),
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

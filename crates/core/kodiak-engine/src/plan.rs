//! What a class should have, before anything is built.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{Protocol, tags};
use kodiak_policies::target::{Backend, BackendKey, Backends, Endpoints};
use kodiak_views::vips::{self, Vips};
use kodiak_xds::{
    input::{Assignment, DnsRecord, Endpoint, OutboundCluster, OutboundListener, Tags},
    names,
};

use crate::{
    class_key::{ClassKey, Reach},
    mesh::View,
    rules::{Rules, Said},
    services::{Service, Services},
};

/// What classes look at.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) view: &'a View,
    pub(crate) services: &'a Services,
    pub(crate) vips: &'a Vips,
}

/// Where a destination is called, and what calls lead to.
pub(crate) struct Outbound {
    pub(crate) service: Arc<str>,
    pub(crate) listeners: Vec<OutboundListener>,
    pub(crate) records: Vec<DnsRecord>,
    /// The tags of each cluster, `kuma.io/service` among them.
    pub(crate) leads_to: BTreeSet<Arc<Tags>>,
}

/// Which services to look at again.
#[derive(Clone, Copy)]
pub(crate) enum Touched<'a> {
    All,
    Services(&'a BTreeSet<Arc<str>>),
}

impl Touched<'_> {
    pub(crate) fn has(self, service: &str) -> bool {
        match self {
            Self::All => true,
            Self::Services(names) => names.contains(service),
        }
    }
}

/// The outbounds of touched services, by the name of their own cluster; `None` where there is none any more.
pub(crate) fn outbounds(
    key: &ClassKey,
    rules: &Rules,
    from: Sources<'_>,
    touched: Touched<'_>,
) -> BTreeMap<Arc<str>, Option<Outbound>> {
    match &key.reach {
        Reach::Redirected { reachable, .. } => {
            let visible = |name: &&Arc<str>| reachable.as_ref().is_none_or(|list| list.contains(&***name));
            let plan = |name: &Arc<str>| (name.clone(), redirected(key, rules, from, name));
            match touched {
                Touched::All => {
                    from.services.names().filter(visible).map(plan).filter(|(_, plan)| plan.is_some()).collect()
                }
                Touched::Services(names) => names.iter().filter(visible).map(plan).collect(),
            }
        }
        Reach::Listed { outbounds, .. } => {
            let mut plans: BTreeMap<Arc<str>, Option<Outbound>> = BTreeMap::new();
            for (address, port, tags) in outbounds.iter() {
                if tags.get(tags::SERVICE).is_some_and(|service| touched.has(service)) {
                    let destination = Destination::new(rules, from, tags);
                    let listener = destination.listener(key, from, address.clone(), *port, true);
                    let plan = plans.entry(destination.cluster.clone()).or_default();
                    let plan = plan.get_or_insert_with(|| Outbound {
                        service: tags[tags::SERVICE].as_str().into(),
                        listeners: Vec::new(),
                        records: Vec::new(),
                        leads_to: destination.leads_to(),
                    });
                    plan.listeners.push(listener);
                }
            }
            plans
        }
    }
}

fn redirected(key: &ClassKey, rules: &Rules, from: Sources<'_>, name: &Arc<str>) -> Option<Outbound> {
    from.services.get(name)?;
    let vip = from.vips.get(name)?;
    let tags = Tags::from([(tags::SERVICE.to_owned(), name.to_string())]);
    let destination = Destination::new(rules, from, &tags);
    let record = |hostname: String| DnsRecord { name: hostname.to_ascii_lowercase().into(), address: vip };
    Some(Outbound {
        service: name.clone(),
        listeners: vec![destination.listener(key, from, vip.to_string(), vips::PORT, false)],
        records: vips::hostnames(name).map(record).collect(),
        leads_to: destination.leads_to(),
    })
}

/// A destination, and what policies say of it.
struct Destination {
    cluster: Arc<str>,
    tags: Arc<Tags>,
    protocol: Protocol,
    said: Said,
    backends: Arc<Backends>,
}

impl Destination {
    fn new(rules: &Rules, from: Sources<'_>, tags: &Tags) -> Self {
        let service = tags.get(tags::SERVICE).map_or("", String::as_str);
        let said = rules.about(service);
        let backend = |key: &BackendKey| {
            let BackendKey::Service(tags) = key;
            // A service that nobody serves is called in vain; it is not that nobody wanted to call it.
            let protocol = protocol(from, tags);
            (key.clone(), Backend { cluster: names::service_cluster(tags).into(), protocol, external: false })
        };
        let backends = Backends(said.backends.iter().map(backend).collect());
        Self {
            cluster: names::service_cluster(tags).into(),
            tags: Arc::new(tags.clone()),
            protocol: protocol(from, tags),
            said,
            backends: Arc::new(backends),
        }
    }

    fn listener(&self, key: &ClassKey, from: Sources<'_>, address: String, port: u32, bind: bool) -> OutboundListener {
        OutboundListener {
            mesh: from.view.name.clone(),
            address,
            port,
            tags: self.tags.clone(),
            cluster: self.cluster.clone(),
            protocol: self.protocol,
            carried: self.said.carried(self.protocol),
            confs: self.said.listener.clone(),
            backends: self.backends.clone(),
            bind,
            shape: key.reach.shape(),
        }
    }

    fn leads_to(&self) -> BTreeSet<Arc<Tags>> {
        let backends = self.said.backends.iter().map(|BackendKey::Service(tags)| Arc::new(tags.clone()));
        backends.chain([self.tags.clone()]).collect()
    }
}

fn protocol(from: Sources<'_>, tags: &Tags) -> Protocol {
    tags.get(tags::SERVICE).and_then(|service| from.services.get(service)).map_or(Protocol::Tcp, Service::protocol)
}

/// A cluster, and who serves it.
pub(crate) fn cluster(
    key: &ClassKey,
    rules: &Rules,
    from: Sources<'_>,
    tags: &Arc<Tags>,
) -> (OutboundCluster, Assignment) {
    let name: Arc<str> = names::service_cluster(tags).into();
    let service = tags.get(tags::SERVICE).map_or("", String::as_str);
    let said = rules.about(service);
    let endpoints = from.services.get(service).map_or_else(Arc::default, |service| service.endpoints(tags));
    let assignment = placed(key, &said, from.view, name.clone(), endpoints);
    let cluster = OutboundCluster {
        name,
        mesh: from.view.name.clone(),
        tags: tags.clone(),
        mtls: from.view.rollout.call,
        confs: said.cluster,
    };
    (cluster, assignment)
}

/// Other zones come second when the mesh wants calls to stay near; policies may want more.
fn placed(key: &ClassKey, said: &Said, view: &View, cluster: Arc<str>, endpoints: Arc<[Endpoint]>) -> Assignment {
    let hooks = kodiak_policies::in_force().iter();
    let confs = hooks.filter_map(|hook| Some((hook, said.cluster.get(hook.kind().name)?)));
    let confs: Vec<_> = confs.filter(|(hook, _)| hook.places()).collect();
    if !view.near && confs.is_empty() {
        return Assignment { cluster, endpoints, overprovisioning_factor: None };
    }
    let mut placed = Endpoints {
        list: endpoints.to_vec(),
        zone: view.zone.clone(),
        caller: key.caller.clone(),
        overprovisioning_factor: None,
    };
    if view.near {
        for endpoint in &mut placed.list {
            endpoint.priority = u32::from(endpoint.zone != view.zone);
        }
    }
    for (hook, conf) in confs {
        hook.endpoints(conf, &mut placed);
    }
    placed.list.sort();
    Assignment { cluster, endpoints: placed.list.into(), overprovisioning_factor: placed.overprovisioning_factor }
}

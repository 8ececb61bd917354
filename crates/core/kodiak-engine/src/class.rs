//! What proxies of one class call: the services they see, at the addresses where they see them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{
    Protocol,
    kinds::dataplane::{Dataplane, TransparentProxying},
    tags,
};
use kodiak_views::vips::{self, Vips};
use kodiak_xds::{
    Built, build_assignment, build_cluster, build_listener,
    check::{self, Fault},
    endpoints,
    input::{Assignment, DnsRecord, Endpoint, OutboundCluster, OutboundListener, Shape, Tags},
    names,
    node::NodeMetadata,
    outbound,
};
use kodiak_xds_stream::{ResourceSet, TypeUrl};

use crate::{
    cache::{Cache, Group},
    mesh::View,
    services::{Service, Services},
};

/// Proxies with equal keys have equal calls.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClassKey {
    /// Connections are redirected: all services that may be reached, at their virtual addresses.
    Redirected { shape: Shape, reachable: Option<BTreeSet<String>> },
    /// What the Dataplane lists, at the addresses that it says.
    Listed { shape: Shape, outbounds: Vec<(String, u32, Tags)> },
}

impl ClassKey {
    pub(crate) fn of(metadata: &NodeMetadata, dataplane: &Dataplane) -> Self {
        let transparent = transparent(dataplane);
        let shape = metadata.shape(transparent);
        if shape.transparent {
            let listed = transparent.map(|transparent| &transparent.reachable_services).filter(|list| !list.is_empty());
            return Self::Redirected { shape, reachable: listed.map(|list| list.iter().cloned().collect()) };
        }
        let own: BTreeSet<(&str, u32)> = dataplane
            .networking
            .iter()
            .flat_map(|networking| {
                let address = networking.address.as_str();
                networking.inbound.iter().map(move |inbound| (inbound.address_or(address), inbound.port))
            })
            .collect();
        let outbounds = dataplane.outbounds().iter().filter(|outbound| {
            // An address that is served here is not called from here.
            outbound.tags.contains_key(tags::SERVICE) && !own.contains(&(outbound.address(), outbound.port))
        });
        let outbounds = outbounds.map(|outbound| (outbound.address().to_owned(), outbound.port, outbound.tags.clone()));
        Self::Listed { shape, outbounds: outbounds.collect() }
    }

    fn shape(&self) -> Shape {
        match self {
            Self::Redirected { shape, .. } | Self::Listed { shape, .. } => *shape,
        }
    }
}

#[derive(Default)]
pub(crate) struct Class {
    pub(crate) members: BTreeSet<Arc<str>>,
    pub(crate) set: ResourceSet,
    pub(crate) records: Arc<[DnsRecord]>,
    /// What is needed of a proxy's own resources, and by how many.
    pub(crate) needs: BTreeMap<(TypeUrl, Arc<str>), usize>,
    /// Addresses that are bound, and by what.
    pub(crate) binds: BTreeMap<String, Arc<str>>,
    pub(crate) faults: BTreeMap<Arc<str>, Vec<Fault>>,
    /// By the name of the cluster.
    destinations: BTreeMap<Arc<str>, Destination>,
}

struct Destination {
    /// The cluster, its endpoints and its listeners.
    groups: Vec<Group>,
    records: Vec<DnsRecord>,
}

/// What a destination is made from.
struct Plan {
    cluster: OutboundCluster,
    assignment: Assignment,
    listeners: Vec<OutboundListener>,
    records: Vec<DnsRecord>,
}

/// Which services to look at again.
#[derive(Clone, Copy)]
pub(crate) enum Touched<'a> {
    All,
    Services(&'a BTreeSet<Arc<str>>),
}

/// What classes look at.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) view: &'a View,
    pub(crate) services: &'a Services,
    pub(crate) vips: &'a Vips,
}

impl Class {
    /// Whether anything is different for its proxies.
    pub(crate) fn update(
        &mut self,
        key: &ClassKey,
        from: Sources<'_>,
        touched: Touched<'_>,
        cache: &mut Cache,
    ) -> bool {
        let wanted = wanted(key, from, touched);
        let mut changed = false;
        let mut renamed = false;
        let gone: Vec<Arc<str>> = match touched {
            Touched::All => self.destinations.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect(),
            Touched::Services(_) => {
                wanted.iter().filter(|(_, plan)| plan.is_none()).map(|(name, _)| name.clone()).collect()
            }
        };
        for name in gone {
            if let Some(old) = self.take(&name, &[]) {
                changed = true;
                renamed |= !old.records.is_empty();
            }
        }
        for (name, plan) in wanted {
            let Some(plan) = plan else { continue };
            let new = plan.build(cache);
            let old = self.destinations.get(&name);
            if old.is_some_and(|old| same(&old.groups, &new.groups) && old.records == new.records) {
                continue;
            }
            changed = true;
            renamed |= old.map_or(&[][..], |old| &old.records) != new.records;
            self.take(&name, &new.groups);
            self.put(name, new);
        }
        if renamed {
            let mut records: Vec<_> =
                self.destinations.values().flat_map(|each| each.records.iter().cloned()).collect();
            records.sort();
            // A name that two services claim leads to one of them, always the same.
            records.dedup_by(|a, b| a.name == b.name);
            self.records = records.into();
        }
        changed
    }

    /// What is in `kept` comes back at once and stays in the set: a map that is not touched stays the same for all
    /// proxies.
    fn take(&mut self, name: &Arc<str>, kept: &[Group]) -> Option<Destination> {
        let old = self.destinations.remove(name)?;
        self.faults.remove(name);
        let goes = |group: &&Group| !kept.iter().any(|kept| Arc::ptr_eq(kept, group));
        for built in old.groups.iter().filter(goes).flat_map(|group| group.iter()) {
            self.set.remove(built.type_url, &built.encoded.name);
        }
        for built in old.built() {
            for need in &built.links.needs {
                if let Some(count) = self.needs.get_mut(need) {
                    *count -= 1;
                    if *count == 0 {
                        self.needs.remove(need);
                    }
                }
            }
            if let Some(address) = &built.links.binds
                && self.binds.get(address) == Some(&built.encoded.name)
            {
                self.binds.remove(address);
            }
        }
        Some(old)
    }

    fn put(&mut self, name: Arc<str>, new: Destination) {
        for Built { type_url, encoded, .. } in new.built() {
            let known = self.set.of(*type_url).get(&encoded.name);
            if known.is_none_or(|known| !Arc::ptr_eq(known, encoded)) {
                self.set.insert(*type_url, encoded.clone());
            }
        }
        let mut faults = Vec::new();
        for built in new.built() {
            faults.extend(check::own(&built.encoded.name, &built.links));
            for need in &built.links.needs {
                let (type_url, needed) = need;
                if self.set.of(*type_url).contains_key(needed) {
                    continue;
                }
                *self.needs.entry(need.clone()).or_default() += 1;
            }
            if let Some(address) = &built.links.binds {
                match self.binds.get(address) {
                    Some(other) => faults.push(clash(&built.encoded.name, other, address)),
                    None => drop(self.binds.insert(address.clone(), built.encoded.name.clone())),
                }
            }
        }
        if !faults.is_empty() {
            self.faults.insert(name.clone(), faults);
        }
        self.destinations.insert(name, new);
    }
}

impl Destination {
    fn built(&self) -> impl Iterator<Item = &Built> {
        self.groups.iter().flat_map(|group| group.iter())
    }
}

/// What the Dataplane itself says of redirection.
pub(crate) fn transparent(dataplane: &Dataplane) -> Option<&TransparentProxying> {
    dataplane.networking.as_ref()?.transparent_proxying.as_ref()
}

pub(crate) fn clash(resource: &Arc<str>, other: &Arc<str>, address: &str) -> Fault {
    Fault::Clash { resource: resource.clone(), other: other.clone(), address: address.to_owned() }
}

/// Whether these are the same groups, which is told without looking into them.
pub(crate) fn same(old: &[Group], new: &[Group]) -> bool {
    old.len() == new.len() && old.iter().zip(new).all(|(old, new)| Arc::ptr_eq(old, new))
}

/// The destinations that touched services lead to; `None` where there is none any more.
fn wanted(key: &ClassKey, from: Sources<'_>, touched: Touched<'_>) -> BTreeMap<Arc<str>, Option<Plan>> {
    match key {
        ClassKey::Redirected { reachable, .. } => {
            let visible = |name: &&Arc<str>| reachable.as_ref().is_none_or(|list| list.contains(&***name));
            let plan = |name: &Arc<str>| (name.clone(), redirected(key.shape(), from, name));
            match touched {
                Touched::All => {
                    from.services.names().filter(visible).map(plan).filter(|(_, plan)| plan.is_some()).collect()
                }
                Touched::Services(names) => names.iter().filter(visible).map(plan).collect(),
            }
        }
        ClassKey::Listed { outbounds, .. } => {
            let is_touched = |service: &str| match touched {
                Touched::All => true,
                Touched::Services(names) => names.contains(service),
            };
            let mut plans = BTreeMap::new();
            for (address, port, tags) in outbounds {
                if tags.get(tags::SERVICE).is_some_and(|service| is_touched(service)) {
                    let name: Arc<str> = names::service_cluster(tags).into();
                    let plan = plans.entry(name.clone()).or_insert_with(|| Some(listed(from, &name, tags)));
                    if let Some(plan) = plan {
                        let protocol = from.services.get(&tags[tags::SERVICE]).map_or(Protocol::Tcp, Service::protocol);
                        plan.listeners.push(OutboundListener {
                            address: address.clone(),
                            port: *port,
                            tags: plan.cluster.tags.clone(),
                            cluster: name,
                            protocol,
                            bind: true,
                            shape: key.shape(),
                        });
                    }
                }
            }
            plans
        }
    }
}

fn redirected(shape: Shape, from: Sources<'_>, name: &Arc<str>) -> Option<Plan> {
    let service = from.services.get(name)?;
    let vip = from.vips.get(name)?;
    let tags = Arc::new(Tags::from([(tags::SERVICE.to_owned(), name.to_string())]));
    let listener = OutboundListener {
        address: vip.to_string(),
        port: vips::PORT,
        tags: tags.clone(),
        cluster: name.clone(),
        protocol: service.protocol(),
        bind: false,
        shape,
    };
    let record = |hostname: String| DnsRecord { name: hostname.to_ascii_lowercase().into(), address: vip };
    Some(Plan {
        cluster: OutboundCluster {
            name: name.clone(),
            mesh: from.view.name.clone(),
            tags,
            mtls: from.view.rollout.call,
        },
        assignment: Assignment { cluster: name.clone(), endpoints: placed(from.view, service.endpoints(&Tags::new())) },
        listeners: vec![listener],
        records: vips::hostnames(name).map(record).collect(),
    })
}

fn listed(from: Sources<'_>, name: &Arc<str>, tags: &Tags) -> Plan {
    let service = tags.get(tags::SERVICE).and_then(|service| from.services.get(service));
    let endpoints = service.map_or_else(Arc::default, |service| service.endpoints(tags));
    Plan {
        cluster: OutboundCluster {
            name: name.clone(),
            mesh: from.view.name.clone(),
            tags: Arc::new(tags.clone()),
            mtls: from.view.rollout.call,
        },
        assignment: Assignment { cluster: name.clone(), endpoints: placed(from.view, endpoints) },
        listeners: Vec::new(),
        records: Vec::new(),
    }
}

/// Other zones come second when the mesh wants calls to stay near.
fn placed(view: &View, endpoints: Arc<[Endpoint]>) -> Arc<[Endpoint]> {
    let Some(zone) = &view.nearest_zone else { return endpoints };
    let mut placed: Vec<Endpoint> = endpoints.to_vec();
    for endpoint in &mut placed {
        endpoint.priority = u32::from(endpoint.zone != *zone);
    }
    placed.sort();
    placed.into()
}

impl Plan {
    fn build(self, cache: &mut Cache) -> Destination {
        let Self { cluster, assignment, listeners, records } = self;
        let mut groups = vec![
            cache.clusters.get(&cluster, |input| vec![build_cluster(&outbound::cluster(input))]),
            cache.assignments.get(&assignment, |input| vec![build_assignment(&endpoints::assignment(input))]),
        ];
        groups.extend(
            listeners.iter().map(|listener| {
                cache.listeners.get(listener, |input| vec![build_listener(&outbound::listener(input))])
            }),
        );
        Destination { groups, records }
    }
}

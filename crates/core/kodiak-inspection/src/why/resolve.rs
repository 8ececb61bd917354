//! Names that people write: of clients and of destinations.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::{Kri, kinds::dataplane_insight::DataplaneInsight, tags};
use kodiak_rules::Proxy;
use kodiak_services::{
    reachable::{has_legacy_destinations, is_served_in},
    vips::{self, Vips},
};
use kodiak_world::{Destination, World, destination::DestinationPort, document};

use super::{Called, Step, StepName, WhyError};
use crate::{
    calls::{UnknownName, group},
    near,
};

/// Dataplanes of this name or service, the one to examine first: connected ones before others.
pub(super) fn clients(world: &World, mesh: &str, wanted: &str) -> Result<Vec<Arc<Proxy>>, UnknownName> {
    let by_name = world.proxies(mesh).find(|proxy| *proxy.name == *wanted);
    if let Some(proxy) = by_name {
        return Ok(vec![proxy.clone()]);
    }
    let is_of = |proxy: &&Arc<Proxy>| {
        proxy.dataplane.tag_sets().any(|tags| tags.get(tags::SERVICE).is_some_and(|service| service == wanted))
            || group(proxy) == wanted
    };
    let mut found: Vec<Arc<Proxy>> = world.proxies(mesh).filter(is_of).cloned().collect();
    found.sort_by_key(|proxy| {
        let online = world.insight(&proxy.key()).is_some_and(|insight| DataplaneInsight::is_online(&insight));
        (!online, proxy.name.clone())
    });
    if found.is_empty() {
        let groups: Vec<String> = world.proxies(mesh).map(|proxy| group(proxy)).collect();
        let names = groups.iter().map(String::as_str).chain(world.proxies(mesh).map(|proxy| &*proxy.name));
        return Err(UnknownName { name: wanted.to_owned(), suggestions: near::nearest(wanted, names) });
    }
    Ok(found)
}

/// A destination, and how its name was understood.
pub(super) struct Resolved {
    pub(super) called: Called,
    reason: String,
    /// Other meanings of the name.
    details: Vec<String>,
}

impl Resolved {
    pub(super) fn step(&self) -> Step {
        Step::ok(StepName::Name, self.reason.clone()).with(self.details.clone())
    }
}

/// One meaning of a name.
#[derive(Clone)]
enum Meaning {
    Service(Arc<str>),
    Object(Arc<Destination>),
}

pub(super) fn destination(world: &World, mesh: &str, client: &Proxy, wanted: &str) -> Result<Resolved, WhyError> {
    let (name, port) = split_port(wanted);
    let mut meanings = meanings(world, mesh, name);
    if meanings.is_empty() {
        let all = all_names(world, mesh);
        let suggestions = near::nearest(name, all.iter().map(String::as_str));
        return Err(WhyError::UnknownDestination(UnknownName { name: name.to_owned(), suggestions }));
    }
    // Resources of the client's zone first.
    let zone = client.meta().zone();
    meanings.sort_by_key(|(meaning, _)| match meaning {
        Meaning::Service(_) => (!has_legacy_destinations(world.mesh_services_mode(mesh)), String::new()),
        Meaning::Object(object) => {
            let near = is_served_in(object, zone) && (object.kri.zone.is_empty() || Some(&*object.kri.zone) == zone);
            (!near, object.kri.to_string())
        }
    });
    let (first, by) = meanings[0].clone();
    let others = meanings[1..].iter().filter(|(other, _)| other.name() != first.name());
    let details = others.map(|(other, _)| format!("the name also means {}", other.name())).collect();
    let called = match &first {
        Meaning::Service(service) => {
            if let Some(port) = port.filter(|port| *port != vips::PORT) {
                let ports = vec![vips::PORT];
                return Err(WhyError::UnknownPort { destination: service.to_string(), port, ports });
            }
            Called::Service(service.clone())
        }
        Meaning::Object(object) => Called::Port(object.clone(), find_port(object, port)?),
    };
    let reason = format!("{name} is {by} {}", called.name());
    Ok(Resolved { called, reason, details })
}

impl Meaning {
    fn name(&self) -> String {
        match self {
            Self::Service(service) => service.to_string(),
            Self::Object(object) => object.kri.to_string(),
        }
    }
}

/// `name:port`. A name without a port number after its last colon is a name as a whole.
fn split_port(text: &str) -> (&str, Option<u32>) {
    match text.rsplit_once(':') {
        Some((name, port)) => match port.parse() {
            Ok(port) => (name, Some(port)),
            Err(_) => (text, None),
        },
        None => (text, None),
    }
}

fn find_port(object: &Destination, port: Option<u32>) -> Result<DestinationPort, WhyError> {
    let mut ports = object.ports.iter();
    let found = match port {
        Some(port) => ports.find(|own| own.port == port),
        None => ports.next(),
    };
    found.cloned().ok_or_else(|| WhyError::UnknownPort {
        destination: object.kri.to_string(),
        port: port.unwrap_or_default(),
        ports: object.ports.iter().map(|own| own.port).collect(),
    })
}

/// All meanings of a name, each with the words for it.
fn meanings(world: &World, mesh: &str, name: &str) -> Vec<(Meaning, &'static str)> {
    let mut found = Vec::new();
    let lower = name.trim_end_matches('.').to_ascii_lowercase();
    let vips = vips(world, mesh);
    for service in services(world, mesh) {
        let by = if *service == *name {
            Some("the kuma.io/service")
        } else if vips::hostnames(&service).any(|hostname| hostname.eq_ignore_ascii_case(&lower)) {
            Some("a hostname of the kuma.io/service")
        } else if vips.get(&service).is_some_and(|vip| vip.to_string() == name) {
            Some("the virtual address of the kuma.io/service")
        } else {
            None
        };
        found.extend(by.map(|by| (Meaning::Service(service), by)));
    }
    for object in world.destinations(mesh) {
        let section = object
            .ports
            .iter()
            .any(|port| Kri { section: port.section.clone(), ..object.kri.clone() }.to_string() == name);
        let by = if object.kri.name == name || *object.name == *name {
            Some("the name of")
        } else if object.kri.to_string() == name || section {
            Some("the KRI of")
        } else if object.hostnames.iter().any(|hostname| hostname.eq_ignore_ascii_case(&lower)) {
            Some("a hostname of")
        } else if object.vips.iter().any(|vip| vip.to_string() == name) {
            Some("the virtual address of")
        } else {
            None
        };
        found.extend(by.map(|by| (Meaning::Object(object.clone()), by)));
    }
    found
}

fn all_names(world: &World, mesh: &str) -> Vec<String> {
    let services = services(world, mesh).into_iter();
    let services =
        services.flat_map(|service| vips::hostnames(&service).chain([service.to_string()]).collect::<Vec<_>>());
    let objects = world.destinations(mesh);
    let objects = objects.flat_map(|object| {
        object.hostnames.iter().map(ToString::to_string).chain([object.kri.name.clone()]).collect::<Vec<_>>()
    });
    services.chain(objects).collect()
}

/// Values of `kuma.io/service` that Dataplanes serve, or list in outbounds.
pub(super) fn services(world: &World, mesh: &str) -> std::collections::BTreeSet<Arc<str>> {
    let served = world.proxies(mesh).flat_map(|proxy| proxy.dataplane.inbounds());
    let served = served.filter(|inbound| inbound.is_served()).filter_map(|inbound| inbound.service());
    let listed = world.proxies(mesh).flat_map(|proxy| proxy.dataplane.usable_outbounds());
    let listed = listed.filter_map(|outbound| outbound.tags.get(tags::SERVICE)).map(String::as_str);
    served.chain(listed).map(Arc::from).collect()
}

pub(super) fn vips(world: &World, mesh: &str) -> Vips {
    let stored = world.get(&document::key(mesh, document::VIPS));
    stored.and_then(|stored| stored.document()).unwrap_or_default()
}

pub(super) fn service_tags(service: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(tags::SERVICE.to_owned(), service.to_owned())])
}

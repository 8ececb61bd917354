//! Observed traffic as an answer: edges, with the proxies behind each destination.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use jiff::Timestamp;
use kodiak_kinds::kinds;
use kodiak_model::tags;
use kodiak_world::{Destination, World, destination::Behind};

use crate::{ClientId, PermissionForm, Recorded, Selection, caller::spiffe_ids, selection::Proxies};

/// Kind of a destination that is a value of `kuma.io/service`.
const SERVICE_KIND: &str = tags::SERVICE;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedTraffic {
    /// First and last time in which any proxy was observed.
    pub window: Option<(Timestamp, Timestamp)>,
    pub clients: Vec<ObservedClient>,
    /// Destinations of edges, and MeshServices of MeshMultiZoneServices among them.
    pub destinations: Vec<ObservedDestination>,
    pub edges: Vec<ObservedEdge>,
    pub dropped: u64,
    /// Callers without mTLS, by server, port and address.
    pub plaintext: Vec<PlaintextCaller>,
    /// Requests without mTLS of addresses that were not recorded because there were too many.
    pub plaintext_dropped: u64,
    pub form: PermissionForm,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedClient {
    pub id: ClientId,
    /// Of its current proxies.
    pub spiffe_ids: BTreeSet<String>,
    pub since: Timestamp,
    pub until: Timestamp,
    /// Less than the time from `since` to `until` if there were gaps.
    pub observed_seconds: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedDestination {
    /// A `kuma.io/service`, or a KRI.
    pub id: String,
    /// `kuma.io/service`, or the kind of the resource.
    pub kind: &'static str,
    pub name: String,
    /// Whether the resource exists, or a Dataplane has the service.
    pub exists: bool,
    pub proxies: Vec<Selection>,
    /// KRIs of the MeshServices of a MeshMultiZoneService.
    pub services: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedEdge {
    pub client: ClientId,
    pub destination: String,
    pub requests: u64,
    pub failed: u64,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
}

/// Calls without mTLS from an address to an inbound of a server. Strict mTLS would refuse them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaintextCaller {
    pub server: ClientId,
    /// Port of the inbound.
    pub port: u16,
    pub address: IpAddr,
    /// Dataplanes with this address: an application that does not call through its proxy.
    pub dataplanes: Vec<String>,
    pub requests: u64,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
}

impl ObservedTraffic {
    pub fn of(world: &World, mesh: &str, recorded: &Recorded) -> Self {
        let mut traffic = Self { dropped: recorded.dropped, form: PermissionForm::of(world, mesh), ..Self::default() };
        let mut spiffe_ids = spiffe_ids(world, mesh);
        let mut called = BTreeSet::new();
        for (id, client) in &recorded.clients {
            if let (Some(since), Some(until)) = (client.observed.since(), client.observed.until()) {
                traffic.clients.push(ObservedClient {
                    id: id.clone(),
                    spiffe_ids: spiffe_ids.remove(id).unwrap_or_default(),
                    since: time(since),
                    until: time(until),
                    observed_seconds: client.observed.seconds(),
                });
            }
            for (destination, edge) in &client.destinations {
                called.insert(destination.to_string());
                traffic.edges.push(ObservedEdge {
                    client: id.clone(),
                    destination: destination.to_string(),
                    requests: edge.requests(),
                    failed: edge.failed(),
                    first_seen: time(edge.first_seen),
                    last_seen: time(edge.last_seen),
                });
            }
        }
        let clients = &traffic.clients;
        traffic.window = clients.iter().map(|one| one.since).min().zip(clients.iter().map(|one| one.until).max());
        traffic.destinations = destinations(world, mesh, called);
        traffic.plaintext = plaintext(world, mesh, recorded);
        traffic.plaintext_dropped = recorded.plaintext.values().map(|callers| callers.dropped).sum();
        traffic
    }
}

fn plaintext(world: &World, mesh: &str, recorded: &Recorded) -> Vec<PlaintextCaller> {
    if recorded.plaintext.is_empty() {
        return Vec::new();
    }
    let mut dataplanes: BTreeMap<IpAddr, Vec<String>> = BTreeMap::new();
    for proxy in world.proxies(mesh) {
        if let Some(address) = proxy.dataplane.networking.as_ref().and_then(|one| one.address.parse::<IpAddr>().ok()) {
            dataplanes.entry(address.to_canonical()).or_default().push(proxy.name.to_string());
        }
    }
    let mut found = Vec::new();
    for (server, callers) in &recorded.plaintext {
        found.extend(callers.callers.iter().map(|((port, address), seen)| PlaintextCaller {
            server: server.clone(),
            port: *port,
            address: *address,
            dataplanes: dataplanes.get(address).cloned().unwrap_or_default(),
            requests: seen.requests,
            first_seen: time(seen.first_seen),
            last_seen: time(seen.last_seen),
        }));
    }
    found
}

/// A time that another version stored out of range becomes the epoch.
fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or_default()
}

/// With the MeshServices of MeshMultiZoneServices, in the order of their ids.
fn destinations(world: &World, mesh: &str, mut called: BTreeSet<String>) -> Vec<ObservedDestination> {
    let objects: BTreeMap<String, &Destination> =
        world.destinations(mesh).map(|destination| (destination.kri.to_string(), &**destination)).collect();
    let members: BTreeMap<String, Vec<String>> =
        called.iter().filter_map(|id| Some((id.clone(), services_of(objects.get(id)?, &objects)))).collect();
    called.extend(members.values().flatten().cloned());
    let proxies = Proxies::of(world, mesh);
    let of = |id: String| match objects.get(&id) {
        Some(destination) => ObservedDestination {
            kind: kind_of(&id).unwrap_or(SERVICE_KIND),
            name: destination.name.to_string(),
            exists: true,
            proxies: proxies.of_destination(destination),
            services: members.get(&id).cloned().unwrap_or_default(),
            id,
        },
        None => match kind_of(&id).filter(|_| !proxies.have_service(&id)) {
            Some(kind) => ObservedDestination {
                kind,
                name: id.clone(),
                exists: false,
                proxies: Vec::new(),
                services: Vec::new(),
                id,
            },
            None => ObservedDestination {
                kind: SERVICE_KIND,
                name: id.clone(),
                exists: proxies.have_service(&id),
                proxies: vec![proxies.of_service(&id)],
                services: Vec::new(),
                id,
            },
        },
    };
    called.into_iter().map(of).collect()
}

/// Kind of a KRI.
fn kind_of(id: &str) -> Option<&'static str> {
    let (short, _) = id.strip_prefix("kri_")?.split_once('_')?;
    kinds().by_short(short).map(|kind| kind.name)
}

fn services_of(destination: &Destination, objects: &BTreeMap<String, &Destination>) -> Vec<String> {
    let Behind::MultiZone(spec) = &destination.behind else { return Vec::new() };
    let selector = &spec.selector.mesh_service;
    let is_member = |object: &Destination| {
        matches!(object.behind, Behind::Service(_)) && selector.specificity() > 0 && selector.matches(&object.labels)
    };
    objects.iter().filter(|(_, object)| is_member(object)).map(|(id, _)| id.clone()).collect()
}

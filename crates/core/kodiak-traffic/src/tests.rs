//! Clusters, destinations and clients of whole meshes.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use kodiak_model::{Kri, Labels, ResourceKey};
use kodiak_world::{Stored, World};
use kodiak_xds::names::{self, Naming};
use serde_json::{Value, json};

use crate::{
    ClientId, ClientTraffic, ClusterLoad, ClusterNames, Coverage, EdgeTraffic, ObservedTraffic, Recorded, Selection,
};

const MESH: &str = "shop";

fn put(world: &mut World, kind: &str, name: &str, labels: &[(&str, &str)], spec: &Value) {
    let labels: Labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    world.put(Stored {
        key: &ResourceKey::in_mesh(kind, MESH, name),
        labels: &Arc::new(labels),
        created: Timestamp::UNIX_EPOCH,
        version: 1,
        status_version: 1,
        revision: 1,
        spec: &spec.to_string().into(),
        status: None,
    });
}

fn dataplane(world: &mut World, name: &str, labels: &[(&str, &str)], services: &[&str]) {
    let inbound = |(n, service): (usize, &&str)| json!({ "port": 80 + n, "tags": { "kuma.io/service": service } });
    let inbounds: Vec<_> = services.iter().enumerate().map(inbound).collect();
    let networking = json!({ "address": "10.0.0.1", "inbound": inbounds });
    put(world, "Dataplane", name, labels, &json!({ "networking": networking }));
}

fn mesh_service(world: &mut World, name: &str, labels: &[(&str, &str)], selector: &Value) {
    let ports = json!([{ "port": 80, "name": "http", "targetPort": 80, "appProtocol": "http" }]);
    put(world, "MeshService", name, labels, &json!({ "selector": selector, "ports": ports }));
}

fn world() -> World {
    let mut world = World::default();
    dataplane(&mut world, "web-1", &[], &["web"]);
    dataplane(&mut world, "both-1", &[], &["web", "api", "web"]);
    dataplane(&mut world, "batch-1", &[("kuma.io/workload", "batch")], &[]);
    dataplane(&mut world, "odd-1", &[], &["backend-0123456789abcdef", "backend"]);
    let zone = ("kuma.io/zone", "east");
    mesh_service(&mut world, "cart", &[zone, ("app", "cart")], &json!({ "dataplaneTags": { "app": "cart" } }));
    mesh_service(&mut world, "by-label", &[zone], &json!({ "dataplaneLabels": { "matchLabels": { "app": "x" } } }));
    mesh_service(&mut world, "by-name", &[zone], &json!({ "dataplaneRef": { "name": "odd-1" } }));
    let selector = json!({ "meshService": { "matchLabels": { "app": "cart" } } });
    let ports = json!([{ "port": 80, "appProtocol": "http" }]);
    put(&mut world, "MeshMultiZoneService", "carts", &[], &json!({ "selector": selector, "ports": ports }));
    let external = json!({ "match": { "type": "HostnameGenerator", "port": 443, "protocol": "tls" } });
    put(&mut world, "MeshExternalService", "db", &[], &external);
    world
}

fn kri(short: &'static str, zone: &str, name: &str, section: &str) -> Kri {
    let [mesh, zone, namespace, name, section] = [MESH, zone, "", name, section].map(str::to_owned);
    Kri { short, mesh, zone, namespace, name, section }
}

#[test]
fn clients_are_services_or_workloads() {
    let world = world();
    let clients: BTreeMap<_, _> = world.proxies(MESH).map(|proxy| (&*proxy.name, ClientId::of(proxy))).collect();
    let text = |name: &str| clients[name].as_ref().map(ClientId::as_str);
    assert_eq!(text("web-1"), Some("web"));
    assert_eq!(text("both-1"), Some("api,web"));
    assert_eq!(text("batch-1"), Some("workload/batch"));
    let batch = clients["batch-1"].as_ref().unwrap();
    assert_eq!((batch.services().count(), batch.workload()), (0, Some("batch")));
}

#[test]
fn clusters_of_every_naming_lead_to_their_destination() {
    let names = ClusterNames::of(&world(), MESH);
    let destination = |cluster: &str| names.destination(cluster).map(|destination| &**destination);
    for naming in [Naming::Kodiak, Naming::Kuma, Naming::Kri] {
        for (short, zone, name, section, port) in
            [("msvc", "east", "cart", "http", 80), ("mzsvc", "", "carts", "80", 80), ("extsvc", "", "db", "443", 443)]
        {
            let cluster = names::port_cluster(naming, &kri(short, zone, name, section), port);
            let id = kri(short, zone, name, "").to_string();
            assert_eq!(destination(&cluster), Some(&*id), "{cluster}");
        }
    }
    assert_eq!(destination("backend"), Some("backend"));
    let subset: BTreeMap<_, _> = [("kuma.io/service", "backend"), ("version", "2")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    assert_eq!(destination(&names::service_cluster(&subset)), Some("backend"));
    assert_eq!(destination("backend-0123456789abcdef"), Some("backend-0123456789abcdef"), "a service of this name");
}

#[test]
fn clusters_of_the_proxy_itself_are_no_destinations() {
    let names = ClusterNames::of(&world(), MESH);
    for cluster in [
        "localhost:80",
        names::ADMIN,
        names::CONTROL_PLANE,
        names::ACCESS_LOG_SINK,
        names::OUTBOUND_PASSTHROUGH_IPV4,
        names::INBOUND_PASSTHROUGH_IPV4,
        names::DIRECT_ACCESS,
        names::DIRECT_ACCESS_PLAINTEXT,
        names::DIRECT_ACCESS_CLOSED,
        "unknown",
        "unknown-0123456789abcdef",
    ] {
        assert_eq!(names.destination(cluster), None, "{cluster}");
    }
}

#[test]
fn name_of_two_destinations_is_counted_for_none() {
    let mut world = world();
    let cluster = names::port_cluster(Naming::Kodiak, &kri("msvc", "east", "cart", "http"), 80);
    dataplane(&mut world, "other", &[], &[&cluster]);
    let names = ClusterNames::of(&world, MESH);
    assert_eq!(names.destination(&cluster), None);
    let by_kri = names::port_cluster(Naming::Kri, &kri("msvc", "east", "cart", "http"), 80);
    assert!(names.destination(&by_kri).is_some());
}

fn recorded(edges: &[(&str, &str)]) -> Recorded {
    let mut all = Recorded::default();
    for (client, destination) in edges {
        let mut observed = Coverage::default();
        observed.add(100, 160);
        let edge = EdgeTraffic::seen(ClusterLoad { requests: 5, failed: 1, open: 0 }, 150);
        let traffic = ClientTraffic { observed, destinations: [((*destination).into(), edge)].into() };
        all.merge(&Recorded { clients: [((*client).into(), traffic)].into(), dropped: 0 });
    }
    all
}

#[test]
fn answer_has_the_proxies_behind_each_destination() {
    let [cart, label, name] = ["cart", "by-label", "by-name"].map(|name| kri("msvc", "east", name, "").to_string());
    let (carts, db) = (kri("mzsvc", "", "carts", "").to_string(), kri("extsvc", "", "db", "").to_string());
    let deleted = kri("msvc", "west", "deleted", "").to_string();
    let edges = ["backend", "gone", &label, &name, &carts, &db, &deleted].map(|destination| ("web", destination));
    let traffic = ObservedTraffic::of(&world(), MESH, &recorded(&edges));
    let of = |id: &str| traffic.destinations.iter().find(|destination| destination.id == id).unwrap();
    let one = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    assert_eq!(of("backend").proxies, [Selection::Tags(one("kuma.io/service", "backend"))]);
    assert_eq!((of("backend").kind, of("backend").exists, of("gone").exists), ("kuma.io/service", true, false));
    assert_eq!(of(&label).proxies, [Selection::Labels(one("app", "x"))]);
    assert_eq!(of(&name).proxies, [Selection::Name("odd-1".to_owned())]);
    assert_eq!((&of(&carts).services, of(&carts).kind), (&vec![cart.clone()], "MeshMultiZoneService"));
    assert_eq!(of(&cart).proxies, [Selection::Tags(one("app", "cart"))], "a service of the MeshMultiZoneService");
    assert_eq!((of(&db).kind, of(&db).proxies.len()), ("MeshExternalService", 0));
    assert_eq!((of(&deleted).kind, of(&deleted).exists, of(&deleted).proxies.len()), ("MeshService", false, 0));
    assert_eq!(traffic.edges.len(), 7);
}

#[test]
fn window_is_that_of_all_clients() {
    let mut all = recorded(&[("web", "backend"), ("api", "backend")]);
    all.clients.get_mut(&"api".into()).unwrap().observed.add(300, 400);
    let traffic = ObservedTraffic::of(&world(), MESH, &all);
    let at = |seconds| Timestamp::from_second(seconds).unwrap();
    assert_eq!(traffic.window, Some((at(100), at(400))));
    let api = traffic.clients.iter().find(|client| client.id.as_str() == "api").unwrap();
    assert_eq!((api.until, api.observed_seconds), (at(400), 160), "without the gap");
    assert_eq!(ObservedTraffic::of(&world(), MESH, &Recorded::default()).window, None);
}

//! Listeners for probes and for the admin interface.

use kodiak_xds::node::{NodeMetadata, features};
use kodiak_xds_stream::TypeUrl;
use serde_json::{Value, json};

use super::{
    resource,
    world::{World, dataplane, inbound},
};

#[test]
fn probes_of_an_application_behind_another_port_are_forwarded_to_it() {
    let mut world = World::default();
    world.mesh("{}");
    let mut web = inbound(80, "web", "http");
    web["servicePort"] = json!(8080);
    let mut spec: Value = serde_json::from_str(&dataplane("web-1", &[web], &[])).unwrap();
    let probe =
        |port: u32| json!({ "inboundPort": port, "inboundPath": "/healthz", "path": format!("/{port}/healthz") });
    spec["probes"] = json!({ "port": 9000, "endpoints": [probe(8080), probe(80), probe(8081)] });
    world.dataplane("web-1", spec.to_string());
    world.connect("web-1");
    let listener = resource(&world, "web-1", TypeUrl::Listener, "probe:listener");
    let path = "/filterChains/0/filters/0/typedConfig/routeConfig/virtualHosts/0/routes";
    let routes = listener.pointer(path).unwrap().as_array().unwrap();
    let cluster = |port: u32| {
        let prefix = format!("/{port}/healthz");
        let route = routes.iter().find(|route| route["match"]["prefix"] == prefix).unwrap();
        route["route"]["cluster"].as_str().map(str::to_owned)
    };
    let local = Some("localhost:8080".to_owned());
    assert_eq!([cluster(8080), cluster(80), cluster(8081)], [local.clone(), local, None]);
}

#[test]
fn readiness_on_a_socket_of_the_sidecar_process_is_called_there() {
    let mut world = World::default();
    world.mesh("{}");
    world.dataplane("web-1", dataplane("web-1", &[inbound(80, "web", "http")], &[]));
    let features = [features::READINESS_SOCKET.to_owned()].into();
    let metadata = NodeMetadata {
        features,
        workdir: Some("/tmp/dp".to_owned()),
        readiness_port: Some(9902),
        admin_port: Some(9901),
        ..NodeMetadata::default()
    };
    world.connect_as("web-1", metadata);
    let cluster = resource(&world, "web-1", TypeUrl::Cluster, "kuma:readiness");
    let address = cluster.pointer("/loadAssignment/endpoints/0/lbEndpoints/0/endpoint/address").unwrap();
    assert_eq!(*address, json!({ "pipe": { "path": "/tmp/dp/kuma-readiness-reporter.sock" } }));
}

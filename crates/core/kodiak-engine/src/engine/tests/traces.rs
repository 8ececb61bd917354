//! MeshTrace: a conf for whole proxies, and clusters of collectors that inbounds and outbounds share.

use std::sync::Arc;

use kodiak_model::kinds::dataplane::BackendKind;
use kodiak_xds_stream::TypeUrl;
use serde_json::{Value, json};

use super::{
    names, two_callers,
    world::{World, dataplane, inbound},
};
use crate::{Outcome, Stats, redacted};

const OUTBOUND: &str = "outbound:127.0.0.1:10001";

fn web() -> Value {
    json!({ "kind": "MeshSubset", "tags": { "kuma.io/service": "web" } })
}

fn collector(endpoint: &str) -> Value {
    json!([{ "type": "OpenTelemetry", "openTelemetry": { "endpoint": endpoint } }])
}

fn datadog() -> Value {
    json!([{ "type": "Datadog", "datadog": { "url": "http://agent:8126" } }])
}

fn put(world: &mut World, target: &Value, backends: &Value) -> Outcome {
    let spec = json!({ "targetRef": target, "default": { "backends": backends } });
    let outcome = world.policy("MeshTrace", "traces", Some(&spec.to_string()));
    assert_valid(&outcome);
    outcome
}

fn delete(world: &mut World) -> Outcome {
    let outcome = world.policy("MeshTrace", "traces", None);
    assert_valid(&outcome);
    outcome
}

#[track_caller]
fn assert_valid(outcome: &Outcome) {
    for updated in &outcome.proxies {
        assert!(updated.faults.is_empty(), "{}: {:?}", updated.key.name, updated.faults);
    }
}

fn woken(outcome: &Outcome) -> Vec<&str> {
    outcome.proxies.iter().map(|updated| &*updated.key.name).collect()
}

/// The name of the tracer of a listener.
fn tracer(world: &World, proxy: &str, listener: &str) -> Value {
    let config = redacted::config(&world.snapshot(proxy)).unwrap();
    let listener = &config["type.googleapis.com/envoy.config.listener.v3.Listener"][listener];
    listener["filterChains"][0]["filters"][0]["typedConfig"]["tracing"]["provider"]["name"].clone()
}

#[test]
fn selected_proxies_trace_inbounds_and_outbounds_until_the_policy_is_deleted() {
    let mut world = two_callers();
    let before = world.snapshot("web-1");
    let outcome = put(&mut world, &web(), &collector("collector:4317"));
    assert_eq!(woken(&outcome), ["web-1", "web-2"]);
    assert_eq!(names(&world, "web-1", TypeUrl::Cluster), ["backend", "localhost:80", "meshtrace:opentelemetry"]);
    for listener in [OUTBOUND, "inbound:10.0.0.1:80"] {
        assert_eq!(tracer(&world, "web-1", listener), "envoy.tracers.opentelemetry", "{listener}");
    }
    assert_eq!(names(&world, "other", TypeUrl::Cluster), ["localhost:80", "web"]);

    let outcome = put(&mut world, &web(), &datadog());
    assert_eq!(woken(&outcome), ["web-1", "web-2"]);
    assert_eq!(names(&world, "web-2", TypeUrl::Cluster), ["backend", "localhost:80", "meshtrace:datadog"]);

    let outcome = delete(&mut world);
    assert_eq!(woken(&outcome), ["web-1", "web-2"]);
    assert_eq!(world.snapshot("web-1").resources, before.resources);
}

#[test]
fn empty_list_of_backends_disables_tracing() {
    let mut world = two_callers();
    let before = world.snapshot("web-1");
    put(&mut world, &json!({ "kind": "Mesh" }), &collector("collector:4317"));
    let outcome = put(&mut world, &json!({ "kind": "Mesh" }), &json!([]));
    assert_eq!(woken(&outcome), ["other", "web-1", "web-2"]);
    assert_eq!(world.snapshot("web-1").resources, before.resources);
}

#[test]
fn another_address_of_the_collector_changes_only_its_cluster() {
    let mut world = two_callers();
    put(&mut world, &web(), &collector("collector:4317"));
    let before = world.snapshot("web-1");
    let outcome = put(&mut world, &web(), &collector("other-collector:4317"));
    assert_eq!(woken(&outcome), ["web-1", "web-2"]);
    let after = world.snapshot("web-1");
    assert_eq!(before.of(TypeUrl::Listener), after.of(TypeUrl::Listener));
    let cluster =
        |snapshot: &kodiak_xds_stream::Snapshot| snapshot.of(TypeUrl::Cluster)["meshtrace:opentelemetry"].clone();
    assert_ne!(cluster(&before), cluster(&after));
}

#[test]
fn replicas_share_listeners_and_the_cluster_of_the_collector() {
    let mut world = two_callers();
    put(&mut world, &web(), &collector("collector:4317"));
    world.dataplane("web-3", dataplane("web-3", &[inbound(80, "web", "http")], &[(10001, "backend")]));
    let outcome = world.connect("web-3");
    assert_valid(&outcome);
    assert_eq!(outcome.stats, Stats { encoded: 0, woken: 1 });
    let of = |proxy: &str, type_url: TypeUrl, name: &str| world.snapshot(proxy).of(type_url)[name].clone();
    for (type_url, name) in [(TypeUrl::Listener, OUTBOUND), (TypeUrl::Cluster, "meshtrace:opentelemetry")] {
        assert!(Arc::ptr_eq(&of("web-1", type_url, name), &of("web-3", type_url, name)), "{name}");
    }
}

#[test]
fn services_do_not_share_listeners_that_name_the_client() {
    let mut world = two_callers();
    // It calls the same destination at the same address as the replicas of `web`.
    world.dataplane("app-1", dataplane("app-1", &[inbound(80, "app", "http")], &[(10001, "backend")]));
    world.connect("app-1");
    let of = |world: &World, proxy: &str| world.snapshot(proxy).of(TypeUrl::Listener)[OUTBOUND].clone();
    assert!(Arc::ptr_eq(&of(&world, "app-1"), &of(&world, "web-1")));
    put(&mut world, &json!({ "kind": "Mesh" }), &collector("collector:4317"));
    assert_ne!(of(&world, "app-1"), of(&world, "web-1"));
    assert!(Arc::ptr_eq(&of(&world, "web-2"), &of(&world, "web-1")));
    delete(&mut world);
    assert!(Arc::ptr_eq(&of(&world, "app-1"), &of(&world, "web-1")));
}

#[test]
fn one_of_two_replicas_can_be_selected() {
    let mut world = two_callers();
    let outcome = put(&mut world, &json!({ "kind": "Dataplane", "name": "web-1" }), &datadog());
    assert_eq!(woken(&outcome), ["web-1"]);
    assert_eq!(tracer(&world, "web-1", OUTBOUND), "envoy.tracers.datadog");
    assert_eq!(tracer(&world, "web-2", OUTBOUND), Value::Null);
    let outcome = put(&mut world, &json!({ "kind": "Dataplane", "name": "web-2" }), &datadog());
    assert_eq!(woken(&outcome), ["web-1", "web-2"]);
    assert_eq!(names(&world, "web-1", TypeUrl::Cluster), ["backend", "localhost:80"]);
    assert_eq!(tracer(&world, "web-2", OUTBOUND), "envoy.tracers.datadog");
}

#[test]
fn clusters_of_collectors_follow_outbounds() {
    let mut world = World::default();
    world.mesh("{}");
    // A gateway has no inbound listeners.
    let gateway = |outbounds: &Value| {
        json!({ "networking": {
            "address": "10.0.0.9", "gateway": { "tags": { "kuma.io/service": "edge" } }, "outbound": outbounds,
        } })
    };
    world.dataplane("edge", gateway(&json!([])).to_string());
    world.connect("edge");
    world.dataplane("backend-1", dataplane("backend-1", &[inbound(8080, "backend", "http")], &[]));
    put(&mut world, &json!({ "kind": "Mesh" }), &datadog());
    assert_eq!(names(&world, "edge", TypeUrl::Cluster), Vec::<String>::new());
    let one = json!([{ "port": 10001, "tags": { "kuma.io/service": "backend" } }]);
    assert_valid(&world.dataplane("edge", gateway(&one).to_string()));
    assert_eq!(names(&world, "edge", TypeUrl::Cluster), ["backend", "meshtrace:datadog"]);
    assert_eq!(tracer(&world, "edge", OUTBOUND), "envoy.tracers.datadog");
    assert_valid(&world.dataplane("edge", gateway(&json!([])).to_string()));
    assert_eq!(names(&world, "edge", TypeUrl::Cluster), Vec::<String>::new());
}

#[test]
fn new_destinations_of_a_traced_proxy_are_traced() {
    let mut world = two_callers();
    world.redirected("app", &[]);
    put(&mut world, &json!({ "kind": "Dataplane", "name": "app" }), &datadog());
    assert_valid(&world.assign_vips());
    world.dataplane("late-1", dataplane("late-1", &[inbound(8080, "late", "http")], &[]));
    let outcome = world.assign_vips();
    assert_valid(&outcome);
    assert_eq!(woken(&outcome), ["app"]);
    let listeners = names(&world, "app", TypeUrl::Listener);
    let traced: Vec<&String> =
        listeners.iter().filter(|name| tracer(&world, "app", name) == "envoy.tracers.datadog").collect();
    // Of its own inbound, and of the HTTP services app, backend, late and web; `other` is TCP.
    assert_eq!(traced.len(), 5, "{traced:?} of {listeners:?}");
}

#[test]
fn external_services_are_not_traced() {
    let mut world = World::default();
    world.mesh(r#"{ "meshServices": { "mode": "Everywhere" } }"#);
    world.redirected("app", &[]);
    let stored = json!({
        "labels": {},
        "spec": {
            "match": { "type": "HostnameGenerator", "port": 80, "protocol": "http" },
            "endpoints": [{ "address": "203.0.113.1", "port": 80 }],
        },
        "status": { "vip": { "ip": "242.0.0.1" }, "addresses": [{ "hostname": "example.mesh" }] },
    });
    world.object(BackendKind::MeshExternalService, "example", Some(stored));
    put(&mut world, &json!({ "kind": "Dataplane", "name": "app" }), &datadog());
    assert_eq!(tracer(&world, "app", "inbound:10.0.0.7:80"), "envoy.tracers.datadog");
    assert!(names(&world, "app", TypeUrl::Listener).contains(&"outbound:242.0.0.1:80".to_owned()));
    assert_eq!(tracer(&world, "app", "outbound:242.0.0.1:80"), Value::Null);
}

fn referring(reference: &Value) -> Value {
    json!([{ "type": "OpenTelemetry", "openTelemetry": { "backendRef": reference } }])
}

fn backend(created: i64, labels: &Value, address: &str) -> (i64, Value, Value) {
    (created, labels.clone(), json!({ "endpoint": { "address": address } }))
}

/// Address of the collector of a proxy.
fn address(world: &World, proxy: &str) -> Value {
    let config = redacted::config(&world.snapshot(proxy)).unwrap();
    let cluster = &config["type.googleapis.com/envoy.config.cluster.v3.Cluster"]["meshtrace:opentelemetry"];
    cluster["loadAssignment"]["endpoints"][0]["lbEndpoints"][0]["endpoint"]["address"]["socketAddress"]["address"]
        .clone()
}

#[test]
fn referenced_backend_may_come_later_change_and_be_deleted() {
    let mut world = two_callers();
    let before = world.snapshot("web-1");
    put(&mut world, &web(), &referring(&json!({ "kind": "MeshOpenTelemetryBackend", "name": "main" })));
    assert_eq!(world.snapshot("web-1").resources, before.resources);
    for collector in ["first", "second"] {
        let outcome = world.otlp_backend("main", Some(backend(1, &json!({}), collector)));
        assert_valid(&outcome);
        assert_eq!(woken(&outcome), ["web-1", "web-2"]);
        assert_eq!(address(&world, "web-1"), collector);
    }
    assert_eq!(world.otlp_backend("other", Some(backend(1, &json!({}), "elsewhere"))).stats, Stats::default());
    let outcome = world.otlp_backend("main", None);
    assert_valid(&outcome);
    assert_eq!(woken(&outcome), ["web-1", "web-2"]);
    assert_eq!(world.snapshot("web-1").resources, before.resources);
}

#[test]
fn labels_select_the_oldest_backend() {
    let mut world = two_callers();
    let labels = json!({ "team": "x" });
    put(&mut world, &web(), &referring(&json!({ "kind": "MeshOpenTelemetryBackend", "labels": labels })));
    world.otlp_backend("a", Some(backend(5, &labels, "newer")));
    assert_eq!(address(&world, "web-1"), "newer");
    world.otlp_backend("b", Some(backend(4, &labels, "older")));
    assert_eq!(address(&world, "web-1"), "older");
    assert_eq!(world.otlp_backend("c", Some(backend(6, &labels, "newest"))).stats, Stats::default());
    world.otlp_backend("b", None);
    assert_eq!(address(&world, "web-1"), "newer");
}

//! Access logs: proxies share listeners that log, and have the clusters of their collectors.

use std::sync::Arc;

use kodiak_reachability::Mode;
use kodiak_xds::node::{NodeMetadata, features};
use kodiak_xds_stream::TypeUrl;
use serde_json::{Value, json};

use super::{
    names,
    world::{World, dataplane, inbound},
};
use crate::{EngineSettings, redacted};

const OUTBOUND: &str = "outbound:127.0.0.1:10001";

/// Replicas of two services at different addresses, which call `backend`.
fn replicas() -> World {
    let mut world = World::default();
    world.mesh("{}");
    for (name, service) in [("front-1", "front"), ("front-2", "front"), ("batch-3", "batch")] {
        world.dataplane(name, dataplane(name, &[inbound(80, service, "http")], &[(10001, "backend")]));
        let features = [features::ACCESS_LOG_PIPE.to_owned()].into();
        world.connect_as(name, NodeMetadata { features, workdir: Some(".".to_owned()), ..NodeMetadata::default() });
    }
    world.dataplane("backend-4", dataplane("backend-4", &[inbound(8080, "backend", "http")], &[]));
    world
}

fn log(world: &mut World, backends: &Value) {
    let to = json!([{ "targetRef": { "kind": "Mesh" }, "default": { "backends": backends } }]);
    world.policy("MeshAccessLog", "log", Some(&json!({ "to": to }).to_string()));
}

fn loggers(world: &World, proxy: &str, listener: &str) -> Value {
    let config = redacted::config(&world.snapshot(proxy)).unwrap();
    let listener = &config["type.googleapis.com/envoy.config.listener.v3.Listener"][listener];
    listener["filterChains"].as_array().unwrap().last().unwrap()["filters"][0]["typedConfig"]["accessLog"].clone()
}

#[test]
fn replicas_of_a_service_share_listeners_that_log() {
    let mut world = replicas();
    let listener = |world: &World, proxy: &str| world.snapshot(proxy).of(TypeUrl::Listener)[OUTBOUND].clone();
    let shared = |world: &World, one: &str, other: &str| Arc::ptr_eq(&listener(world, one), &listener(world, other));
    let backends = json!([
        { "type": "File", "file": { "path": "/dev/stdout" } },
        { "type": "Tcp", "tcp": { "address": "127.0.0.1:5000" } },
        { "type": "OpenTelemetry", "openTelemetry": { "endpoint": "otel:4317" } },
    ]);
    log(&mut world, &backends);
    assert_eq!(loggers(&world, "front-1", OUTBOUND).as_array().unwrap().len(), 3);
    assert!(shared(&world, "front-1", "front-2"));
    assert!(!shared(&world, "front-1", "batch-3"), "lines have the name of the source service");
    // Without a fact about the proxy, all share.
    let format = json!({ "type": "Plain", "plain": "%KUMA_SOURCE_ADDRESS% %KUMA_MESH%" });
    log(&mut world, &json!([{ "type": "File", "file": { "path": "/dev/stdout", "format": format } }]));
    assert!(shared(&world, "front-1", "batch-3"));
}

#[test]
fn collector_has_a_cluster_while_a_listener_references_it() {
    let mut world = replicas();
    world.redirected("web", &[]);
    world.assign_vips();
    let collector = "meshaccesslog:opentelemetry:otel:4317".to_owned();
    let has = |world: &World, proxy: &str| names(world, proxy, TypeUrl::Cluster).contains(&collector);
    log(&mut world, &json!([{ "type": "OpenTelemetry", "openTelemetry": { "endpoint": "otel" } }]));
    assert!(has(&world, "front-1") && has(&world, "web"));
    log(&mut world, &json!([]));
    assert!(!has(&world, "front-1") && !has(&world, "web"));
    let rules = json!({ "rules": [{ "default": { "backends": [
        { "type": "OpenTelemetry", "openTelemetry": { "endpoint": "otel" } },
    ] } }] });
    world.policy("MeshAccessLog", "inbound", Some(&rules.to_string()));
    assert!(has(&world, "front-1"));
}

#[test]
fn connections_outside_the_mesh_are_logged_by_policies_for_the_mesh() {
    let mut world = replicas();
    world.redirected("web", &[]);
    world.assign_vips();
    let outside = "outbound:passthrough:ipv4";
    assert_eq!(loggers(&world, "web", outside), Value::Null);
    log(&mut world, &json!([{ "type": "File", "file": { "path": "/dev/stdout" } }]));
    let lines = loggers(&world, "web", outside)[0]["typedConfig"]["logFormat"].to_string();
    assert!(lines.contains("(web)->%UPSTREAM_HOST%(external)"), "{lines}");
    let backend = json!([{ "targetRef": { "kind": "MeshService", "name": "backend" }, "default": { "backends": [
        { "type": "File", "file": { "path": "/dev/stdout" } },
    ] } }]);
    world.policy("MeshAccessLog", "log", Some(&json!({ "to": backend }).to_string()));
    assert_eq!(loggers(&world, "web", outside), Value::Null);
}

#[test]
fn sidecar_process_without_a_pipe_does_not_log_to_tcp_backends() {
    let mut world = replicas();
    world.connect("front-2");
    log(&mut world, &json!([{ "type": "Tcp", "tcp": { "address": "127.0.0.1:5000" } }]));
    assert_eq!(loggers(&world, "front-1", OUTBOUND)[0]["typedConfig"]["path"], "./kuma-al.sock");
    assert_eq!(loggers(&world, "front-2", OUTBOUND), Value::Null);
}

/// Loggers of the chain without mTLS of `backend-1`.
fn plaintext_loggers(observe_plaintext: bool, mode: &str, features: &[&str]) -> Value {
    let mut world = World::with(EngineSettings { observe_plaintext, ..World::settings(Mode::Off) });
    let mtls = json!({ "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin", "mode": mode }] });
    world.mesh(&json!({ "mtls": mtls }).to_string());
    world.dataplane("backend-1", dataplane("backend-1", &[inbound(80, "backend", "http")], &[]));
    let features = features.iter().map(|feature| (*feature).to_owned()).collect();
    world.connect_as("backend-1", NodeMetadata { features, workdir: Some(".".to_owned()), ..NodeMetadata::default() });
    let config = redacted::config(&world.snapshot("backend-1")).unwrap();
    let listener = &config["type.googleapis.com/envoy.config.listener.v3.Listener"]["inbound:10.0.1.1:80"];
    let filters = listener["filterChains"][0]["filters"].as_array().unwrap();
    filters.last().unwrap()["typedConfig"]["accessLog"].clone()
}

#[test]
fn permissive_inbounds_log_callers_without_mtls_if_they_are_observed() {
    let all = [features::ACCESS_LOG_PIPE, features::PLAINTEXT_CALLERS];
    let logs = plaintext_loggers(true, "PERMISSIVE", &all);
    assert_eq!(logs[0]["typedConfig"]["path"], "./kuma-al.sock", "{logs}");
    for (observe, mode, features) in [
        (false, "PERMISSIVE", &all[..]),
        (true, "STRICT", &all[..]),
        (true, "PERMISSIVE", &all[..1]),
        (true, "PERMISSIVE", &all[1..]),
    ] {
        assert_eq!(plaintext_loggers(observe, mode, features), Value::Null, "{observe} {mode} {features:?}");
    }
}

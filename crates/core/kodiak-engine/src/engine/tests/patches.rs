//! MeshProxyPatch: patched resources are shared, and an invalid result keeps the last good configuration.

use std::sync::Arc;

use kodiak_xds_stream::TypeUrl;
use serde_json::{Value, json};

use super::{
    names, two_callers,
    world::{World, dataplane, inbound},
};
use crate::{Outcome, Stats, redacted};

const LUA: &str = "name: lua
typedConfig:
  '@type': type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
  defaultSourceCode: { inlineString: 'function envoy_on_request(handle) end' }";

fn patch(world: &mut World, target: &Value, modifications: &Value) -> Outcome {
    let spec = json!({ "targetRef": target, "default": { "appendModifications": modifications } });
    world.policy("MeshProxyPatch", "p", Some(&spec.to_string()))
}

fn patch_all(world: &mut World, modifications: &Value) -> Outcome {
    patch(world, &json!({ "kind": "Mesh" }), modifications)
}

fn cluster(operation: &str, name: &str, value: Option<&str>) -> Value {
    json!({ "cluster": { "operation": operation, "match": { "name": name }, "value": value } })
}

fn added(kind: &str, value: &str) -> Value {
    json!({ kind: { "operation": "Add", "value": value } })
}

fn shown(world: &World, proxy: &str, type_url: TypeUrl, name: &str) -> Value {
    redacted::config(&world.snapshot(proxy)).unwrap()[type_url.as_str()][name].clone()
}

/// Faults of a proxy in an outcome.
fn faults(outcome: &Outcome, proxy: &str) -> Vec<String> {
    outcome.proxies.iter().filter(|each| *each.key.name == *proxy).flat_map(|each| each.faults.clone()).collect()
}

#[test]
fn patched_resource_is_encoded_once_and_shared_by_equal_proxies() {
    let mut world = two_callers();
    let other = world.snapshot("other");
    let outcome = patch_all(&mut world, &json!([cluster("Patch", "backend", Some("connectTimeout: 12s"))]));
    assert_eq!(outcome.stats, Stats { encoded: 1, woken: 2 });
    assert_eq!(shown(&world, "web-1", TypeUrl::Cluster, "backend")["connectTimeout"], "12s");
    let of = |proxy: &str| world.snapshot(proxy).of(TypeUrl::Cluster)["backend"].clone();
    assert!(Arc::ptr_eq(&of("web-1"), &of("web-2")));
    assert!(Arc::ptr_eq(&world.snapshot("other"), &other), "no modification changes it");
    // Endpoints change without another patch.
    let outcome = world.dataplane("backend-2", dataplane("backend-2", &[inbound(8080, "backend", "http")], &[]));
    assert_eq!(outcome.stats, Stats { encoded: 1, woken: 2 });
    let gone = world.policy("MeshProxyPatch", "p", None);
    assert_eq!(gone.stats, Stats { encoded: 0, woken: 2 });
    assert_eq!(shown(&world, "web-1", TypeUrl::Cluster, "backend")["connectTimeout"], "5s");
}

#[test]
fn patch_without_a_match_changes_and_encodes_nothing() {
    let mut world = two_callers();
    let before = world.snapshot("web-1");
    let modifications = json!([
        cluster("Remove", "nobody", None),
        { "listener": { "operation": "Remove", "match": { "tags": { "a": "b" } } } },
        { "httpFilter": { "operation": "AddBefore", "match": { "name": "nobody" }, "value": LUA } },
        { "networkFilter": { "operation": "Remove", "match": { "name": "nobody" } } },
        { "virtualHost": { "operation": "Remove", "match": { "name": "nobody" } } },
    ]);
    assert_eq!(patch_all(&mut world, &modifications).stats, Stats::default());
    assert!(Arc::ptr_eq(&world.snapshot("web-1"), &before));
}

#[test]
fn proxies_that_no_patch_selects_stay_as_they_are() {
    let mut world = two_callers();
    let before = world.snapshot("web-2");
    let target = json!({ "kind": "Dataplane", "name": "web-1" });
    let outcome = patch(&mut world, &target, &json!([cluster("Patch", "backend", Some("connectTimeout: 12s"))]));
    assert_eq!(outcome.stats, Stats { encoded: 1, woken: 1 });
    assert!(Arc::ptr_eq(&world.snapshot("web-2"), &before));
}

#[test]
fn filters_are_added_to_listeners_of_an_origin() {
    let mut world = two_callers();
    let router = "envoy.filters.http.router";
    let filter = |origin: &str| {
        json!([{ "httpFilter": {
        "operation": "AddBefore", "match": { "name": router, "origin": origin }, "value": LUA,
    } }])
    };
    let has_lua = |world: &World, listener: &str| {
        shown(world, "web-1", TypeUrl::Listener, listener).to_string().contains("envoy_on_request")
    };
    for (origin, patched, unpatched) in [
        ("inbound", "inbound:10.0.0.1:80", "outbound:127.0.0.1:10001"),
        ("outbound", "outbound:127.0.0.1:10001", "inbound:10.0.0.1:80"),
    ] {
        patch_all(&mut world, &filter(origin));
        assert!(has_lua(&world, patched) && !has_lua(&world, unpatched), "{origin}");
    }
}

#[test]
fn added_listener_may_reference_an_added_cluster() {
    let mut world = two_callers();
    let listener = "name: extra
address: { socketAddress: { address: 127.0.0.1, portValue: 9000 } }
filterChains:
  - filters:
      - name: tcp
        typedConfig:
          '@type': type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
          statPrefix: extra
          cluster: extra";
    let outcome = patch_all(&mut world, &json!([added("listener", listener), added("cluster", "name: extra")]));
    assert_eq!(outcome.stats, Stats { encoded: 2, woken: 3 });
    assert_eq!(names(&world, "web-1", TypeUrl::Cluster), ["backend", "extra", "localhost:80"]);
    // Later modifications change added resources, by their origin too.
    let origin = json!({ "cluster": {
        "operation": "Patch", "match": { "origin": "proxy-template-modifications" }, "value": "connectTimeout: 9s",
    } });
    let modifications = json!([added("listener", listener), added("cluster", "name: extra"), origin]);
    assert!(faults(&patch_all(&mut world, &modifications), "web-1").is_empty());
    assert_eq!(shown(&world, "web-1", TypeUrl::Cluster, "extra")["connectTimeout"], "9s");
    let outcome = patch_all(&mut world, &json!([added("listener", listener)]));
    assert_eq!(
        faults(&outcome, "web-1"),
        [
            "MeshProxyPatch \"p\": spec.default.appendModifications[0].listener: extra references cluster \"extra\", which does not exist"
        ]
    );
}

#[test]
fn added_cluster_replaces_a_generated_one_with_its_endpoints() {
    let mut world = two_callers();
    let modifications = json!([added("cluster", "{name: backend, type: STATIC}")]);
    assert!(faults(&patch_all(&mut world, &modifications), "web-1").is_empty());
    let shown = shown(&world, "web-1", TypeUrl::Cluster, "backend");
    assert_eq!(shown, json!({ "name": "backend", "type": "STATIC" }));
    assert!(names(&world, "web-1", TypeUrl::Endpoint).is_empty(), "Envoy would not subscribe to them");
}

#[test]
fn removed_cluster_that_is_referenced_keeps_the_last_good_configuration() {
    let mut world = two_callers();
    let before = world.snapshot("web-1");
    let outcome =
        patch_all(&mut world, &json!([cluster("Remove", "nobody", None), cluster("Remove", "backend", None)]));
    assert_eq!(
        faults(&outcome, "web-1"),
        [
            "MeshProxyPatch \"p\": spec.default.appendModifications[1].cluster: outbound:127.0.0.1:10001 references cluster \"backend\", which does not exist"
        ]
    );
    assert!(faults(&outcome, "other").is_empty());
    assert!(Arc::ptr_eq(&world.snapshot("web-1"), &before));
    let outcome = patch_all(&mut world, &json!([cluster("Remove", "localhost:80", None)]));
    let expected = "[0].cluster: inbound:10.0.0.1:80 references cluster \"localhost:80\", which does not exist";
    assert!(faults(&outcome, "web-1")[0].ends_with(expected), "{:?}", faults(&outcome, "web-1"));
    // Without the listener, nothing references it.
    let listener = json!({ "listener": { "operation": "Remove", "match": { "origin": "outbound" } } });
    let outcome = patch_all(&mut world, &json!([cluster("Remove", "backend", None), listener]));
    assert!(faults(&outcome, "web-1").is_empty());
    assert_eq!(names(&world, "web-1", TypeUrl::Listener), ["inbound:10.0.0.1:80"]);
    assert!(names(&world, "web-1", TypeUrl::Endpoint).is_empty());
    world.policy("MeshProxyPatch", "p", None);
    assert_eq!(world.snapshot("web-1").resources, before.resources);
}

#[test]
fn invalid_results_name_the_operation_that_caused_them() {
    let mut world = two_callers();
    for (modification, expected) in [
        (
            json!({ "cluster": { "operation": "Patch", "match": { "name": "backend" }, "jsonPatches": [{ "op": "remove", "path": "/x" }] } }),
            "[0].cluster: cluster \"backend\": path \"/x\" does not exist",
        ),
        (
            json!({ "httpFilter": { "operation": "Remove", "match": { "origin": "inbound", "name": "envoy.filters.http.router" } } }),
            "[0].httpFilter: listener \"inbound:10.0.0.1:80\": the last HTTP filter is not the router",
        ),
        (
            json!({ "listener": { "operation": "Patch", "match": { "origin": "outbound" }, "jsonPatches": [
                { "op": "replace", "path": "/address/socketAddress/address", "value": "10.0.0.1" },
                { "op": "replace", "path": "/address/socketAddress/portValue", "value": 80 }] } }),
            "10.0.0.1:80",
        ),
        (json!({ "cluster": { "operation": "Add", "value": "nam: x" } }), "unrecognized field name 'nam'"),
    ] {
        let outcome = patch_all(&mut world, &json!([modification]));
        let found = faults(&outcome, "web-1");
        assert!(found.iter().any(|fault| fault.contains(expected)), "{expected}: {found:?}");
        world.policy("MeshProxyPatch", "p", None);
    }
}

#[test]
fn later_modification_may_repair_an_earlier_one() {
    let mut world = two_callers();
    let router = json!({ "name": "envoy.filters.http.router", "typedConfig": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
    } });
    let modifications = json!([
        { "httpFilter": { "operation": "Remove", "match": { "name": "envoy.filters.http.router" } } },
        { "httpFilter": { "operation": "AddLast", "value": router.to_string() } },
        added("cluster", "{name: gone, connectTimeout: 1s}"),
        cluster("Remove", "gone", None),
    ]);
    assert!(faults(&patch_all(&mut world, &modifications), "web-1").is_empty());
    assert_eq!(names(&world, "web-1", TypeUrl::Cluster), ["backend", "localhost:80"]);
}

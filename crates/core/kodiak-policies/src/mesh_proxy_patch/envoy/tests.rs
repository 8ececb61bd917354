//! Each operation on each kind of resource, with values and with JSON patches.

use kodiak_envoy::json::{from_json, to_json};
use kodiak_model::{policy::Conf, yaml};
use serde_json::{Value, json};

use super::super::{Effect, Resource};
use super::*;

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const TCP: &str = "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";

fn patches(modifications: &str) -> ProxyPatches {
    let written = yaml::parse(modifications).unwrap().remove(0).value;
    let conf = Conf::new(json!({ "appendModifications": written }));
    ProxyPatches::of([("a", &conf)]).unwrap()
}

/// The resource after all steps. `None` if one removes it.
fn applied(modifications: &str, mut resource: Resource, origin: &str) -> Result<Option<Value>, String> {
    for step in patches(modifications).steps() {
        assert_eq!(step.error(), None);
        let before = resource.clone();
        let effect = step.apply(&mut resource, origin).map_err(|error| format!("{}: {error}", step.at()))?;
        let selected = step.may_select(resource.resource_type(), before.name(), origin);
        assert!(selected || (effect == Effect::Stays && before == resource), "{} is not prefiltered", step.at());
        if effect == Effect::Removed {
            return Ok(None);
        }
    }
    Ok(Some(match resource {
        Resource::Cluster(cluster) => to_json(&*cluster).unwrap(),
        Resource::Listener(listener) => to_json(&*listener).unwrap(),
    }))
}

fn cluster() -> Resource {
    let json = json!({ "name": "backend", "connectTimeout": "5s", "type": "STATIC" });
    Resource::Cluster(Box::new(from_json(&json).unwrap()))
}

fn on_cluster(modifications: &str) -> Result<Option<Value>, String> {
    applied(modifications, cluster(), "outbound")
}

fn http_filter(name: &str) -> Value {
    json!({ "name": name, "typedConfig": { "@type": ROUTER } })
}

fn listener() -> Value {
    let routes = json!({ "name": "routes", "virtualHosts": [{ "name": "backend", "domains": ["*"] }] });
    let manager = json!({
        "@type": MANAGER,
        "statPrefix": "in",
        "httpFilters": [http_filter("first"), http_filter("envoy.filters.http.router")],
        "routeConfig": routes,
    });
    let network = |name: &str, config: Value| json!({ "name": name, "typedConfig": config });
    let tcp = json!({ "@type": TCP, "statPrefix": "tcp", "cluster": "backend", "idleTimeout": "5s" });
    json!({
        "name": "inbound:10.0.0.1:80",
        "metadata": { "filterMetadata": { "io.kuma.tags": { "kuma.io/service": "backend" } } },
        "filterChains": [
            { "filters": [network("hcm", manager)] },
            { "filters": [network("tcp", tcp)], "name": "raw" },
        ],
    })
}

fn on_listener(modifications: &str) -> Result<Option<Value>, String> {
    applied(modifications, Resource::Listener(Box::new(from_json(&listener()).unwrap())), "inbound")
}

/// The listener after steps that do not remove it.
fn changed(modifications: &str) -> Value {
    on_listener(modifications).unwrap().unwrap()
}

fn http_filters(listener: &Value) -> Vec<&str> {
    let filters = listener["filterChains"][0]["filters"][0]["typedConfig"]["httpFilters"].as_array().unwrap();
    filters.iter().map(|filter| filter["name"].as_str().unwrap()).collect()
}

fn network_filters(listener: &Value) -> Vec<Vec<&str>> {
    let names = |chain: &Value| -> usize { chain["filters"].as_array().map_or(0, Vec::len) };
    let chains = listener["filterChains"].as_array().unwrap();
    chains
        .iter()
        .map(|chain| (0..names(chain)).map(|n| chain["filters"][n]["name"].as_str().unwrap()).collect())
        .collect()
}

fn hosts(listener: &Value) -> &Value {
    &listener["filterChains"][0]["filters"][0]["typedConfig"]["routeConfig"]["virtualHosts"]
}

#[test]
fn clusters_are_merged_patched_and_removed() {
    let merged = on_cluster("[{cluster: {operation: Patch, value: 'connectTimeout: 12s'}}]").unwrap().unwrap();
    assert_eq!(merged, json!({ "name": "backend", "connectTimeout": "12s", "type": "STATIC" }));
    let patch = "[{cluster: {operation: Patch, match: {name: backend}, jsonPatches: [
        {op: replace, path: /connectTimeout, value: 1s}, {op: add, path: /max_requests_per_connection, value: 3}]}}]";
    assert_eq!(
        on_cluster(patch).unwrap().unwrap(),
        json!({ "name": "backend", "connectTimeout": "1s", "maxRequestsPerConnection": 3, "type": "STATIC" })
    );
    assert_eq!(on_cluster("[{cluster: {operation: Remove, match: {origin: outbound}}}]"), Ok(None));
}

#[test]
fn match_must_be_true_in_full() {
    for matching in ["{name: other}", "{origin: inbound}", "{origin: inbound, name: backend}"] {
        let patch = format!("[{{cluster: {{operation: Remove, match: {matching}}}}}]");
        assert!(on_cluster(&patch).unwrap().is_some(), "{matching}");
    }
    for (tags, removed) in [
        ("{kuma.io/service: backend}", true),
        ("{kuma.io/service: '*'}", true),
        ("{kuma.io/service: other}", false),
        ("{kuma.io/service: backend, version: '*'}", false),
    ] {
        let patch = format!("[{{listener: {{operation: Remove, match: {{tags: {tags}}}}}}}]");
        assert_eq!(on_listener(&patch).unwrap().is_none(), removed, "{tags}");
    }
}

#[test]
fn later_modifications_see_the_result_of_earlier_ones() {
    let patch = "[
        {cluster: {operation: Patch, value: 'connectTimeout: 12s'}},
        {cluster: {operation: Patch, jsonPatches: [{op: move, from: /connectTimeout, path: /dnsRefreshRate}]}}]";
    let expected = json!({ "name": "backend", "dnsRefreshRate": "12s", "type": "STATIC" });
    assert_eq!(on_cluster(patch).unwrap().unwrap(), expected);
}

#[test]
fn added_resource_replaces_one_with_its_name() {
    let patch = "[{cluster: {operation: Add, value: 'name: backend'}}]";
    assert_eq!(on_cluster(patch), Ok(None));
    assert_eq!(patches(patch).steps()[0].added().unwrap().name(), "backend");
    assert!(on_cluster("[{cluster: {operation: Add, value: 'name: other'}}]").unwrap().is_some());
    assert!(on_listener("[{listener: {operation: Add, value: 'name: other'}}]").unwrap().is_some());
}

#[test]
fn listeners_are_merged_patched_and_removed() {
    let merged = changed("[{listener: {operation: Patch, value: 'perConnectionBufferLimitBytes: 7'}}]");
    assert_eq!(merged["perConnectionBufferLimitBytes"], 7);
    let patched = changed("[{listener: {operation: Patch, jsonPatches: [{op: remove, path: /filterChains/1}]}}]");
    assert_eq!(network_filters(&patched), [["hcm"]]);
    assert_eq!(on_listener("[{listener: {operation: Remove, match: {origin: inbound}}}]"), Ok(None));
    assert!(on_listener("[{listener: {operation: Remove, match: {name: other}}}]").unwrap().is_some());
}

#[test]
fn network_filters_are_added_in_place() {
    let add = |operation: &str, name: &str| {
        let matching = if name.is_empty() { String::new() } else { format!("match: {{name: {name}}}, ") };
        changed(&format!("[{{networkFilter: {{operation: {operation}, {matching}value: 'name: new'}}}}]"))
    };
    assert_eq!(network_filters(&add("AddFirst", "")), [["new", "hcm"], ["new", "tcp"]]);
    assert_eq!(network_filters(&add("AddLast", "")), [["hcm", "new"], ["tcp", "new"]]);
    assert_eq!(network_filters(&add("AddBefore", "tcp")), [vec!["hcm"], vec!["new", "tcp"]]);
    assert_eq!(network_filters(&add("AddAfter", "hcm")), [vec!["hcm", "new"], vec!["tcp"]]);
    for operation in ["AddBefore", "AddAfter"] {
        assert_eq!(add(operation, "missing"), listener());
    }
}

#[test]
fn network_filters_are_removed_and_patched() {
    let removed = changed("[{networkFilter: {operation: Remove, match: {name: tcp}}}]");
    assert_eq!(network_filters(&removed), [vec!["hcm"], vec![]]);
    let elsewhere = changed("[{networkFilter: {operation: Remove, match: {name: tcp, listenerName: other}}}]");
    assert_eq!(elsewhere, listener());
    let config = |listener: &Value| listener["filterChains"][1]["filters"][0].clone();
    let merged = changed(&format!(
        "[{{networkFilter: {{operation: Patch, match: {{name: tcp}}, value: '{{\"name\": \"x\", \"typedConfig\": \
         {{\"@type\": \"{TCP}\", \"idleTimeout\": \"9s\"}}}}'}}}}]"
    ));
    let expected = |idle: &str| json!({ "name": "tcp", "typedConfig": { "@type": TCP, "statPrefix": "tcp", "cluster": "backend", "idleTimeout": idle } });
    assert_eq!(config(&merged), expected("9s"));
    let patched = changed(
        "[{networkFilter: {operation: Patch, match: {name: tcp}, jsonPatches: [{op: replace, path: /idleTimeout, value: 8s}]}}]",
    );
    assert_eq!(config(&patched), expected("8s"));
}

#[test]
fn http_filters_are_added_in_place() {
    let add = |operation: &str, name: &str| {
        let matching = if name.is_empty() { String::new() } else { format!("match: {{name: {name}}}, ") };
        changed(&format!("[{{httpFilter: {{operation: {operation}, {matching}value: 'name: new'}}}}]"))
    };
    let router = "envoy.filters.http.router";
    assert_eq!(http_filters(&add("AddFirst", "")), ["new", "first", router]);
    assert_eq!(http_filters(&add("AddLast", "")), ["first", router, "new"]);
    assert_eq!(http_filters(&add("AddBefore", router)), ["first", "new", router]);
    assert_eq!(http_filters(&add("AddAfter", "first")), ["first", "new", router]);
    for operation in ["AddBefore", "AddAfter"] {
        assert_eq!(add(operation, "missing"), listener());
    }
}

#[test]
fn http_filters_are_removed_and_patched() {
    let removed = changed("[{httpFilter: {operation: Remove, match: {name: first}}}]");
    assert_eq!(http_filters(&removed), ["envoy.filters.http.router"]);
    let tagged = changed("[{httpFilter: {operation: Remove, match: {name: first, listenerTags: {a: b}}}}]");
    assert_eq!(tagged, listener());
    let config = |listener: &Value| listener["filterChains"][0]["filters"][0]["typedConfig"]["httpFilters"][1].clone();
    let name = "envoy.filters.http.router";
    let merged = changed(&format!(
        "[{{httpFilter: {{operation: Patch, match: {{name: {name}}}, value: '{{\"typedConfig\": {{\"@type\": \"{ROUTER}\", \
         \"dynamicStats\": false}}}}'}}}}]"
    ));
    let expected = json!({ "name": name, "typedConfig": { "@type": ROUTER, "dynamicStats": false } });
    assert_eq!(config(&merged), expected);
    let patched = changed(
        "[{httpFilter: {operation: Patch, match: {name: envoy.filters.http.router}, jsonPatches: [
            {op: add, path: /dynamicStats, value: false}]}}]",
    );
    assert_eq!(config(&patched), expected);
}

#[test]
fn virtual_hosts_are_added_removed_and_patched() {
    let added = changed(
        "[{virtualHost: {operation: Add, match: {routeConfigurationName: routes}, value: '{name: x, domains: [x]}'}}]",
    );
    let backend = json!({ "name": "backend", "domains": ["*"] });
    assert_eq!(*hosts(&added), json!([backend, { "name": "x", "domains": ["x"] }]));
    let removed = changed("[{virtualHost: {operation: Remove, match: {name: backend}}}]");
    assert_eq!(*hosts(&removed), Value::Null);
    let patched = changed("[{virtualHost: {operation: Patch, match: {origin: inbound}, value: 'domains: [x]'}}]");
    assert_eq!(*hosts(&patched), json!([{ "name": "backend", "domains": ["*", "x"] }]));
    let patched = changed(
        "[{virtualHost: {operation: Patch, match: {name: backend}, jsonPatches: [{op: replace, path: /domains/0, value: y}]}}]",
    );
    assert_eq!(*hosts(&patched), json!([{ "name": "backend", "domains": ["y"] }]));
    for matching in ["{routeConfigurationName: other}", "{name: other}", "{origin: outbound}"] {
        let patch = format!("[{{virtualHost: {{operation: Remove, match: {matching}}}}}]");
        assert_eq!(changed(&patch), listener(), "{matching}");
    }
}

#[test]
fn errors_name_the_policy_and_the_operation() {
    for (patch, expected) in [
        (
            "[{cluster: {operation: Remove, match: {name: other}}}, {cluster: {operation: Patch, jsonPatches: [{op: remove, path: /x}]}}]",
            "[1].cluster: path \"/x\" does not exist",
        ),
        (
            "[{cluster: {operation: Patch, jsonPatches: [{op: add, path: /x, value: 1}]}}]",
            "[0].cluster: the JSON is not a valid envoy.config.cluster.v3.Cluster: unrecognized field name 'x'",
        ),
        (
            "[{cluster: {operation: Patch, value: 'name: x'}}]",
            "[0].cluster: changes the name to \"x\"; Add a resource instead",
        ),
    ] {
        let error = on_cluster(patch).unwrap_err();
        assert_eq!(error, format!("MeshProxyPatch \"a\": spec.default.appendModifications{expected}"));
        assert!(is_fault_of(&error, "a") && !is_fault_of(&error, "b"));
    }
    let other = format!(
        "[{{networkFilter: {{operation: Patch, match: {{name: tcp}}, value: '{{\"typedConfig\": {{\"@type\": \"{ROUTER}\"}}}}'}}}}]"
    );
    let error = on_listener(&other).unwrap_err();
    assert!(error.contains("[0].networkFilter: a envoy.extensions.filters.http.router.v3.Router cannot"), "{error}");
}

#[test]
fn equal_lists_are_equal_and_name_the_remover_of_a_cluster() {
    let one = patches("[{cluster: {operation: Remove}}, {cluster: {operation: Remove, match: {name: x}}}]");
    assert_eq!(one, patches("[{cluster: {operation: Remove}}, {cluster: {operation: Remove, match: {name: x}}}]"));
    assert_ne!(one, patches("[{cluster: {operation: Remove}}]"));
    assert!(one.remover("x").unwrap().ends_with("[1].cluster"));
    assert!(one.remover("y").unwrap().ends_with("[0].cluster"));
    assert_eq!(patches("[{listener: {operation: Remove}}]").remover("y"), None);
}

//! Random policies about destinations that are resources, and of kinds that the rules of `agreement` do not predict.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::extras::{GROUPS, OUTSIDE, TEAMS};
use super::policies::{Written, matches, targets};
use super::{MAIN_PORT, SERVICES, VERSIONS};

pub(super) fn written() -> impl Strategy<Value = Written> {
    prop_oneof![
        2 => outbound(objects(), timeout()).prop_map(|spec| ("MeshTimeout", spec)),
        2 => outbound(objects(), retry()).prop_map(|spec| ("MeshRetry", spec)),
        2 => outbound(objects(), circuit_breaker()).prop_map(|spec| ("MeshCircuitBreaker", spec)),
        1 => inbound(circuit_breaker()).prop_map(|spec| ("MeshCircuitBreaker", spec)),
        2 => outbound(inside(), balancing()).prop_map(|spec| ("MeshLoadBalancingStrategy", spec)),
        3 => http_route().prop_map(|spec| ("MeshHTTPRoute", spec)),
        2 => tcp_route().prop_map(|spec| ("MeshTCPRoute", spec)),
        2 => inbound(permission()).prop_map(|spec| ("MeshTrafficPermission", spec)),
        2 => faults().prop_map(|spec| ("MeshFaultInjection", spec)),
    ]
    .prop_map(Written::new)
}

/// Top-level `targetRef`s.
fn proxies() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => targets(),
        1 => select(TEAMS).prop_map(|team| json!({ "kind": "Dataplane", "labels": { "team": team } })),
        1 => (0..4).prop_map(|n| json!({ "kind": "Dataplane", "name": format!("proxy-{n}") })),
    ]
}

/// Destinations, some of which do not exist.
fn objects() -> impl Strategy<Value = Value> {
    let outside = select(OUTSIDE).prop_map(|name| json!({ "kind": "MeshExternalService", "name": name }));
    prop_oneof![7 => inside(), 1 => outside]
}

/// Destinations in the mesh.
fn inside() -> impl Strategy<Value = Value> {
    let section = proptest::option::of(select(&["80", "main", "second"][..]));
    let service = (select(SERVICES), section).prop_map(|(name, section)| {
        let mut target = json!({ "kind": "MeshService", "name": name });
        if let Some(section) = section {
            target["sectionName"] = json!(section);
        }
        target
    });
    prop_oneof![
        4 => service,
        2 => select(TEAMS).prop_map(|team| json!({ "kind": "MeshService", "labels": { "team": team } })),
        1 => select(GROUPS).prop_map(|name| json!({ "kind": "MeshMultiZoneService", "name": name })),
    ]
}

fn outbound(objects: impl Strategy<Value = Value>, conf: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let to = prop_oneof![1 => Just(json!({ "kind": "Mesh" })), 4 => objects];
    let item = (to, conf).prop_map(|(to, conf)| json!({ "targetRef": to, "default": conf }));
    (proxies(), vec(item, 1..3)).prop_map(|(target, to)| json!({ "targetRef": target, "to": to }))
}

fn inbound(conf: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    // `rules` select proxies in the current form alone.
    let target = prop_oneof![
        Just(json!({ "kind": "Mesh" })),
        select(TEAMS).prop_map(|team| json!({ "kind": "Dataplane", "labels": { "team": team } })),
        select(SERVICES).prop_map(|app| {
            json!({ "kind": "Dataplane", "labels": { "app": app }, "sectionName": MAIN_PORT.to_string() })
        }),
    ];
    (target, conf).prop_map(|(target, conf)| json!({ "targetRef": target, "rules": [{ "default": conf }] }))
}

fn permission() -> impl Strategy<Value = Value> {
    let caller = prop_oneof![
        2 => select(SERVICES).prop_map(|service| {
            json!({ "spiffeID": { "type": "Exact", "value": format!("spiffe://default/{service}") } })
        }),
        1 => Just(json!({})),
    ];
    (select(&["allow", "deny"][..]), vec(caller, 1..3)).prop_map(|(list, callers)| json!({ list: callers }))
}

/// For callers by their identity, or by their tags.
fn faults() -> impl Strategy<Value = Value> {
    let aborts = vec(select(&[500, 503][..]), 0..2).prop_map(|statuses| {
        let aborts = statuses.iter().map(|status| json!({ "abort": { "httpStatus": status, "percentage": 50 } }));
        json!({ "http": aborts.collect::<Vec<_>>() })
    });
    let conf = || prop_oneof![4 => aborts.clone(), 1 => Just(json!({}))];
    let tags = prop_oneof![
        Just(json!({ "kind": "Mesh" })),
        select(SERVICES).prop_map(|name| json!({ "kind": "MeshService", "name": name })),
        select(VERSIONS).prop_map(|version| json!({ "kind": "MeshSubset", "tags": { "version": version } })),
    ];
    let matches = select(SERVICES).prop_map(
        |service| json!([{ "spiffeID": { "type": "Exact", "value": format!("spiffe://default/{service}") } }]),
    );
    let matches = prop_oneof![Just(json!([])), matches];
    let from = vec((tags, conf()).prop_map(|(tags, conf)| json!({ "targetRef": tags, "default": conf })), 1..4);
    let rules = vec((matches, conf()).prop_map(|(one, conf)| json!({ "matches": one, "default": conf })), 1..3);
    let list = prop_oneof![from.prop_map(|items| ("from", items)), rules.prop_map(|items| ("rules", items))];
    (proxies(), list).prop_map(|(mut target, (name, items))| {
        if target["kind"] == "Mesh" || target["kind"] == "MeshSubset" {
            target["proxyTypes"] = json!(["Sidecar"]);
        }
        json!({ "targetRef": target, name: items })
    })
}

fn timeout() -> impl Strategy<Value = Value> {
    let seconds = || (1_u32..9).prop_map(|seconds| json!(format!("{seconds}s")));
    prop_oneof![
        seconds().prop_map(|time| json!({ "connectionTimeout": time })),
        seconds().prop_map(|time| json!({ "idleTimeout": time })),
        (seconds(), seconds())
            .prop_map(|(one, other)| json!({ "http": { "requestTimeout": one, "streamIdleTimeout": other } })),
    ]
}

fn retry() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0_u32..4).prop_map(|count| json!({ "http": { "numRetries": count, "perTryTimeout": "2s" } })),
        Just(json!({ "http": { "retryOn": ["5xx", "429"], "backOff": { "baseInterval": "20ms" } } })),
        (1_u32..4).prop_map(|count| json!({ "grpc": { "numRetries": count, "retryOn": ["Unavailable"] } })),
        (1_u32..4).prop_map(|count| json!({ "tcp": { "maxConnectAttempt": count } })),
    ]
}

fn circuit_breaker() -> impl Strategy<Value = Value> {
    let limits = (1_u32..9, 1_u32..9).prop_map(|(connections, requests)| {
        json!({ "connectionLimits": { "maxConnections": connections, "maxRequests": requests } })
    });
    let detection = (1_u32..9).prop_map(|count| {
        let detectors = json!({ "totalFailures": { "consecutive": count } });
        json!({ "outlierDetection": { "interval": "5s", "baseEjectionTime": "30s", "detectors": detectors } })
    });
    prop_oneof![limits, detection]
}

fn balancing() -> impl Strategy<Value = Value> {
    prop_oneof![
        select(&["RoundRobin", "Random"][..]).prop_map(|kind| json!({ "loadBalancer": { "type": kind } })),
        Just(json!({ "loadBalancer": { "type": "LeastRequest", "leastRequest": { "choiceCount": 3 } } })),
        select(&["RingHash", "Maglev"][..]).prop_map(|kind| json!({ "loadBalancer": { "type": kind } })),
        any::<bool>().prop_map(|disabled| json!({ "localityAwareness": { "disabled": disabled } })),
        Just(json!({ "localityAwareness": { "localZone": { "affinityTags": [{ "key": "version" }] } } })),
    ]
}

fn backends() -> impl Strategy<Value = Value> {
    let port = select(&[80_u32, 81][..]);
    let service = (select(SERVICES), port, 0_u32..4).prop_map(
        |(name, port, weight)| json!({ "kind": "MeshService", "name": name, "port": port, "weight": weight }),
    );
    let group = (select(GROUPS), 1_u32..4).prop_map(
        |(name, weight)| json!({ "kind": "MeshMultiZoneService", "name": name, "port": 80, "weight": weight }),
    );
    let outside = (select(OUTSIDE), 1_u32..4).prop_map(
        |(name, weight)| json!({ "kind": "MeshExternalService", "name": name, "port": 80, "weight": weight }),
    );
    prop_oneof![4 => service, 1 => group, 1 => outside]
}

fn http_route() -> impl Strategy<Value = Value> {
    let conf = proptest::option::of(vec(backends(), 1..3));
    let conf = conf.prop_map(|refs| refs.map_or_else(|| json!({}), |refs| json!({ "backendRefs": refs })));
    let rule = (vec(matches(), 1..3), conf).prop_map(|(matches, conf)| json!({ "matches": matches, "default": conf }));
    (proxies(), objects(), vec(rule, 1..3)).prop_map(
        |(target, object, rules)| json!({ "targetRef": target, "to": [{ "targetRef": object, "rules": rules }] }),
    )
}

fn tcp_route() -> impl Strategy<Value = Value> {
    (proxies(), objects(), vec(backends(), 1..3)).prop_map(|(target, object, refs)| {
        let rules = json!([{ "default": { "backendRefs": refs } }]);
        json!({ "targetRef": target, "to": [{ "targetRef": object, "rules": rules }] })
    })
}

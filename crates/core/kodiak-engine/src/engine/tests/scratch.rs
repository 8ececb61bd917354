//! Property: after any changes, snapshots are the same as those of an engine that starts from scratch, but for resources
//! that take part in a fault.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_model::kinds::dataplane::BackendKind;
use kodiak_reachability::Mode;
use kodiak_rollout::{AppliedIdentity, AppliedProvider, DesiredIdentities, Selector};
use kodiak_xds::node::{NodeMetadata, Redirect, TransparentProxy, features};
use kodiak_xds_stream::{Snapshot, TypeUrl};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{World, inbound, key};
use crate::{EngineChange, fallback::permissions, patched};

#[derive(Debug, Clone)]
enum Edit {
    Mesh { backends: Vec<&'static str>, enabled: Option<usize>, permissive: bool, mode: &'static str },
    Object { kind: BackendKind, name: &'static str, stored: Option<Value> },
    OtlpBackend { name: &'static str, stored: Option<(i64, Value, Value)> },
    Identities(Vec<&'static str>),
    Rollout,
    Vips,
    Dataplane { name: &'static str, spec: Value },
    RemoveDataplane(&'static str),
    Policy { kind: &'static str, name: &'static str, spec: Option<Value> },
    Connect { name: &'static str, reuse_port: bool, redirected: bool, dns: bool },
    Disconnect(&'static str),
    Reachability(Option<Mode>),
    Hours(i64),
    Tick,
}

const MTLS: &str = r#"{ "mtls": { "enabledBackend": "ca-1", "backends": [{ "name": "ca-1", "type": "builtin" }] } }"#;
const PROXIES: [&str; 5] = ["p-1", "p-2", "p-3", "p-4", "p-5"];
const MODES: [&str; 4] = ["Disabled", "Everywhere", "ReachableBackends", "Exclusive"];
const SERVICES: [&str; 4] = ["a", "b", "c_ns_svc_80", "d"];

/// The first issues to all proxies, the second to those of one zone, the third has no provider.
const IDENTITIES: [&str; 3] = ["all", "east", "announced"];

fn desired(names: &[&str]) -> DesiredIdentities {
    let mut desired = DesiredIdentities::default();
    for name in names {
        let labels = (*name == "east").then(|| ("kuma.io/zone".to_owned(), "east".to_owned()));
        let provider = AppliedProvider::Bundled { ca: (*name).into(), seconds: 60 };
        desired.identities.push(Arc::new(AppliedIdentity {
            name: (*name).into(),
            kri: format!("kri_mid_default___{name}_").into(),
            selector: Selector(labels.into_iter().collect()),
            trust_domain: format!("{name}.local").into(),
            path: Some("/proxy".into()),
            provider: (*name != "announced").then_some(provider),
        }));
        desired.trust(format!("{name}.local").into(), [format!("root of {name}\n").into()]);
    }
    desired
}

fn service() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&SERVICES[..])
}

fn an_inbound() -> impl Strategy<Value = Value> {
    let protocol = prop::sample::select(&["tcp", "http", "http2", "grpc"][..]);
    let state = prop::sample::select(&["Ready", "Ready", "NotReady", "Ignored"][..]);
    (1..4u32, service(), protocol, state, prop::bool::ANY).prop_map(|(port, service, protocol, state, tagged)| {
        let mut inbound = inbound(8000 + port, service, protocol);
        inbound["state"] = json!(state);
        if tagged {
            inbound["tags"]["version"] = json!("v1");
        }
        inbound
    })
}

/// A reference of an outbound of a Dataplane, or of a backend of a route.
fn a_reference() -> impl Strategy<Value = Value> {
    let by_name = service().prop_map(|name| json!({ "kind": "MeshService", "name": name }));
    let by_labels = prop::sample::select(&["x", "y"][..]);
    let by_labels = by_labels.prop_map(|team| json!({ "kind": "MeshService", "labels": { "team": team } }));
    let external = Just(json!({ "kind": "MeshExternalService", "name": "a" }));
    let multi_zone = Just(json!({ "kind": "MeshMultiZoneService", "name": "a" }));
    let port = prop::option::of(8001..8004u32);
    (prop_oneof![3 => by_name, 2 => by_labels, 1 => external, 1 => multi_zone], port).prop_map(
        |(mut reference, port)| {
            if let Some(port) = port {
                reference["port"] = json!(port);
            }
            reference
        },
    )
}

fn some_ports() -> impl Strategy<Value = Vec<Value>> {
    let protocol = prop::sample::select(&["tcp", "http"][..]);
    let name = prop::option::of(Just("main"));
    prop::collection::vec((8001..8004u32, protocol, name), 1..3).prop_map(|ports| {
        let port = |(port, protocol, name): (u32, &str, Option<&str>)| {
            json!({ "port": port, "targetPort": port, "appProtocol": protocol, "name": name })
        };
        ports.into_iter().map(port).collect()
    })
}

fn an_object() -> impl Strategy<Value = (BackendKind, &'static str, Value)> {
    let labels = (prop::option::of(prop::sample::select(&["x", "y"][..])), any::<bool>());
    let labels = labels.prop_map(|(team, zoned)| {
        let mut labels = json!({});
        if let Some(team) = team {
            labels["team"] = json!(team);
        }
        if zoned {
            labels["kuma.io/zone"] = json!("default");
        }
        labels
    });
    let selector = prop_oneof![
        3 => service().prop_map(|name| json!({ "dataplaneTags": { "kuma.io/service": name } })),
        1 => prop::sample::select(&PROXIES[..]).prop_map(|name| json!({ "dataplaneRef": { "name": name } })),
        1 => Just(json!({ "dataplaneLabels": {} })),
    ];
    let services = (selector, some_ports(), any::<bool>()).prop_map(|(selector, ports, available)| {
        let state = if available { "Available" } else { "Unavailable" };
        (BackendKind::MeshService, json!({ "selector": selector, "ports": ports, "state": state }))
    });
    let team = prop::sample::select(&["x", "y"][..]);
    let multi_zone = (team, some_ports()).prop_map(|(team, ports)| {
        let selector = json!({ "meshService": { "matchLabels": { "team": team } } });
        (BackendKind::MeshMultiZoneService, json!({ "selector": selector, "ports": ports }))
    });
    let external = (8001..8004u32, any::<bool>(), any::<bool>()).prop_map(|(port, dns, tls)| {
        let address = if dns { "example.org" } else { "203.0.113.1" };
        let tls = json!({ "enabled": tls, "verification": { "caCert": { "inlineString": "pem" } } });
        let matching = json!({ "type": "HostnameGenerator", "port": port, "protocol": "http" });
        let endpoints = json!([{ "address": address, "port": 443 }]);
        (BackendKind::MeshExternalService, json!({ "match": matching, "endpoints": endpoints, "tls": tls }))
    });
    let spec = prop_oneof![4 => services, 1 => multi_zone, 1 => external];
    (spec, service(), labels, any::<bool>(), 0..3i64).prop_map(|((kind, spec), name, labels, has_vip, created)| {
        // Virtual addresses are unique.
        let last = SERVICES.iter().position(|each| *each == name).unwrap();
        let range = match kind {
            BackendKind::MeshService => 241,
            BackendKind::MeshExternalService => 242,
            BackendKind::MeshMultiZoneService => 243,
        };
        let ip = has_vip.then(|| json!({ "ip": format!("{range}.0.0.{last}") }));
        let hostname = json!([{ "hostname": format!("{last}.mesh.local") }]);
        let status = match kind {
            BackendKind::MeshExternalService => {
                json!({ "vip": ip.unwrap_or_else(|| json!({})), "addresses": hostname })
            }
            _ => json!({ "vips": ip.into_iter().collect::<Vec<_>>(), "addresses": hostname }),
        };
        (kind, name, json!({ "labels": labels, "created": created, "spec": spec, "status": status }))
    })
}

fn a_dataplane() -> impl Strategy<Value = Value> {
    let inbounds = prop::collection::vec(an_inbound(), 0..3);
    let to = (service(), prop::bool::ANY, prop::option::weighted(0.3, a_reference()));
    let outbounds = prop::collection::btree_map(10001..10004u32, to, 0..3);
    let reachable = prop::option::of(prop::collection::vec(service(), 1..3));
    let backends = prop::option::of(prop::collection::vec(a_reference(), 0..3));
    let redirected = prop::bool::ANY;
    let direct = prop::collection::vec(prop_oneof![4 => service(), 1 => Just("*")], 0..2);
    (1..6u8, inbounds, outbounds, redirected, reachable, backends, direct).prop_map(
        |(address, mut inbounds, outbounds, redirected, reachable, backends, direct)| {
            // Ports of inbounds are unique.
            inbounds.sort_by_key(|inbound| inbound["port"].as_u64());
            inbounds.dedup_by_key(|inbound| inbound["port"].as_u64());
            let outbound = |(port, (service, subset, reference)): (u32, (&str, bool, Option<Value>))| {
                if let Some(reference) = reference {
                    return json!({ "port": port, "backendRef": reference });
                }
                let mut tags = json!({ "kuma.io/service": service });
                if subset {
                    tags["version"] = json!("v1");
                }
                json!({ "port": port, "tags": tags })
            };
            let mut networking = json!({ "address": format!("10.0.0.{address}"), "inbound": inbounds });
            if redirected {
                networking["transparentProxying"] = json!({
                    "redirectPortInbound": 15006, "redirectPortOutbound": 15001,
                    "reachableServices": reachable.unwrap_or_default(), "directAccessServices": direct,
                });
                if let Some(refs) = backends {
                    networking["transparentProxying"]["reachableBackends"] = json!({ "refs": refs });
                }
            } else {
                networking["outbound"] = outbounds.into_iter().map(outbound).collect();
            }
            json!({ "networking": networking })
        },
    )
}

const KINDS: [&str; 11] = [
    "MeshAccessLog",
    "MeshProxyPatch",
    "MeshTrafficPermission",
    "MeshTimeout",
    "MeshRetry",
    "MeshCircuitBreaker",
    "MeshLoadBalancingStrategy",
    "MeshHTTPRoute",
    "MeshTCPRoute",
    "MeshTLS",
    "MeshTrace",
];

fn a_target() -> impl Strategy<Value = Value> + Clone {
    prop_oneof![
        Just(json!({ "kind": "Mesh" })),
        service().prop_map(|name| json!({ "kind": "MeshService", "name": name })),
        Just(json!({ "kind": "MeshSubset", "tags": { "version": "v1" } })),
        prop::sample::select(&PROXIES[..]).prop_map(|name| json!({ "kind": "Dataplane", "name": name })),
    ]
}

fn a_destination() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(json!({ "kind": "Mesh" })),
        3 => service().prop_map(|name| json!({ "kind": "MeshService", "name": name })),
        1 => service().prop_map(|name| json!({ "kind": "MeshService", "name": name, "sectionName": "main" })),
        1 => Just(json!({ "kind": "MeshService", "labels": { "team": "x" } })),
        1 => Just(json!({ "kind": "MeshExternalService", "name": "a" })),
        1 => Just(json!({ "kind": "MeshHTTPRoute", "name": "one" })),
    ]
}

fn logs() -> impl Strategy<Value = (&'static str, Value)> + Clone {
    let backends = [
        json!([]),
        json!([{ "type": "File", "file": { "path": "/dev/stdout" } }]),
        json!([{ "type": "File", "file": { "path": "/l", "format": { "type": "Plain", "plain": "%KUMA_ZONE%" } } }]),
        json!([{ "type": "Tcp", "tcp": { "address": "127.0.0.1:5000" } }]),
        json!([{ "type": "OpenTelemetry", "openTelemetry": { "endpoint": "otel" } }]),
    ];
    prop::sample::select(backends.to_vec()).prop_map(|backends| ("MeshAccessLog", json!({ "backends": backends })))
}

fn a_policy() -> impl Strategy<Value = (&'static str, Value)> {
    let seconds = 1..4u32;
    let conf = prop_oneof![
        seconds.clone().prop_map(|n| ("MeshTimeout", json!({ "connectionTimeout": format!("{n}s") }))),
        seconds.clone().prop_map(|n| ("MeshTimeout", json!({ "http": { "requestTimeout": format!("{n}s") } }))),
        seconds.clone().prop_map(|n| ("MeshRetry", json!({ "http": { "numRetries": n } }))),
        seconds.clone().prop_map(|n| ("MeshCircuitBreaker", json!({ "connectionLimits": { "maxRequests": n } }))),
        Just((
            "MeshLoadBalancingStrategy",
            json!({ "localityAwareness": { "localZone": { "affinityTags": [{ "key": "version" }] } } })
        )),
        Just(("MeshLoadBalancingStrategy", json!({ "loadBalancer": { "type": "Random" } }))),
        logs(),
    ];
    let to = (a_target(), a_destination(), conf).prop_map(|(top, to, (kind, conf))| {
        (kind, json!({ "targetRef": top, "to": [{ "targetRef": to, "default": conf }] }))
    });
    let logged = (a_target(), logs())
        .prop_map(|(top, (kind, conf))| (kind, json!({ "targetRef": top, "rules": [{ "default": conf }] })));
    let from = (a_target(), seconds).prop_map(|(top, n)| {
        let conf = json!({ "http": { "requestTimeout": format!("{n}s") } });
        ("MeshTimeout", json!({ "targetRef": top, "rules": [{ "default": conf }] }))
    });
    let route = (a_target(), service(), a_backend(), any::<bool>(), any::<bool>());
    let route = route.prop_map(|(top, name, backend, http, section)| {
        let conf = json!({ "backendRefs": [backend] });
        let path = json!([{ "path": { "type": "PathPrefix", "value": "/x" } }]);
        let (kind, rule) = if http {
            ("MeshHTTPRoute", json!({ "matches": path, "default": conf }))
        } else {
            ("MeshTCPRoute", json!({ "default": conf }))
        };
        let section = section.then_some("main");
        let to =
            json!({ "targetRef": { "kind": "MeshService", "name": name, "sectionName": section }, "rules": [rule] });
        (kind, json!({ "targetRef": top, "to": [to] }))
    });
    let tls = prop_oneof![
        prop::sample::select(&["Strict", "Permissive"][..]).prop_map(|mode| json!({ "mode": mode })),
        prop::sample::select(&["TLS12", "TLS13"][..]).prop_map(|min| json!({ "tlsVersion": { "min": min } })),
    ];
    let tls = (a_target(), tls).prop_map(|(top, conf)| json!({ "targetRef": top, "rules": [{ "default": conf }] }));
    prop_oneof![
        2 => a_permission().prop_map(|spec| ("MeshTrafficPermission", spec)),
        2 => tls.prop_map(|spec| ("MeshTLS", spec)),
        3 => a_trace().prop_map(|spec| ("MeshTrace", spec)),
        4 => to,
        1 => from,
        1 => logged,
        3 => route,
        2 => a_patch().prop_map(|spec| ("MeshProxyPatch", spec)),
    ]
}

/// Different collectors behind the same cluster name, different tracers, and none.
fn a_trace() -> impl Strategy<Value = Value> {
    let collector = |endpoint: &str| json!([{ "type": "OpenTelemetry", "openTelemetry": { "endpoint": endpoint } }]);
    let backends = prop_oneof![
        Just(collector("collector:4317")),
        Just(collector("10.0.9.9:4318")),
        Just(json!([{ "type": "Datadog", "datadog": { "url": "http://agent:8126", "splitService": true } }])),
        Just(json!([{ "type": "OpenTelemetry", "openTelemetry": { "backendRef": { "name": "one" } } }])),
        Just(json!([{ "type": "OpenTelemetry", "openTelemetry": { "backendRef": { "labels": { "team": "x" } } } }])),
        Just(json!([])),
    ];
    (a_target(), backends).prop_map(|(top, backends)| json!({ "targetRef": top, "default": { "backends": backends } }))
}

fn an_otlp_backend() -> impl Strategy<Value = Edit> {
    let spec = prop_oneof![
        Just(json!({ "endpoint": { "address": "first" } })),
        Just(json!({ "endpoint": { "address": "second", "port": 4318 }, "protocol": "http" })),
    ];
    let labels = prop_oneof![Just(json!({ "team": "x" })), Just(json!({}))];
    let stored = prop::option::weighted(0.8, (0..3i64, labels, spec));
    let name = prop::sample::select(&["one", "two"][..]);
    (name, stored).prop_map(|(name, stored)| Edit::OtlpBackend { name, stored })
}

/// Some remove clusters that listeners reference, or fail: then the last good configuration stays.
fn a_patch() -> impl Strategy<Value = Value> {
    let filter = json!({ "name": "f", "typedConfig": { "@type": "type.googleapis.com/google.protobuf.Struct" } });
    let filter = filter.to_string();
    let origin = || prop::sample::select(&["inbound", "outbound", "transparent", "direct-access"][..]);
    let modification = prop_oneof![
        3 => (1..4u32, prop::option::of(service()), prop::option::of(origin())).prop_map(|(n, name, origin)| {
            let matching = json!({ "name": name, "origin": origin });
            json!({ "cluster": { "operation": "Patch", "match": matching, "value": format!("connectTimeout: {n}s") } })
        }),
        1 => service().prop_map(|name| json!({ "cluster": { "operation": "Remove", "match": { "name": name } } })),
        1 => service().prop_map(|name| json!({ "cluster": { "operation": "Add", "value": format!("name: {name}") } })),
        1 => Just(json!({ "cluster": { "operation": "Patch", "jsonPatches": [{ "op": "remove", "path": "/altStatName" }] } })),
        1 => origin().prop_map(|origin| json!({ "listener": { "operation": "Remove", "match": { "origin": origin } } })),
        2 => (origin(), any::<bool>()).prop_map(move |(origin, http)| {
            let kind = if http { "httpFilter" } else { "networkFilter" };
            json!({ kind: { "operation": "AddFirst", "match": { "origin": origin }, "value": filter } })
        }),
        1 => Just(json!({ "virtualHost": { "operation": "Patch", "match": {}, "value": "includeRequestAttemptCount: true" } })),
        1 => origin().prop_map(|origin| json!({ "httpFilter": {
            "operation": "Remove", "match": { "origin": origin, "name": "envoy.filters.http.router" },
        } })),
        1 => (origin(), 10001..10003u32).prop_map(|(origin, port)| json!({ "listener": {
            "operation": "Patch", "match": { "origin": origin },
            "value": format!("address: {{ socketAddress: {{ address: 127.0.0.1, portValue: {port} }} }}"),
        } })),
        1 => (1..4u32).prop_map(|port| json!({ "cluster": {
            "operation": "Remove", "match": { "name": format!("localhost:{}", 8000 + port) },
        } })),
    ];
    (a_target(), prop::collection::vec(modification, 1..4)).prop_map(
        |(target, modifications)| json!({ "targetRef": target, "default": { "appendModifications": modifications } }),
    )
}

/// Includes services that do not exist, and subsets.
fn a_backend() -> impl Strategy<Value = Value> {
    prop_oneof![
        service().prop_map(|name| json!({ "kind": "MeshService", "name": name, "weight": 1 })),
        Just(json!({ "kind": "MeshService", "name": "nobody", "weight": 1 })),
        a_reference(),
        service().prop_map(
            |name| json!({ "kind": "MeshServiceSubset", "name": name, "tags": { "version": "v1" }, "weight": 1 })
        ),
    ]
}

fn a_permission() -> impl Strategy<Value = Value> {
    let target = prop_oneof![
        Just(json!({ "kind": "Mesh" })),
        service().prop_map(|name| json!({ "kind": "MeshService", "name": name })),
        Just(json!({ "kind": "MeshSubset", "tags": { "version": "v1" } })),
    ];
    let action = prop::sample::select(&["Allow", "Deny", "AllowWithShadowDeny"][..]);
    (target.clone(), target, action).prop_map(|(top, from, action)| {
        json!({ "targetRef": top, "from": [{ "targetRef": from, "default": { "action": action } }] })
    })
}

fn an_edit() -> impl Strategy<Value = Edit> {
    let proxy = || prop::sample::select(&PROXIES[..]);
    let policy = prop::sample::select(&["one", "two"][..]);
    let backends = prop::sample::subsequence(vec!["ca-1", "ca-2"], 0..=2);
    prop_oneof![
        1 => (backends, prop::option::of(0..2usize), any::<bool>(), prop::sample::select(&MODES[..])).prop_map(
            |(backends, enabled, permissive, mode)| Edit::Mesh { backends, enabled, permissive, mode }
        ),
        5 => an_object().prop_map(|(kind, name, stored)| Edit::Object { kind, name, stored: Some(stored) }),
        1 => an_object().prop_map(|(kind, name, _)| Edit::Object { kind, name, stored: None }),
        2 => an_otlp_backend(),
        2 => prop::sample::subsequence(IDENTITIES.to_vec(), 0..=3).prop_map(Edit::Identities),
        6 => Just(Edit::Rollout),
        2 => Just(Edit::Vips),
        6 => (proxy(), a_dataplane()).prop_map(|(name, spec)| Edit::Dataplane { name, spec }),
        1 => proxy().prop_map(Edit::RemoveDataplane),
        5 => (policy, prop::option::of(a_policy())).prop_flat_map(|(name, policy)| match policy {
            Some((kind, spec)) => Just(Edit::Policy { kind, name, spec: Some(spec) }).boxed(),
            None => prop::sample::select(&KINDS[..])
                .prop_map(move |kind| Edit::Policy { kind, name, spec: None })
                .boxed(),
        }),
        3 => (proxy(), any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(name, reuse_port, redirected, dns)| Edit::Connect { name, reuse_port, redirected, dns }),
        1 => proxy().prop_map(Edit::Disconnect),
        1 => prop::option::of(prop::sample::select(&[Mode::Off, Mode::Shadow, Mode::On, Mode::On][..])).prop_map(Edit::Reachability),
        1 => (1..30i64).prop_map(Edit::Hours),
        1 => Just(Edit::Tick),
    ]
}

fn make(world: &mut World, edit: Edit) {
    match edit {
        Edit::Object { kind, name, stored } => drop(world.object(kind, name, stored)),
        Edit::Mesh { backends, enabled, permissive, mode: services } => {
            let mode = if permissive { "PERMISSIVE" } else { "STRICT" };
            let backend = |name: &&str| json!({ "name": name, "type": "builtin", "mode": mode });
            let enabled = enabled.and_then(|position| backends.get(position)).copied().unwrap_or_default();
            let spec = json!({
                "mtls": { "enabledBackend": enabled, "backends": backends.iter().map(backend).collect::<Vec<_>>() },
                "networking": { "outbound": { "passthrough": permissive } },
                "meshServices": { "mode": services },
            });
            world.mesh(&spec.to_string());
        }
        Edit::OtlpBackend { name, stored } => drop(world.otlp_backend(name, stored)),
        Edit::Identities(names) => world.identities = desired(&names),
        Edit::Rollout => {
            if let Some(next) = world.next_rollout() {
                world.rollout(Some(next));
            }
        }
        Edit::Vips => drop(world.assign_vips()),
        Edit::Dataplane { name, spec } => drop(world.dataplane(name, spec.to_string())),
        Edit::RemoveDataplane(name) => {
            // The control plane closes the stream of a proxy whose Dataplane is deleted.
            world.disconnect(name);
            world.remove_dataplane(name);
        }
        Edit::Policy { kind, name, spec } => {
            world.policy(kind, name, spec.map(|spec| spec.to_string()).as_deref());
        }
        Edit::Connect { name, reuse_port, redirected, dns } => {
            // A proxy with its own DNS server, and without redirection, may bind its outbounds.
            let binds = dns && !redirected;
            let features = [
                (reuse_port, features::REUSE_PORT),
                (dns, features::EMBEDDED_DNS),
                (binds, features::BIND_OUTBOUNDS),
                (reuse_port, features::ACCESS_LOG_PIPE),
            ];
            let features = features.into_iter().filter(|(has, _)| *has).map(|(_, feature)| feature.to_owned());
            let redirect = |port| Redirect { enabled: true, port: Some(port) };
            let transparent_proxy = redirected.then(|| TransparentProxy {
                inbound: redirect(15006),
                outbound: redirect(15001),
                dns: Redirect { enabled: dns, port: Some(15053) },
                ..TransparentProxy::default()
            });
            world.connect_as(
                name,
                NodeMetadata {
                    features: features.collect(),
                    transparent_proxy,
                    workdir: Some("/tmp".to_owned()),
                    ..NodeMetadata::default()
                },
            );
        }
        Edit::Disconnect(name) => drop(world.disconnect(name)),
        Edit::Reachability(mode) => world.reachability(mode),
        Edit::Hours(hours) => {
            world.pass_hours(hours);
            world.apply(EngineChange::Tick);
        }
        Edit::Tick => drop(world.apply(EngineChange::Tick)),
    }
}

/// A configuration with faults depends on the past: on the last good versions of resources that take part in a fault.
/// Whatever these are, it can be sent, permissions are the current ones, and certificates and endpoints do not wait.
fn check_faulty(kept: &Snapshot, unmodified: &Snapshot) -> Result<(), TestCaseError> {
    let mut bound = BTreeSet::new();
    for type_url in TypeUrl::ALL {
        for encoded in kept.of(type_url).values() {
            let links = patched::read(type_url, encoded).unwrap().links;
            prop_assert!(links.faults.is_empty(), "{}: {:?}", encoded.name, links.faults);
            for (needed, name) in &links.needs {
                prop_assert!(kept.of(*needed).contains_key(name), "{} references {}", encoded.name, name);
            }
            if let Some(address) = &links.binds {
                prop_assert!(bound.insert(address.clone()), "two listeners at {}", address);
            }
        }
    }
    for (name, listener) in kept.of(TypeUrl::Listener).iter().filter(|(name, _)| name.starts_with("inbound:")) {
        let Some(current) = unmodified.of(TypeUrl::Listener).get(name) else { continue };
        let [listener, current] = [listener, current].map(|each| patched::listener(each).unwrap());
        prop_assert!(permissions::are_equal(&listener, &current), "{} has old permissions", name);
    }
    for type_url in [TypeUrl::Endpoint, TypeUrl::Secret] {
        for (name, current) in unmodified.of(type_url) {
            let known = kept.of(type_url).get(name);
            prop_assert!(known.is_none_or(|known| known == current), "{} is old", name);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn incremental_is_the_same_as_from_scratch(
        trims in any::<bool>(),
        edits in prop::collection::vec(an_edit(), 1..40),
    ) {
        let mut world = World::new(if trims { Mode::On } else { Mode::Off });
        world.mesh(if trims { MTLS } else { "{}" });
        for edit in edits {
            make(&mut world, edit);
            world.acknowledge();
            world.pass_absence();
            world.acknowledge();
            let (scratch, outcome) = world.rebuilt();
            // Faults of other resources are expected: proxies may have the same addresses.
            let mut faults = outcome.proxies.iter().flat_map(|each| &each.faults);
            prop_assert!(!faults.any(|fault| fault.contains("meshtrace")));
            let (unmodified, _) = world.rebuilt_without("MeshProxyPatch");
            for proxy in world.connected() {
                let fresh = scratch.snapshot(&key(proxy));
                let faulty = outcome.proxies.iter().any(|each| *each.key.name == **proxy && !each.faults.is_empty());
                let kept = world.engine.snapshot(&key(proxy));
                if faulty {
                    let unmodified = unmodified.snapshot(&key(proxy)).unwrap();
                    check_faulty(&fresh.unwrap(), &unmodified)?;
                    check_faulty(&kept.unwrap(), &unmodified)?;
                    continue;
                }
                prop_assert_eq!(fresh.is_some(), kept.is_some(), "{}", proxy);
                if let (Some(fresh), Some(kept)) = (fresh, kept) {
                    for type_url in TypeUrl::ALL {
                        let names = |snapshot: &Snapshot| snapshot.of(type_url).keys().cloned().collect::<Vec<_>>();
                        prop_assert_eq!(names(&fresh), names(&kept), "{}", proxy);
                        for (one, other) in fresh.of(type_url).values().zip(kept.of(type_url).values()) {
                            prop_assert_eq!(&one.delta, &other.delta);
                        }
                    }
                }
            }
        }
    }
}

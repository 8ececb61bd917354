//! Every two policies together, on one proxy: both act, filters keep their order, and a real Envoy loads the result.

use std::collections::BTreeMap;
use std::sync::Arc;

use kodiak_engine::{EngineChange, EngineSettings, offline, redacted};
use kodiak_model::{ProxyKey, yaml};
use kodiak_testkit::envoy::envoy;
use kodiak_xds_stream::{Snapshot, TypeUrl};
use serde_json::{Value, json};

use crate::cases::loaded::{bootstrap, load};
use kodiak_oracle::documents;

const MESH: &str = "default";
const PROXY: &str = "web-1";
/// A proxy that is called and calls, by HTTP and by TCP, with mutual TLS and redirected connections.
const BASE: &str = "
type: Mesh
name: default
mtls: {enabledBackend: ca, backends: [{name: ca, type: builtin}]}
---
type: Dataplane
mesh: default
name: web-1
networking:
  address: 10.0.0.1
  transparentProxying: {redirectPortInbound: 15006, redirectPortOutbound: 15001}
  inbound:
  - {port: 80, tags: {kuma.io/service: web, kuma.io/protocol: http}}
  - {port: 81, tags: {kuma.io/service: web-tcp, kuma.io/protocol: tcp}}
---
type: Dataplane
mesh: default
name: backend-1
networking:
  address: 10.0.0.2
  inbound:
  - {port: 80, tags: {kuma.io/service: backend, kuma.io/protocol: http, version: v1}}
  - {port: 81, tags: {kuma.io/service: db, kuma.io/protocol: tcp}}
";

/// A policy of each kind, that acts on as many filter chains as it can.
fn samples() -> BTreeMap<&'static str, Value> {
    let sidecars = json!({ "kind": "Mesh", "proxyTypes": ["Sidecar"] });
    let all = json!({ "kind": "Mesh" });
    let from_and_to = |conf: Value| {
        json!({
            "targetRef": all,
            "from": [{ "targetRef": all, "default": conf }],
            "to": [{ "targetRef": all, "default": conf }],
        })
    };
    let to = |conf: Value| json!({ "targetRef": all, "to": [{ "targetRef": all, "default": conf }] });
    let rules = |conf: Value| {
        let matches = json!([{ "spiffeID": { "type": "Prefix", "value": "spiffe://default" } }]);
        json!({ "targetRef": sidecars, "rules": [{ "default": conf }, { "matches": matches, "default": conf }] })
    };
    let whole = |conf: Value| json!({ "targetRef": sidecars, "default": conf });
    let service = |name: &str| json!({ "kind": "MeshService", "name": name });
    let path = json!({ "type": "PathPrefix", "value": "/v1" });
    let subset = json!({ "kind": "MeshServiceSubset", "name": "backend", "tags": { "version": "v1" } });
    let route = json!({ "matches": [{ "path": path }], "default": { "backendRefs": [subset] } });
    let tcp_route = json!({ "default": { "backendRefs": [service("backend")] } });
    let header = json!({ "httpFilter": {
        "operation": "AddFirst",
        "value": "name: envoy.filters.http.lua\ntypedConfig:\n  '@type': type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua\n",
    } });
    BTreeMap::from([
        (
            "MeshAccessLog",
            from_and_to(json!({ "backends": [
            { "type": "File", "file": { "path": "/dev/null" } },
            { "type": "OpenTelemetry", "openTelemetry": { "endpoint": "collector:4317" } },
        ] })),
        ),
        ("MeshCircuitBreaker", from_and_to(json!({ "connectionLimits": { "maxConnections": 7 } }))),
        ("MeshFaultInjection", rules(json!({ "http": [{ "delay": { "value": "1s", "percentage": 10 } }] }))),
        (
            "MeshHealthCheck",
            to(json!({
                "interval": "10s", "timeout": "1s", "unhealthyThreshold": 2, "healthyThreshold": 1, "tcp": {},
            })),
        ),
        ("MeshHTTPRoute", json!({ "targetRef": all, "to": [{ "targetRef": service("backend"), "rules": [route] }] })),
        (
            "MeshLoadBalancingStrategy",
            to(json!({ "loadBalancer": {
            "type": "RingHash",
            "ringHash": { "hashPolicies": [{ "type": "Header", "header": { "name": "x-user" } }] },
        } })),
        ),
        ("MeshMetric", whole(json!({ "backends": [{ "type": "Prometheus", "prometheus": { "port": 5670 } }] }))),
        (
            "MeshPassthrough",
            whole(json!({ "passthroughMode": "Matched", "appendMatch": [
            { "type": "Domain", "value": "example.com", "protocol": "tls", "port": 443 },
        ] })),
        ),
        ("MeshProxyPatch", whole(json!({ "appendModifications": [header] }))),
        ("MeshRateLimit", rules(json!({ "local": { "http": { "requestRate": { "num": 5, "interval": "1s" } } } }))),
        ("MeshRetry", to(json!({ "http": { "numRetries": 3 }, "tcp": { "maxConnectAttempt": 2 } }))),
        ("MeshTCPRoute", json!({ "targetRef": all, "to": [{ "targetRef": service("db"), "rules": [tcp_route] }] })),
        ("MeshTimeout", from_and_to(json!({ "connectionTimeout": "3s", "http": { "requestTimeout": "4s" } }))),
        ("MeshTLS", json!({ "targetRef": all, "rules": [{ "default": { "mode": "Permissive" } }] })),
        (
            "MeshTrace",
            whole(json!({ "backends": [
            { "type": "Zipkin", "zipkin": { "url": "http://zipkin:9411/api/v2/spans" } },
        ] })),
        ),
        (
            "MeshTrafficPermission",
            json!({ "targetRef": all, "rules": [{ "default": {
            "allow": [{ "spiffeID": { "type": "Prefix", "value": "spiffe://default" } }],
        } }] }),
        ),
    ])
}

fn change(kind: &str, spec: &Value) -> EngineChange {
    let document = json!({ "type": kind, "mesh": MESH, "name": kind.to_lowercase(), "spec": spec });
    documents::change(document).unwrap_or_else(|error| panic!("{kind}: {error}"))
}

fn render(policies: &[(&str, &Value)]) -> Arc<Snapshot> {
    let base = yaml::parse(BASE).unwrap().into_iter().map(|document| documents::change(document.value).unwrap());
    let changes: Vec<EngineChange> = base.chain(policies.iter().map(|(kind, spec)| change(kind, spec))).collect();
    let settings = EngineSettings { zone: documents::ZONE.into(), ..EngineSettings::default() };
    let metadata = Arc::new(documents::metadata(true));
    let config = offline::config(settings, changes, &ProxyKey::new(MESH, PROXY), metadata);
    config.unwrap_or_else(|faults| panic!("{policies:?}: {}", faults.join("; ")))
}

/// Names of network filters, and of HTTP filters, by listener and filter chain. The chain with mutual TLS has the same key
/// in permissive and strict mode.
fn filters(config: &Snapshot) -> BTreeMap<String, Vec<String>> {
    let config = redacted::config(config).unwrap();
    let mut all = BTreeMap::new();
    for (listener, resource) in config[TypeUrl::Listener.as_str()].as_object().into_iter().flatten() {
        for (n, chain) in resource["filterChains"].as_array().into_iter().flatten().enumerate() {
            let network = chain["filters"].as_array().into_iter().flatten();
            let names = network.flat_map(|filter| {
                let http = filter["typedConfig"]["httpFilters"].as_array().into_iter().flatten();
                [filter].into_iter().chain(http).map(|filter| filter["name"].as_str().unwrap_or_default().to_owned())
            });
            let chain = if chain["transportSocket"].is_null() { n.to_string() } else { "mtls".to_owned() };
            all.insert(format!("{listener}/{chain}"), names.collect());
        }
    }
    all
}

fn is_subsequence(part: &[String], whole: &[String]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|name| rest.any(|other| other == name))
}

#[test]
fn every_policy_in_force_has_a_sample_that_acts() {
    let samples = samples();
    let nothing = render(&[]);
    for kind in kodiak_kinds::in_force() {
        let spec = samples.get(kind).unwrap_or_else(|| panic!("no sample of {kind}"));
        assert_ne!(render(&[(kind, spec)]).resources, nothing.resources, "{kind} changes nothing");
    }
}

#[test]
fn two_policies_act_together_in_any_order_and_envoy_loads_them() {
    let Some(program) = envoy() else { return };
    let samples: Vec<(&str, Value)> = samples().into_iter().collect();
    let in_force = |kind: &str| kodiak_kinds::in_force().contains(&kind);
    let samples: Vec<(&str, &Value)> =
        samples.iter().filter(|(kind, _)| in_force(kind)).map(|(kind, spec)| (*kind, spec)).collect();
    let alone: BTreeMap<&str, _> = samples.iter().map(|one| (one.0, filters(&render(&[*one])))).collect();
    let mut wrong = Vec::new();
    for (n, one) in samples.iter().enumerate() {
        for other in &samples[n + 1..] {
            let pair = format!("{} and {}", one.0, other.0);
            let both = render(&[*one, *other]);
            assert_eq!(both.resources, render(&[*other, *one]).resources, "{pair}: the order of writes matters");
            let found = filters(&both);
            for kind in [one.0, other.0] {
                for (chain, names) in &alone[kind] {
                    // A policy may replace filter chains, but not reorder the filters of one.
                    let kept = found.get(chain).is_none_or(|whole| is_subsequence(names, whole));
                    if !kept {
                        wrong.push(format!("{pair}: {chain} has {:?}, {kind} alone {names:?}", found[chain]));
                    }
                }
            }
            if let Err(error) = load(program, &bootstrap(&both)) {
                wrong.push(format!("{pair}: {error}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

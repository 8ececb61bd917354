//! Cost of one policy of each kind: one that selects nobody, and one that selects the proxies of a service.

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_engine::{Engine, EngineChange, EngineSettings, Stats, offline::Placeholders};
use kodiak_kinds::{Kind, kinds};
use kodiak_model::{Labels, ProxyKey, policy::Body};
use kodiak_rules::{Policy, Proxy};
use kodiak_xds::node::NodeMetadata;
use serde_json::{Value, json};

use super::{
    super::results::Results,
    engine::{mesh, number},
    mesh::{MESH, Size},
};

const NAME: &str = "measured";
/// Label `app` of the proxies that the policy selects.
const SELECTED: &str = "svc-0";
const NOBODY: &str = "nobody";
const TRANSPARENT: &str = "transparent";

/// Adds, changes and deletes a policy of each kind in a mesh without other policies.
pub(super) fn measure(size: Size, connected: usize, results: &mut Results) -> anyhow::Result<()> {
    let size = Size { policies: 0, ..size };
    let mut engine = Engine::new(EngineSettings { zone: "default".into(), ..EngineSettings::default() });
    let mut apply = |changes: Vec<EngineChange>| engine.apply(changes, &Placeholders, Timestamp::UNIX_EPOCH).stats;
    apply(mesh(size)?);
    // Metrics are served at a socket in this folder.
    let metadata = Arc::new(NodeMetadata { workdir: Some(".".to_owned()), ..NodeMetadata::default() });
    let arrive = |n| EngineChange::Connected { key: Size::key(n), metadata: metadata.clone() };
    apply((0..connected.min(size.proxies)).map(arrive).collect());
    apply(transparent_proxy()?);
    for kind in policies() {
        let mut put = |spec: Option<Value>| anyhow::Ok(apply(vec![change(kind, spec)?]));
        let unmatched = put(Some(spec(kind.name, NOBODY, 1)))?;
        put(None)?;
        let added = put(Some(spec(kind.name, selected(kind), 1)))?;
        let changed = put(Some(spec(kind.name, selected(kind), 2)))?;
        put(None)?;
        let mut add = |key: &str, text: &str, stats: Stats| {
            let name = kind.name;
            results.add(
                format!("{name}.{key}_encoded"),
                format!("{name} {text}: resources encoded"),
                number(stats.encoded),
            );
            results.add(format!("{name}.{key}_woken"), format!("{name} {text}: proxies woken"), number(stats.woken));
        };
        add("unmatched", "for nobody", unmatched);
        add("added", "for a service", added);
        add("changed", "changed", changed);
    }
    Ok(())
}

fn policies() -> impl Iterator<Item = &'static Kind> {
    kinds().iter().filter(|kind| kind.is_policy())
}

/// Passthrough traffic exists with transparent proxying alone.
fn selected(kind: &Kind) -> &'static str {
    if kind.name == "MeshPassthrough" { TRANSPARENT } else { SELECTED }
}

fn transparent_proxy() -> anyhow::Result<Vec<EngineChange>> {
    let dataplane = json!({ "networking": {
        "address": "10.255.0.1",
        "inbound": [{ "port": 8080, "tags": { "kuma.io/service": TRANSPARENT } }],
        "transparentProxying": { "redirectPortInbound": 15006, "redirectPortOutbound": 15001 },
    } });
    let key = ProxyKey::new(MESH, TRANSPARENT);
    let labels = Arc::new(Labels::from([("app".to_owned(), TRANSPARENT.to_owned())]));
    let dataplane = Arc::new(serde_json::from_value(dataplane)?);
    let (mesh, name) = (key.mesh.clone(), key.name.clone());
    let proxy = Arc::new(Proxy { mesh, name, labels, dataplane, admission: None });
    let arrive = EngineChange::Connected { key: key.clone(), metadata: Arc::default() };
    Ok(vec![EngineChange::Dataplane { key, dataplane: Some(proxy) }, arrive])
}

fn change(kind: &'static Kind, spec: Option<Value>) -> anyhow::Result<EngineChange> {
    let facts = kind.policy.as_ref().expect("these kinds are policies");
    let policy = spec.map(|spec| {
        let body = Body::read(facts, &spec)?;
        anyhow::Ok(Arc::new(Policy { kind, mesh: MESH.into(), name: NAME.into(), labels: Arc::default(), body }))
    });
    Ok(EngineChange::Policy { mesh: MESH.into(), key: (kind.name, NAME.into()), policy: policy.transpose()? })
}

/// `number` makes a difference.
fn spec(kind: &str, app: &str, number: usize) -> Value {
    let seconds = format!("{number}s");
    let to = |conf: Value| json!({ "to": [{ "targetRef": { "kind": "Mesh" }, "default": conf }] });
    let rules = |conf: Value| json!({ "rules": [{ "default": conf }] });
    let service = |name: &str| json!({ "kind": "MeshService", "name": name, "weight": number });
    let one = json!({ "kind": "MeshService", "name": "svc-1" });
    let mut spec = match kind {
        "MeshAccessLog" => {
            to(json!({ "backends": [{ "type": "File", "file": { "path": format!("/tmp/{number}") } }] }))
        }
        "MeshCircuitBreaker" => to(json!({ "connectionLimits": { "maxConnections": number } })),
        "MeshFaultInjection" => rules(json!({ "http": [{ "abort": { "httpStatus": 503, "percentage": number } }] })),
        "MeshHealthCheck" => to(json!({
            "interval": seconds, "timeout": "1s", "unhealthyThreshold": 1, "healthyThreshold": 1, "http": { "path": "/" },
        })),
        "MeshHTTPRoute" => {
            let path = json!({ "type": "PathPrefix", "value": format!("/{number}") });
            let rule = json!({ "matches": [{ "path": path }], "default": { "backendRefs": [service("svc-2")] } });
            json!({ "to": [{ "targetRef": one, "rules": [rule] }] })
        }
        "MeshLoadBalancingStrategy" => {
            let balancer = ["Random", "LeastRequest"][number % 2];
            to(json!({ "loadBalancer": { "type": balancer } }))
        }
        "MeshMetric" => {
            json!({ "default": { "backends": [{ "type": "Prometheus", "prometheus": { "port": 5670 + number } }] } })
        }
        "MeshPassthrough" => {
            let domain =
                json!({ "type": "Domain", "value": format!("{number}.example.com"), "port": 443, "protocol": "tls" });
            json!({ "default": { "passthroughMode": "Matched", "appendMatch": [domain] } })
        }
        "MeshProxyPatch" => {
            let patch = json!({ "operation": "Patch", "match": { "name": "svc-1" }, "value": format!("connectTimeout: {seconds}") });
            json!({ "default": { "appendModifications": [{ "cluster": patch }] } })
        }
        "MeshRateLimit" => {
            rules(json!({ "local": { "http": { "requestRate": { "num": number, "interval": "1s" } } } }))
        }
        "MeshRetry" => to(json!({ "http": { "numRetries": number } })),
        "MeshTCPRoute" => {
            json!({ "to": [{ "targetRef": one, "rules": [{ "default": { "backendRefs": [service(&format!("svc-{}", number + 1))] } }] }] })
        }
        "MeshTimeout" => to(json!({ "http": { "requestTimeout": seconds } })),
        "MeshTLS" => {
            let mode = if number == 1 { "Permissive" } else { "Strict" };
            rules(json!({ "mode": mode }))
        }
        "MeshTrace" => json!({ "default": {
            "backends": [{ "type": "Zipkin", "zipkin": { "url": "http://127.0.0.1:9411/api/v2/spans" } }],
            "sampling": { "overall": number },
        } }),
        "MeshTrafficPermission" => {
            let caller = json!({ "spiffeID": { "type": "Exact", "value": format!("spiffe://default/svc-{number}") } });
            rules(json!({ "allow": [caller] }))
        }
        _ => unreachable!("a test has a policy of each kind"),
    };
    spec["targetRef"] = json!({ "kind": "Dataplane", "labels": { "app": app } });
    spec
}

#[cfg(test)]
mod tests {
    use kodiak_model::{Draft, Place, check};

    use super::*;

    #[test]
    fn all_policies_are_valid_and_differ() {
        for kind in policies() {
            let document = |number| {
                let spec = spec(kind.name, SELECTED, number);
                json!({ "type": kind.name, "mesh": MESH, "name": NAME, "spec": spec })
            };
            let draft = Draft::from_value(document(1), |_| Some(kind.shape)).unwrap();
            let checked = check(kind, draft, &Place::Global);
            assert!(checked.is_ok(), "{}: {checked:?}", document(1));
            assert_ne!(document(1), document(2));
        }
    }

    #[test]
    fn policy_that_selects_nobody_costs_nothing_and_the_others_only_their_proxies() {
        let mut results = Results::default();
        // Two proxies of each service.
        measure(Size { policies: 0, proxies: 40, services: 20 }, 40, &mut results).unwrap();
        let measured = results.json();
        for kind in policies() {
            let costs = &measured[kind.name];
            assert_eq!(
                (&costs["unmatched_encoded"], &costs["unmatched_woken"]),
                (&json!(0), &json!(0)),
                "{}",
                kind.name
            );
            for key in ["added_woken", "changed_woken"] {
                let woken = costs[key].as_i64().unwrap();
                assert!((1..=2).contains(&woken), "{} {key}: {costs}", kind.name);
            }
        }
    }
}

//! A service whose Dataplanes are unknown admits at least the callers that they will admit.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kodiak_model::{Kind, Kri, kinds::mesh_service, policy::Body};
use kodiak_policies::{
    mesh_tls,
    mesh_traffic_permission::{Action, uris},
};
use kodiak_rollout::Issuers;
use kodiak_world::destination::Behind;
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

use super::*;

const MESH: &str = "default";

fn policy(name: &str, spec: &Value) -> Arc<Policy> {
    policy_of(&KIND, name, spec)
}

fn policy_of(kind: &'static Kind, name: &str, spec: &Value) -> Arc<Policy> {
    let body = Body::read(&kind.policy.unwrap(), spec).unwrap();
    Arc::new(Policy { kind, mesh: MESH.into(), name: name.into(), labels: Arc::default(), body })
}

fn index(specs: &[Value]) -> PolicyIndex {
    let mut index = PolicyIndex::default();
    for (n, spec) in specs.iter().enumerate() {
        let policy = policy(&format!("p{n}"), spec);
        index.set_policy(&(KIND.name, policy.name.clone()), Some(policy));
    }
    index
}

fn service(selector: &Value, labels: &Value) -> (Destination, Service) {
    let labels: BTreeMap<String, String> = serde_json::from_value(labels.clone()).unwrap();
    let service = Service { selector: serde_json::from_value(selector.clone()).unwrap(), ..Service::default() };
    let destination = Destination {
        kri: Kri::of(&mesh_service::KIND, MESH, "backend", &labels).unwrap(),
        name: "backend".into(),
        labels: Arc::new(labels),
        created: Timestamp::UNIX_EPOCH,
        ports: Vec::new(),
        vips: Vec::new(),
        hostnames: Vec::new(),
        behind: Behind::Service(Arc::new(service.clone())),
    };
    (destination, service)
}

fn admits(admission: &Admission, caller: &str) -> bool {
    let tags = BTreeMap::from([(tags::SERVICE.to_owned(), caller.to_owned())]);
    let presented = uris(MESH, &[tags]);
    match admission {
        Admission::Open => true,
        Admission::By(all) => all
            .iter()
            .flat_map(|any| any.permissions())
            .any(|one| one.possible(MESH, &presented).action != Action::Deny),
    }
}

fn unseen(specs: &[Value]) -> Admission {
    let (destination, service) = service(&json!({ "dataplaneTags": { "app": "backend" } }), &json!({}));
    let index = index(specs);
    Source { index: &index, shadow: Shadow::Ignored, rollout: &strict(), purpose: Purpose::Trimming }.service(
        &destination,
        &service,
        [],
    )
}

/// A step of strict mTLS.
fn strict() -> Rollout {
    let issuers = Issuers { signer: Some("ca".into()), ..Issuers::default() };
    Rollout { accept: InboundTls::Strict, call: true, issuers, ..Rollout::default() }
}

fn permission(target: &Value, caller: &str, action: &str) -> Value {
    let from = json!([{ "targetRef": { "kind": "MeshService", "name": caller }, "default": { "action": action } }]);
    json!({ "targetRef": target, "from": from })
}

#[test]
fn permission_for_the_tags_of_the_selector_decides() {
    let own = json!({ "kind": "MeshSubset", "tags": { "app": "backend" } });
    let other = json!({ "kind": "MeshSubset", "tags": { "app": "other" } });
    let admission = unseen(&[permission(&own, "a", "Allow"), permission(&other, "b", "Allow")]);
    assert!(admits(&admission, "a") && !admits(&admission, "b"));
}

#[test]
fn denial_for_a_part_of_the_service_removes_nobody() {
    let all = json!({ "kind": "Mesh" });
    let part = json!({ "kind": "MeshSubset", "tags": { "app": "backend", "version": "2" } });
    assert!(admits(&unseen(&[permission(&all, "a", "Allow"), permission(&part, "a", "Deny")]), "a"));
    let whole = json!({ "kind": "MeshSubset", "tags": { "app": "backend" } });
    assert!(!admits(&unseen(&[permission(&all, "a", "Allow"), permission(&whole, "a", "Deny")]), "a"));
}

#[test]
fn permission_for_a_part_of_the_service_admits() {
    for part in [
        json!({ "kind": "MeshSubset", "tags": { "version": "2" } }),
        json!({ "kind": "Dataplane", "labels": { "version": "2" } }),
        json!({ "kind": "Dataplane", "name": "backend-1" }),
    ] {
        let deny = permission(&json!({ "kind": "Mesh" }), "a", "Deny");
        assert!(admits(&unseen(&[deny, permission(&part, "a", "Allow")]), "a"), "{part}");
    }
}

#[test]
fn service_that_a_permissive_mode_may_select_admits_everybody() {
    let (destination, service) = service(&json!({ "dataplaneTags": { "app": "backend" } }), &json!({}));
    for (tags, mode, is_open) in [
        (json!({ "app": "backend" }), "Permissive", true),
        (json!({ "version": "2" }), "Permissive", true),
        (json!({ "app": "other" }), "Permissive", false),
        (json!({ "app": "backend" }), "Strict", false),
    ] {
        let mut index = index(&[]);
        let target = json!({ "kind": "MeshSubset", "tags": tags });
        let spec = json!({ "targetRef": target, "rules": [{ "default": { "mode": mode } }] });
        let policy = policy_of(&mesh_tls::KIND, "mode", &spec);
        index.set_policy(&(mesh_tls::KIND.name, policy.name.clone()), Some(policy));
        let source = Source { index: &index, shadow: Shadow::Ignored, rollout: &strict(), purpose: Purpose::Trimming };
        assert_eq!(admits(&source.service(&destination, &service, []), "a"), is_open, "{tags} {mode}");
    }
}

fn target() -> impl Strategy<Value = Value> {
    let tag = || select(&["app", "version", "kuma.io/service", "kuma.io/zone"][..]);
    let value = || select(&["backend", "1", "2", "east", "*"][..]);
    let pairs = move || vec((tag(), value()), 1..3).prop_map(|pairs| pairs.into_iter().collect::<BTreeMap<_, _>>());
    prop_oneof![
        Just(json!({ "kind": "Mesh" })),
        Just(json!({ "kind": "Mesh", "proxyTypes": ["Gateway"] })),
        pairs().prop_map(|tags| json!({ "kind": "MeshSubset", "tags": tags })),
        select(&["backend", "other"][..]).prop_map(|name| json!({ "kind": "MeshService", "name": name })),
        pairs().prop_map(|tags| json!({ "kind": "MeshServiceSubset", "name": "backend", "tags": tags })),
        pairs().prop_map(|labels| json!({ "kind": "Dataplane", "labels": labels })),
        Just(json!({ "kind": "Dataplane", "labels": { "app": "backend" }, "sectionName": "main" })),
    ]
}

fn spec() -> impl Strategy<Value = Value> {
    let caller = prop_oneof![
        select(&["a", "b"][..]).prop_map(|name| json!({ "kind": "MeshService", "name": name })),
        Just(json!({ "kind": "Mesh" })),
    ];
    let action = select(&["Allow", "Deny", "AllowWithShadowDeny"][..]);
    let item =
        (caller, action).prop_map(|(from, action)| json!({ "targetRef": from, "default": { "action": action } }));
    let id = select(&["spiffe://default/a", "spiffe://default/b"][..])
        .prop_map(|id| json!({ "spiffeID": { "type": "Exact", "value": id } }));
    let rules = (vec(id.clone(), 0..2), vec(id, 0..2))
        .prop_map(|(deny, allow)| json!([{ "default": { "deny": deny, "allow": allow } }]));
    prop_oneof![
        4 => (target(), vec(item, 1..3)).prop_map(|(target, from)| json!({ "targetRef": target, "from": from })),
        1 => (target(), rules).prop_map(|(target, rules)| json!({ "targetRef": target, "rules": rules })),
    ]
}

proptest! {
    #[test]
    fn unseen_service_admits_what_its_dataplanes_admit(
        specs in vec(spec(), 0..6),
        modes in vec((target(), select(&["Strict", "Permissive"][..])), 0..3),
        by_labels in any::<bool>(),
        more in vec((select(&["version", "kuma.io/service", "kuma.io/zone"][..]), select(&["backend", "1", "2", "east"][..])), 0..3),
    ) {
        let known = json!({ "app": "backend" });
        let selector = if by_labels {
            json!({ "dataplaneLabels": { "matchLabels": known } })
        } else {
            json!({ "dataplaneTags": known })
        };
        let (destination, service) = service(&selector, &json!({}));
        let mut properties: BTreeMap<String, String> = BTreeMap::from([("app".to_owned(), "backend".to_owned())]);
        properties.extend(more.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())));
        let mut index = index(&specs);
        for (n, (target, mode)) in modes.iter().enumerate() {
            let spec = json!({ "targetRef": target, "rules": [{ "default": { "mode": mode } }] });
            let policy = policy_of(&mesh_tls::KIND, &format!("m{n}"), &spec);
            index.set_policy(&(mesh_tls::KIND.name, policy.name.clone()), Some(policy));
        }
        let rollout = strict();
        let source = Source { index: &index, shadow: Shadow::Ignored, rollout: &rollout, purpose: Purpose::Trimming };
        let unseen = source.service(&destination, &service, []);
        let dataplane = json!({ "networking": { "address": "10.0.0.1", "inbound": [{ "port": 80, "name": "main", "tags": properties }] } });
        let proxy = Arc::new(Proxy {
            mesh: MESH.into(),
            name: "backend-1".into(),
            labels: Arc::new(properties.clone()),
            dataplane: Arc::new(serde_json::from_value(dataplane).unwrap()),
            admission: None,
        });
        index.set_proxy(&proxy.name, Some(proxy.clone()));
        let seen = Source { index: &index, shadow: Shadow::Ignored, rollout: &rollout, purpose: Purpose::Trimming }.inbounds([(&*proxy.name, 0)]);
        for caller in ["a", "b", "c"] {
            prop_assert!(!admits(&seen, caller) || admits(&unseen, caller), "{}", caller);
        }
    }
}

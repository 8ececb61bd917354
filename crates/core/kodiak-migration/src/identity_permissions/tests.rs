//! Meshes with permissions by tags, and the rules that they become.

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_model::{Cancellation, Labels, ResourceKey};
use kodiak_policies::mesh_traffic_permission::Action;
use kodiak_world::{Stored, World};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

struct Mesh(World);

impl std::fmt::Debug for Mesh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let proxies = self.0.proxies("default").map(|proxy| (&proxy.name, &proxy.labels, &proxy.dataplane));
        let policies = self.0.policies(&KIND, "default").map(|policy| (&policy.name, &policy.body));
        f.debug_list().entries(proxies).entries(policies).finish()
    }
}

impl Mesh {
    /// A MeshIdentity without a provider, which gives SPIFFE IDs by workload.
    fn new() -> Self {
        let mut mesh = Self::without_identity();
        let spec = json!({ "selector": { "dataplane": {} }, "spiffeID": { "trustDomain": "td" } });
        mesh.put("MeshIdentity", "all", &json!({}), &spec);
        mesh
    }

    fn without_identity() -> Self {
        let mut mesh = Self(World::default());
        mesh.put("Mesh", "default", &json!({}), &json!({ "meshServices": { "mode": "Exclusive" } }));
        mesh
    }

    fn put(&mut self, kind: &str, name: &str, labels: &Value, spec: &Value) {
        let key = match kind {
            "Mesh" => ResourceKey::global(kind, name),
            _ => ResourceKey::in_mesh(kind, "default", name),
        };
        let labels: Labels = serde_json::from_value(labels.clone()).unwrap();
        self.0.put(Stored {
            key: &key,
            labels: &Arc::new(labels),
            created: Timestamp::UNIX_EPOCH,
            version: 1,
            status_version: 0,
            revision: 1,
            spec: &spec.to_string().into(),
            status: None,
        });
    }

    /// With the workload `workload`, and the tags of one inbound.
    fn dataplane(&mut self, name: &str, workload: &str, tags: &Value) {
        let labels = json!({ "kuma.io/workload": workload, "app": workload });
        let inbound = json!({ "port": 80, "tags": tags });
        let spec = json!({ "networking": { "address": "10.0.0.1", "inbound": [inbound] } });
        self.put("Dataplane", name, &labels, &spec);
    }

    /// Two services: `web` in `env: dev`, and `api` in `env: prod`.
    fn services() -> Self {
        let mut mesh = Self::new();
        mesh.dataplane("web-1", "web", &json!({ "kuma.io/service": "web", "env": "dev" }));
        mesh.dataplane("api-1", "api", &json!({ "kuma.io/service": "api", "env": "prod" }));
        mesh
    }

    /// `target`: label `app` of the selected Dataplanes; all of them if empty.
    fn permission(&mut self, name: &str, target: &str, from: &[(Value, &str)]) {
        let target = match target {
            "" => json!({ "kind": "Mesh" }),
            app => json!({ "kind": "Dataplane", "labels": { "app": app } }),
        };
        let from: Vec<Value> = from
            .iter()
            .map(|(target, action)| json!({ "targetRef": target, "default": { "action": action } }))
            .collect();
        self.put(KIND.name, name, &json!({}), &json!({ "targetRef": target, "from": from }));
    }

    fn convert(&self) -> PermissionConversion {
        let converted = convert_permissions(&self.0, "default", |_| true, &Cancellation::never()).unwrap();
        assert_eq!(converted.proof.changed, [], "{:?}", converted.policies);
        converted
    }

    /// Rules of the policy, as `deny ID`, in the order in which they decide.
    #[track_caller]
    fn rules(&self, name: &str) -> Vec<String> {
        let converted = self.convert();
        let one = converted.policies.iter().find(|one| &*one.policy.name == name).unwrap();
        let rules = one.rules.as_ref().unwrap_or_else(|| panic!("{:?}", one.findings));
        let mut shown = Vec::new();
        for list in ["deny", "allowWithShadowDeny", "allow"] {
            for one in rules[0]["default"][list].as_array().into_iter().flatten() {
                shown.push(format!("{list} {}", one["spiffeID"]["value"].as_str().unwrap_or("everybody")));
            }
        }
        shown
    }

    /// Path and message of the first finding of a policy that stays as it is.
    #[track_caller]
    fn refused(&self, name: &str) -> (String, String) {
        let converted = self.convert();
        let one = converted.policies.iter().find(|one| &*one.policy.name == name).unwrap();
        assert_eq!((one.rules.as_ref(), one.findings[0].outcome), (None, PermissionOutcome::Refused), "{one:?}");
        (one.findings[0].path.clone(), one.findings[0].message.clone())
    }
}

fn everybody() -> Value {
    json!({ "kind": "Mesh" })
}

fn service(name: &str) -> Value {
    json!({ "kind": "MeshService", "name": name })
}

fn subset(key: &str, value: &str) -> Value {
    json!({ "kind": "MeshSubset", "tags": { key: value } })
}

#[test]
fn each_kind_of_item_becomes_exact_spiffe_ids() {
    let web = ["allow spiffe://default/web", "allow spiffe://td/workload/web"].map(str::to_owned).to_vec();
    for (target, expected) in [
        (everybody(), vec!["allow everybody".to_owned()]),
        (service("web"), web.clone()),
        (subset("env", "dev"), web.clone()),
        (subset("kuma.io/service", "web"), web.clone()),
        (json!({ "kind": "MeshServiceSubset", "name": "web", "tags": { "env": "dev" } }), web.clone()),
        (json!({ "kind": "MeshSubset" }), vec!["allow everybody".to_owned()]),
        (
            subset("env", "*"),
            ["default/api", "default/web", "td/workload/api", "td/workload/web"]
                .map(|id| format!("allow spiffe://{id}"))
                .to_vec(),
        ),
    ] {
        let mut mesh = Mesh::services();
        mesh.permission("p", "", &[(target.clone(), "Allow")]);
        assert_eq!(mesh.rules("p"), expected, "{target}");
    }
}

#[test]
fn actions_go_to_their_lists() {
    let mut mesh = Mesh::services();
    mesh.permission(
        "p",
        "",
        &[(everybody(), "Allow"), (service("web"), "Deny"), (service("api"), "AllowWithShadowDeny")],
    );
    assert_eq!(
        mesh.rules("p"),
        [
            "deny spiffe://default/web",
            "deny spiffe://td/workload/web",
            "allowWithShadowDeny spiffe://default/api",
            "allowWithShadowDeny spiffe://td/workload/api",
            "allow everybody",
        ]
    );
    let findings = &mesh.convert().policies[0].findings;
    assert!(findings[1].message.contains("get another SPIFFE ID later are not denied"), "{findings:?}");
}

#[test]
fn later_items_of_a_policy_decide() {
    let mut mesh = Mesh::services();
    mesh.permission("p", "", &[(everybody(), "Deny"), (service("web"), "Allow")]);
    assert_eq!(mesh.rules("p"), ["allow spiffe://default/web", "allow spiffe://td/workload/web"]);
    mesh.permission("p", "", &[(service("web"), "Deny"), (everybody(), "Allow")]);
    assert_eq!(mesh.rules("p"), ["allow everybody"]);
    let findings = &mesh.convert().policies[0].findings;
    assert_eq!(findings[0].outcome, PermissionOutcome::Dropped);
}

#[test]
fn shadow_denial_of_everybody_beside_an_allow_is_refused() {
    let mut mesh = Mesh::services();
    mesh.permission("p", "", &[(everybody(), "AllowWithShadowDeny"), (service("web"), "Allow")]);
    let (path, message) = mesh.refused("p");
    assert_eq!(path, "spec.from");
    assert!(message.contains("would get Deny instead of AllowWithShadowDeny"), "{message}");
}

#[test]
fn unknown_tags_are_refused() {
    let mut mesh = Mesh::services();
    mesh.permission("p", "", &[(service("web"), "Allow"), (service("gone"), "Allow")]);
    let (path, message) = mesh.refused("p");
    assert_eq!(path, "spec.from[1]");
    assert!(message.starts_with("no Dataplane is a caller with MeshService gone"), "{message}");
}

#[test]
fn shared_spiffe_id_is_refused() {
    // The legacy SPIFFE ID has no other tag than the service.
    let mut mesh = Mesh::services();
    mesh.dataplane("web-2", "web2", &json!({ "kuma.io/service": "web", "env": "prod" }));
    mesh.permission("p", "", &[(subset("env", "dev"), "Allow")]);
    let (path, message) = mesh.refused("p");
    assert_eq!(path, "spec.from[0]");
    assert!(message.starts_with("spiffe://default/web is the SPIFFE ID of Dataplane web-1"), "{message}");
    mesh.permission("p", "", &[(service("web"), "Allow")]);
    assert_eq!(mesh.rules("p").len(), 3);

    let mut mesh = Mesh::services();
    mesh.dataplane("job-1", "web", &json!({ "kuma.io/service": "job" }));
    mesh.permission("p", "", &[(service("web"), "Allow")]);
    assert!(mesh.refused("p").1.starts_with("spiffe://td/workload/web is the SPIFFE ID of Dataplane web-1"));
    mesh.permission("p", "", &[(service("web"), "Allow"), (service("job"), "Allow")]);
    assert_eq!(mesh.rules("p").len(), 3);
}

#[test]
fn dataplane_with_several_services_is_meant_by_the_named_one() {
    let mut mesh = Mesh::services();
    let inbounds = json!([
        { "port": 80, "tags": { "kuma.io/service": "web" } },
        { "port": 81, "tags": { "kuma.io/service": "api" } },
    ]);
    let spec = json!({ "networking": { "address": "10.0.0.2", "inbound": inbounds } });
    mesh.put("Dataplane", "both", &json!({ "kuma.io/workload": "both" }), &spec);
    mesh.permission("p", "", &[(service("web"), "Allow")]);
    let expected = ["allow spiffe://default/web", "allow spiffe://td/workload/both", "allow spiffe://td/workload/web"];
    assert_eq!(mesh.rules("p"), expected);
}

#[test]
fn policies_of_one_inbound_are_converted_together_or_not_at_all() {
    let mut mesh = Mesh::services();
    mesh.permission("a", "", &[(service("web"), "Allow")]);
    mesh.permission("b", "api", &[(service("api"), "Allow")]);
    assert_eq!((mesh.rules("a").len(), mesh.rules("b").len()), (2, 2));
    mesh.permission("b", "api", &[(service("gone"), "Allow")]);
    assert_eq!(mesh.refused("b").0, "spec.from[0]");
    assert!(mesh.refused("a").1.starts_with("it selects the same inbounds as MeshTrafficPermission b"));
    // Those that meet nowhere do not depend on each other.
    mesh.permission("a", "web", &[(service("web"), "Allow")]);
    assert_eq!(mesh.rules("a").len(), 2);
    let only_b =
        convert_permissions(&mesh.0, "default", |policy| &*policy.name == "b", &Cancellation::never()).unwrap();
    assert_eq!(only_b.policies[0].rules, None);
}

#[test]
fn denial_that_another_policy_overrides_is_dropped_if_nobody_needs_it() {
    let mut mesh = Mesh::services();
    mesh.permission("a", "", &[(everybody(), "Deny")]);
    mesh.permission("b", "api", &[(service("web"), "Allow")]);
    assert_eq!(mesh.rules("b").len(), 2);
    let converted = mesh.convert();
    let denied = &converted.policies[0];
    assert_eq!((&denied.rules, denied.findings[0].outcome), (&None, PermissionOutcome::Unchanged));

    // Here it is needed at the inbound of `web`, where everybody else is allowed.
    mesh.permission("a", "", &[(everybody(), "Allow"), (service("web"), "Deny")]);
    let (path, message) = mesh.refused("a");
    assert_eq!(path, "spec.from");
    assert!(
        message.contains("Dataplane web-1 would get Allow instead of Deny at port 80 of Dataplane web-1"),
        "{message}"
    );
}

#[test]
fn policy_that_rules_disable_stays_as_it_is() {
    let mut mesh = Mesh::services();
    mesh.permission("a", "", &[(service("web"), "Allow")]);
    mesh.put(
        KIND.name,
        "b",
        &json!({}),
        &json!({
            "targetRef": { "kind": "Dataplane", "labels": { "app": "api" } },
            "rules": [{ "default": { "allow": [{ "spiffeID": { "type": "Exact", "value": "spiffe://default/api" } }] } }],
        }),
    );
    assert!(mesh.refused("a").1.starts_with("it is ignored at inbounds that MeshTrafficPermission b selects"));
    // Certificates of MeshIdentities are not covered by the rules of `b`, nor by `a`.
    let open = mesh.convert().proof.open;
    assert!(open.iter().any(|one| one.spiffe_id.as_deref() == Some("spiffe://td/workload/api")), "{open:?}");
}

#[test]
fn policy_without_inbounds_waits_for_the_others() {
    let mut mesh = Mesh::services();
    mesh.permission("later", "nobody", &[(service("web"), "Allow")]);
    mesh.permission("a", "", &[(service("gone"), "Allow")]);
    assert!(mesh.refused("later").1.starts_with("it selects no inbound now"));
    mesh.permission("a", "", &[(service("web"), "Allow")]);
    assert_eq!(mesh.rules("later").len(), 2);
}

#[test]
fn mesh_without_a_mesh_identity_is_refused() {
    let mut mesh = Mesh::without_identity();
    mesh.dataplane("web-1", "web", &json!({ "kuma.io/service": "web" }));
    mesh.permission("p", "", &[(service("web"), "Allow")]);
    assert!(mesh.refused("p").1.starts_with("the mesh has no MeshIdentity"));
}

#[test]
fn converted_spec_has_rules_instead_of_from() {
    let spec = json!({ "targetRef": { "kind": "Mesh" }, "from": [] });
    assert_eq!(with_rules(&spec, &json!([1])), json!({ "targetRef": { "kind": "Mesh" }, "rules": [1] }));
}

fn item() -> impl Strategy<Value = (Value, &'static str)> {
    let target = prop_oneof![
        Just(everybody()),
        (0..4_u8).prop_map(|n| service(&format!("s{n}"))),
        prop::sample::select(vec!["a", "b", "*"]).prop_map(|env| subset("env", env)),
    ];
    (target, prop::sample::select(vec!["Allow", "Deny", "AllowWithShadowDeny"]))
}

fn mesh() -> impl Strategy<Value = Mesh> {
    let dataplane = (0..4_u8, prop::sample::select(vec!["a", "b"]), 0..6_u8);
    let permission = (prop::sample::select(vec!["", "w0", "w1"]), prop::collection::vec(item(), 1..4));
    (prop::collection::vec(dataplane, 1..6), prop::collection::vec(permission, 1..4)).prop_map(|(dataplanes, all)| {
        let mut mesh = Mesh::new();
        for (n, (service, env, workload)) in dataplanes.iter().enumerate() {
            let tags = json!({ "kuma.io/service": format!("s{service}"), "env": env });
            mesh.dataplane(&format!("d{n}"), &format!("w{workload}"), &tags);
        }
        for (n, (target, from)) in all.iter().enumerate() {
            mesh.permission(&format!("p{n}"), target, from);
        }
        mesh
    })
}

/// Verdicts at each inbound, on certificates of the mesh CA, or on those of the MeshIdentity.
fn verdicts(world: &World, issued: bool) -> Vec<Action> {
    let identities: Vec<Identity> =
        world.list_in("MeshIdentity", "default").filter_map(|one| Identity::of(one)).collect();
    let index = world.policy_index([&KIND], "default");
    let mut all = Vec::new();
    for server in world.proxies("default") {
        let matched = index.matched(KIND.name, &server.name, kodiak_rules::Shadow::Ignored);
        let permissions = proof::permissions(matched.inbounds.get(&0).into_iter().flatten());
        for client in world.proxies("default") {
            let uris = if issued {
                identities.iter().filter_map(|identity| identity.id_of(client)).collect()
            } else {
                kodiak_reachability::certificate("default", client).unwrap().to_vec()
            };
            all.push(proof::verdict(&permissions, "default", &uris));
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// If every policy is converted, certificates of both issuers get the verdicts from before the conversion.
    #[test]
    fn converted_policies_have_the_same_verdicts(mut mesh in mesh()) {
        let before = verdicts(&mesh.0, false);
        let PermissionConversion { policies, proof } = convert_permissions(&mesh.0, "default", |_| true, &Cancellation::never()).unwrap();
        prop_assert!(proof.is_clean(), "{:?}", proof);
        for one in &policies {
            let Some(rules) = &one.rules else { continue };
            let target = serde_json::to_value(&one.policy.body.target).unwrap();
            mesh.put(KIND.name, &one.policy.name, &json!({}), &json!({ "targetRef": target, "rules": rules }));
        }
        prop_assert_eq!(&verdicts(&mesh.0, false), &before);
        let refused = policies.iter().flat_map(|one| &one.findings).any(|one| one.outcome == PermissionOutcome::Refused);
        if !refused {
            prop_assert_eq!(&verdicts(&mesh.0, true), &before);
        }
    }
}

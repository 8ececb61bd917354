//! Status of policies: `kodiak get policies` and `kodiak inspect policy`.

use expect_test::expect;
use kodiak_model::{Labels, ResourceKey};
use kodiak_store::{Expect, Write};
use serde_json::{Value, json};

use crate::Kodiak;
use crate::inspect::Bed;
use crate::server::Server;

/// Policy as in a list.
fn status(kind: &str, name: &str) -> Value {
    json!({
        "type": kind, "mesh": "default", "name": name, "kri": "kri_x", "state": "InForce", "proxies": 1,
        "proxiesTotal": 2, "reasons": [],
    })
}

#[test]
fn lists_all_pages_of_policies() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    for n in 0..2500 {
        let name = format!("t-{n:04}");
        server.put(&format!("/meshes/default/_policies/{name}"), status("MeshTimeout", &name));
    }
    let url = server.url();
    let all = kodiak.run(&["--cp", &url, "get", "policies"]).is(0);
    assert_eq!(all.out.lines().count(), 2501);
    assert_eq!(server.requests().len(), 3);
    let part = kodiak.run(&["--cp", &url, "get", "Policies", "--name", "0042", "-o", "json"]).is(0);
    let part: Value = serde_json::from_str(&part.out).unwrap();
    assert_eq!((&part["total"], &part["items"][0]["name"]), (&json!(1), &json!("t-0042")));
    let other = kodiak.run(&["--cp", &url, "get", "policies", "-m", "other"]).is(1);
    assert!(other.err.contains("no Mesh with name \"other\""), "{}", other.err);
    let one = kodiak.run(&["--cp", &url, "get", "policies", "t-0001"]).is(2);
    assert!(one.err.contains("kodiak inspect policy t-0001"), "{}", one.err);
    kodiak.run(&["--cp", &url, "get", "policies", "--size", "5"]).is(2);
    server.with(|state| state.stuck = true);
    let stuck = kodiak.run(&["--cp", &url, "get", "policies"]).is(1);
    assert!(stuck.err.contains("pages that do not end"), "{}", stuck.err);
}

#[test]
fn asks_for_the_kind_of_an_ambiguous_name() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    for kind in ["MeshTimeout", "MeshRetry"] {
        server.put(&format!("/meshes/default/_policies/{kind}-x"), status(kind, "x"));
    }
    let url = server.url();
    let both = kodiak.run(&["--cp", &url, "inspect", "policy", "x"]).is(2);
    for part in ["2 policies have the name \"x\"", "inspect policy meshtimeout/x", "inspect policy meshretry/x"] {
        assert!(both.err.contains(part), "{part}: {}", both.err);
    }
    let none = kodiak.run(&["--cp", &url, "inspect", "policy", "y"]).is(1);
    assert!(none.err.contains("no policy with name \"y\" in mesh \"default\""), "{}", none.err);
    let none = kodiak.run(&["--cp", &url, "inspect", "policy", "mt/y"]).is(1);
    assert!(none.err.contains("no MeshTimeout with name \"y\""), "{}", none.err);
    kodiak.run(&["--cp", &url, "inspect", "policy", "mt/y", "--kind", "mt"]).is(2);
    kodiak.run(&["--cp", &url, "inspect", "policy", "zone/y"]).is(2);
}

const MESH: &str = r#"
type: Mesh
name: shop
skipCreatingInitialPolicies: ['*']
---
type: Dataplane
mesh: shop
name: web-1
networking:
  address: 127.0.0.1
  inbound:
  - {port: 8080, tags: {kuma.io/service: web, kuma.io/protocol: http}}
  outbound:
  - {port: 10001, address: 127.0.0.1, tags: {kuma.io/service: web}}
---
type: MeshTimeout
mesh: shop
name: fast
spec:
  to: [{targetRef: {kind: Mesh}, default: {connectionTimeout: 1s}}]
---
type: MeshTimeout
mesh: shop
name: slow
spec:
  to: [{targetRef: {kind: Mesh}, default: {connectionTimeout: 9s}}]
---
type: MeshTimeout
mesh: shop
name: nobody
spec:
  targetRef: {kind: MeshSubset, tags: {kuma.io/service: nobody}}
  to: [{targetRef: {kind: Mesh}, default: {connectionTimeout: 9s}}]
---
type: MeshTimeout
mesh: shop
name: a-trial
labels: {kuma.io/effect: shadow}
spec:
  to: [{targetRef: {kind: Mesh}, default: {connectionTimeout: 77s}}]
---
type: MeshTrafficPermission
mesh: shop
name: all
spec:
  from: [{targetRef: {kind: Mesh}, default: {action: Allow}}]
"#;

#[test]
fn shows_why_a_policy_is_not_in_force() {
    let bed = Bed::start();
    bed.kodiak.file("shop.yaml", MESH);
    bed.run(&["apply", "-f", "shop.yaml"]).is(0);
    let run = |args: &[&str]| bed.run(&[args, &["-m", "shop"]].concat()).is(0).out;
    expect![[r#"
        KIND                    NAME      TARGET                              STATE          PROXIES   REASON
        MeshTimeout             a-trial   Mesh                                not in force   0/1       shadow policy
        MeshTimeout             fast      Mesh                                in force       1/1       -
        MeshTimeout             nobody    MeshSubset kuma.io/service=nobody   not in force   0/1       no proxy is tagged kuma.io/service=nobody (the policy is of zone "default")
        MeshTimeout             slow      Mesh                                not in force   0/1       overridden by fast
        MeshTrafficPermission   all       Mesh                                not in force   0/1       no mutual TLS: not enforced
    "#]]
    .assert_eq(&run(&["get", "policies"]));
    let wide = run(&["get", "policies", "-o", "wide"]);
    assert!(wide.contains("policies of higher precedence override it (Overridden) [kri_mt_shop_"), "{wide}");
    let everywhere = bed.run(&["get", "policies", "-A"]).is(0).out;
    assert!(everywhere.starts_with("MESH ") && everywhere.contains("\nshop "), "{everywhere}");

    let slow = run(&["inspect", "policy", "slow"]);
    for part in ["Policy:   MeshTimeout slow in mesh shop\n", "not in force, on 0 of 1", "(Overridden)", "  web-1\n"] {
        assert!(slow.contains(part), "{part}: {slow}");
    }
    let slow: Value = serde_json::from_str(&run(&["inspect", "policy", "mt/slow", "-o", "json"])).unwrap();
    assert_eq!((&slow["status"]["state"], &slow["selected"]["total"]), (&json!("NotInForce"), &json!(1)));

    let rules = run(&["inspect", "dataplane", "web-1", "--type", "policies"]);
    assert!(rules.contains(r#"slow < fast   {"connectionTimeout":"1s"}"#), "{rules}");
    assert!(rules.contains("inbound 8080") && rules.contains("MeshTrafficPermission"), "{rules}");
    assert!(!rules.contains("nobody") && !rules.contains("a-trial"), "{rules}");

    // A proxy that was connected before.
    let insight = Write::Put {
        key: ResourceKey::in_mesh("DataplaneInsight", "shop", "web-1"),
        spec: "{}".into(),
        labels: Labels::new(),
        owner: Some(ResourceKey::in_mesh("Dataplane", "shop", "web-1")),
        expect: Expect::Absent,
    };
    bed.runtime.block_on(bed.control_plane.catalog.store().commit(insight.into())).unwrap();
    let shadow = ["inspect", "dataplane", "web-1", "--type", "config", "--shadow", "--include", "diff"];
    let diff = run(&shadow);
    assert!(diff.contains("\n- \"1s\"\n+ \"77s\"\n"), "{diff}");
    let diff: Value = serde_json::from_str(&run(&[&shadow[..], &["-o", "json"]].concat())).unwrap();
    assert!(diff["xds"].is_object() && diff["diff"][0]["op"] == "test", "{diff}");
    bed.run(&["inspect", "dataplane", "web-1", "--type", "config", "--include", "diff"]).is(2);
}

/// The examples are what new users see first.
#[test]
fn policies_of_the_example_are_in_force() {
    let bed = Bed::start();
    bed.kodiak.file("demo.yaml", include_str!("../../../../../examples/demo.yaml"));
    bed.run(&["apply", "-f", "demo.yaml"]).is(0);
    bed.wait_for("policies of the example are in force", || {
        let listed = bed.run(&["get", "policies", "-m", "demo", "-o", "json"]).is(0);
        let listed: Value = serde_json::from_str(&listed.out).unwrap();
        let own = |name: &str| listed["items"].as_array().unwrap().iter().find(|one| one["name"] == name).cloned();
        ["frontend-to-backend", "backend-is-quick"]
            .iter()
            .all(|name| own(name).is_some_and(|one| one["state"] == "InForce"))
    });
}

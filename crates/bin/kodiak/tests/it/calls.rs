//! `kodiak graph` and `kodiak why`, from files and from a control plane; `kodiak permissions check` and
//! `kodiak reachability`.

use expect_test::expect;
use kodiak_model::{Labels, ResourceKey};
use kodiak_store::{Expect, Write};
use serde_json::{Value, json};

use crate::Kodiak;
use crate::inspect::Bed;

fn dataplane(name: &str, service: &str, address: &str) -> String {
    format!(
        "
---
type: Dataplane
mesh: default
name: {name}
networking:
  address: {address}
  inbound:
  - {{port: 8080, tags: {{kuma.io/service: {service}, kuma.io/protocol: http}}}}
  transparentProxying: {{redirectPortInbound: 15006, redirectPortOutbound: 15001}}
"
    )
}

fn permission(name: &str, to: &str, from: &str) -> String {
    format!(
        "
---
type: MeshTrafficPermission
mesh: default
name: {name}
spec:
  targetRef: {{kind: MeshSubset, tags: {{kuma.io/service: {to}}}}}
  from:
  - targetRef: {{kind: MeshService, name: {from}}}
    default: {{action: Allow}}
"
    )
}

/// Traffic that a control plane observed before it ended.
fn observe(bed: &Bed, clients: &Value) {
    let write = Write::Put {
        key: ResourceKey::in_mesh("Config", "default", "traffic.0"),
        spec: json!({ "clients": clients }).to_string().into(),
        labels: Labels::new(),
        owner: Some(ResourceKey::global("Mesh", "default")),
        expect: Expect::Any,
    };
    bed.runtime.block_on(bed.control_plane.catalog.store().commit(write.into())).unwrap();
}

/// `web` may call `backend`, which may call `db`.
fn files() -> String {
    let mesh = "\
type: Mesh
name: default
mtls:
  enabledBackend: ca
  backends:
  - {name: ca, type: builtin}
";
    [
        mesh.to_owned(),
        dataplane("web-1", "web", "10.0.0.1"),
        dataplane("backend-1", "backend", "10.0.0.2"),
        dataplane("db-1", "db", "10.0.0.3"),
        permission("to-backend", "backend", "web"),
        permission("to-db", "db", "backend"),
    ]
    .concat()
}

#[test]
fn graph_of_files() {
    let kodiak = Kodiak::new();
    kodiak.file("mesh.yaml", &files());
    let run = |args: &[&str]| kodiak.run(&[&["graph", "-f", "mesh.yaml"], args].concat());
    expect![[r#"
        CLIENTS   DESTINATIONS   REASON
        backend   db             kri_mtp_default_default__to-db_
        web       backend        kri_mtp_default_default__to-backend_

        Mesh default: 3 clients by service, 3 destinations
    "#]]
    .assert_eq(&run(&[]).is(0).out);
    let json: Value = serde_json::from_str(&run(&["--client", "web", "-o", "json"]).is(0).out).unwrap();
    let edge = json!({
        "clients": { "kind": "only", "names": ["web"] },
        "destinations": { "kind": "only", "names": ["backend"] },
        "reason": { "kind": "allowed", "policy": "kri_mtp_default_default__to-backend_" },
    });
    assert_eq!(json, json!({ "mesh": "default", "clients": 3, "destinations": 3, "edges": [edge] }));
    assert!(run(&["--destination", "db", "-o", "yaml"]).is(0).out.contains("policy: kri_mtp_default_default__to-db_"));
    assert!(run(&["-o", "dot"]).is(0).out.starts_with("digraph \"default\" {\n"));
    assert!(run(&["-o", "mermaid"]).is(0).out.contains("-->|\"kri_mtp_default_default__to-db_\"|"));
    let unknown = run(&["--client", "wbe"]).is(1);
    assert!(unknown.err.contains("no service \"wbe\"; did you mean web?"), "{}", unknown.err);
}

#[test]
fn whole_mesh_rule_is_one_line_for_a_thousand_services() {
    let kodiak = Kodiak::new();
    let mut text = String::from(
        "type: Mesh\nname: default\nmtls: {enabledBackend: ca, backends: [{name: ca, type: builtin}]}\n---\n\
         type: MeshTrafficPermission\nmesh: default\nname: all\nspec:\n  targetRef: {kind: Mesh}\n  from:\n  \
         - {targetRef: {kind: Mesh}, default: {action: Allow}}\n",
    );
    (0..1000).for_each(|n| text.push_str(&dataplane(&format!("s{n}-1"), &format!("s{n}"), "10.0.0.1")));
    kodiak.file("mesh.yaml", &text);
    expect![[r#"
        CLIENTS   DESTINATIONS   REASON
        all       all            kri_mtp_default_default__all_

        Mesh default: 1000 clients by service, 1000 destinations
    "#]]
    .assert_eq(&kodiak.run(&["graph", "-f", "mesh.yaml"]).is(0).out);
}

#[test]
fn why_of_files() {
    let kodiak = Kodiak::new();
    kodiak.file("mesh.yaml", &files());
    let run = |args: &[&str]| kodiak.run(&[&["why", "-f", "mesh.yaml"], args].concat());
    expect![[r#"
        web-1 can call backend: allowed by kri_mtp_default_default__to-backend_ (not known: address, proxies)

          ok       name        backend.mesh is a hostname of the kuma.io/service backend
          unknown  address     files have no virtual addresses; the control plane allocates them
                               hostname backend.mesh
          ok       outbound    present: the Dataplane has no reachable list
          ok       cluster     cluster backend in Envoy's statistics and logs
          ok       endpoints   1 of 1 instances are ready endpoints
                               backend-1 at 10.0.0.2:8080: Ready, zone default
          ok       tls         mutual TLS; the servers present SANs that the client expects
                               expected SAN spiffe://default/backend
                               presented SAN spiffe://default/backend
          ok       permission  allowed by kri_mtp_default_default__to-backend_
          unknown  proxies     files do not show connections of proxies
    "#]]
    .assert_eq(&run(&["web", "backend.mesh"]).is(0).out);
    let denied = run(&["web", "db"]).is(4);
    let first = "web-1 cannot call db: no MeshTrafficPermission of db allows web-1\n";
    assert!(denied.out.starts_with(first), "{}", denied.out);
    let trimmed = run(&["web", "db", "--reachability", "on", "-o", "json"]).is(4);
    let trimmed: Value = serde_json::from_str(&trimmed.out).unwrap();
    assert_eq!(trimmed["verdict"], "fails");
    assert!(trimmed["summary"].as_str().unwrap().contains("trimmed"), "{trimmed}");
    let unknown = run(&["web", "bakcend"]).is(1);
    assert!(unknown.err.contains("there is no destination \"bakcend\"; did you mean backend?"), "{}", unknown.err);
    run(&["web", "backend:1"]).is(1);
    run(&["web", "backend", "--reachability", "sometimes"]).is(2);
    run(&["web", ""]).is(2);
}

#[test]
fn control_plane_and_files_give_the_same_answers() {
    let bed = Bed::start();
    bed.kodiak.file("mesh.yaml", &files());
    bed.run(&["apply", "-f", "mesh.yaml"]).is(0);
    // The default permission of a mesh would allow everything.
    bed.run(&["delete", "meshtrafficpermission", "mesh-traffic-permission-all-default"]);
    let graph = |args: &[&str]| -> Value {
        serde_json::from_str(&bed.run(&[&["graph", "-o", "json"], args].concat()).is(0).out).unwrap()
    };
    let of_files = graph(&["-f", "mesh.yaml"]);
    // Mutual TLS is rolled out in steps.
    bed.wait_for("mutual TLS", || graph(&[]) == of_files);

    let missing = bed.run(&["why", "web", "bakend"]).is(1);
    assert!(missing.err.contains("did you mean backend?"), "{}", missing.err);
    let offline = bed.run(&["why", "web", "backend"]).is(4);
    assert!(offline.out.contains("proxy web-1 has never connected"), "{}", offline.out);
    for name in ["web-1", "backend-1"] {
        let total = json!({ "responsesSent": "4", "responsesAcknowledged": "4" });
        let subscription = json!({ "id": "1", "connectTime": "2026-01-01T00:00:00Z", "status": { "total": total } });
        let write = Write::Put {
            key: ResourceKey::in_mesh("DataplaneInsight", "default", name),
            spec: json!({ "subscriptions": [subscription] }).to_string().into(),
            labels: Labels::new(),
            owner: Some(ResourceKey::in_mesh("Dataplane", "default", name)),
            expect: Expect::Absent,
        };
        bed.runtime.block_on(bed.control_plane.catalog.store().commit(write.into())).unwrap();
    }
    bed.wait_for("a virtual address", || bed.run(&["why", "web", "backend"]).code == 0);
    let works = bed.run(&["why", "web", "backend", "-o", "json"]).is(0);
    let works: Value = serde_json::from_str(&works.out).unwrap();
    assert_eq!(works["summary"], "web-1 can call backend: allowed by kri_mtp_default_default__to-backend_");
    assert!(works["steps"].as_array().unwrap().iter().all(|step| step["state"] == "ok"), "{works:#}");
    bed.run(&["why", "web", "db"]).is(4);
    bed.run(&["graph", "-m", "nothing"]).is(1);
}

#[test]
fn permissions_are_checked_before_they_are_applied() {
    let bed = Bed::start();
    bed.kodiak.file("mesh.yaml", &files());
    bed.run(&["apply", "-f", "mesh.yaml"]).is(0);
    bed.run(&["delete", "meshtrafficpermission", "mesh-traffic-permission-all-default"]);
    let check = |args: &[&str]| bed.run(&[&["permissions", "check"], args].concat());
    bed.wait_for("mutual TLS", || check(&["-o", "json"]).is(0).out.contains("\"enforced\": true"));
    let fine = check(&[]).is(0);
    assert!(fine.out.contains("No observed call in mesh default is denied"), "{}", fine.out);

    // A caller that is replaced loses access; the new one does not.
    bed.kodiak.file("new.yaml", permission("to-db", "db", "web").trim_start_matches("\n---\n"));
    let found = check(&["-f", "new.yaml"]).is(0);
    expect![[r#"
        CLIENTS   LOSE ACCESS TO   RULE
        backend   db               not allowed by any

        Callers in mesh default lose access, but none of them was observed to call
        No traffic was observed, so nothing is known about actual callers
    "#]]
    .assert_eq(&found.out);
    let found = check(&["-f", "new.yaml", "--strict", "-o", "json"]).is(4);
    let found: Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!(found["lost"][0]["clients"], json!({ "kind": "only", "names": ["backend"] }));
    assert_eq!(found["lost"][0]["reason"], json!({ "kind": "notAllowed" }));
    // Nothing was stored.
    check(&["--strict"]).is(0);

    // Requests, failed and open ones, and the seconds in which they were first and last seen.
    let calls = json!({ "observed": [[0, 3600]], "destinations": { "db": [7, 0, 0, 60, 120] } });
    observe(&bed, &json!({ "backend": calls, "web": calls }));
    let found = check(&["-f", "new.yaml"]).is(4);
    expect![[r#"
        CLIENTS   LOSE ACCESS TO   RULE
        backend   db               not allowed by any

        OBSERVED CLIENT   DESTINATION   REQUESTS   FIRST SEEN             LAST SEEN              DENIED   RULE
        backend           db            7          1970-01-01T00:01:00Z   1970-01-01T00:02:00Z   yes      not allowed by any

        1 observed caller in mesh default would lose access
        Traffic was observed from 1970-01-01T00:00:00Z to 1970-01-01T01:00:00Z
    "#]]
    .assert_eq(&found.out);
    // Old traffic can be left out.
    check(&["-f", "new.yaml", "--since", "24h"]).is(0);
    // A deletion is a change, too.
    let found = check(&["--delete", "meshtrafficpermission/to-db", "-o", "json"]).is(4);
    assert!(found.out.contains("\"client\": \"backend\""), "{}", found.out);
    check(&["--delete", "to-db"]).is(2);
    // The current permissions deny calls that web makes.
    let found = check(&["-o", "json"]).is(4);
    let found: Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!(found["observed"].as_array().unwrap().len(), 1, "{found:#}");
    assert_eq!((&found["observed"][0]["client"], &found["observed"][0]["requests"]), (&json!("web"), &json!(7)));
    bed.kodiak.file("bad.yaml", "type: MeshTrafficPermission\nmesh: default\nname: x\nspec: {from: 7}\n");
    check(&["-f", "bad.yaml"]).is(1);
    bed.kodiak.file("other.yaml", "type: MeshTrafficPermission\nmesh: other\nname: x\nspec: {}\n");
    assert_ne!(check(&["-f", "other.yaml"]).code, 0);
}

#[test]
fn reachability_reports_what_would_be_trimmed() {
    let bed = Bed::start();
    bed.kodiak.file(
        "mesh.yaml",
        &files().replacen("name: default\n", "name: default\nlabels: {kodiak.io/reachability: shadow}\n", 1),
    );
    bed.run(&["apply", "-f", "mesh.yaml"]).is(0);
    bed.run(&["delete", "meshtrafficpermission", "mesh-traffic-permission-all-default"]);
    let table = || bed.run(&["reachability"]).is(0).out;
    bed.wait_for("mutual TLS", || !table().contains("(open)"));
    expect![[r#"
        DATAPLANE   SERVICE   MODE            CONFIGURED   CALLABLE   TRIMMED   DESTINATIONS         USED
        backend-1   backend   shadow (mesh)   3            1          2         all except db        -
        db-1        db        shadow (mesh)   3            0          3         all                  -
        web-1       web       shadow (mesh)   3            1          2         all except backend   -

        3 proxies in mesh default; none has called a destination that is trimmed, or would be
    "#]]
    .assert_eq(&table());
    let one: Value = serde_json::from_str(&bed.run(&["reachability", "web", "-o", "json"]).is(0).out).unwrap();
    assert_eq!(one["items"].as_array().unwrap().len(), 1);
    assert_eq!(one["items"][0]["trimmedDestinations"], json!({ "kind": "allExcept", "names": ["backend"] }));
    assert_eq!(bed.run(&["reachability", "--used"]).is(0).out, "No proxies in mesh default\n");
    let without = bed.run(&["reachability", "backend", "--without", "to-db", "-o", "json"]).is(0);
    let without: Value = serde_json::from_str(&without.out).unwrap();
    assert_eq!((&without["items"][0]["callable"], &without["items"][0]["trimmed"]), (&json!(0), &json!(3)));
    assert!(bed.run(&["reachability", "--without", "nothing"]).is(1).err.contains("no MeshTrafficPermission"));
    let calls =
        json!({ "observed": [[0, 3600]], "destinations": { "db": [7, 0, 0, 60, 120], "backend": [1, 0, 0, 60, 60] } });
    observe(&bed, &json!({ "web": calls }));
    expect![[r#"
        DATAPLANE   SERVICE   MODE            CONFIGURED   CALLABLE   TRIMMED   DESTINATIONS         USED
        web-1       web       shadow (mesh)   3            1          2         all except backend   db (7, last 1970-01-01T00:02:00Z)

        1 proxy in mesh default; 1 has called destinations that are trimmed, or would be
    "#]]
    .assert_eq(&bed.run(&["reachability", "--used"]).is(0).out);
}

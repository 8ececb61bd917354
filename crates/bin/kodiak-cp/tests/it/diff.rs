//! Configuration diff of planned writes.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hyper::{Method, StatusCode};
use kodiak_kinds::kinds;
use kodiak_model::ResourceKey;
use serde_json::{Value, json};

use crate::harness::{Answer, TestControlPlane};

const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";

/// Dataplane with one service, and an outbound for each destination.
fn dataplane(name: &str, service: &str, calls: &[&str]) -> Value {
    let outbounds: Vec<_> = (10001..)
        .zip(calls)
        .map(|(port, called)| json!({ "port": port, "tags": { "kuma.io/service": called } }))
        .collect();
    json!({
        "type": "Dataplane", "mesh": "default", "name": name,
        "networking": {
            "address": address(name),
            "inbound": [{ "port": 8080, "tags": { "kuma.io/service": service, "kuma.io/protocol": "http" } }],
            "outbound": outbounds,
        },
    })
}

/// Distinct address for each name.
fn address(name: &str) -> String {
    format!("10.0.0.{}", name.bytes().map(u32::from).sum::<u32>() % 250 + 1)
}

/// Overrides the default policies of a mesh, whose names sort later.
fn timeout(name: &str, called: &str, seconds: u32) -> Value {
    let to = json!([{
        "targetRef": { "kind": "MeshService", "name": called },
        "default": { "connectionTimeout": format!("{seconds}s") },
    }]);
    json!({ "type": "MeshTimeout", "mesh": "default", "name": name, "spec": { "to": to } })
}

/// Two proxies that call `api`, one that calls `web`.
async fn mesh() -> TestControlPlane {
    let cp = TestControlPlane::start().await;
    for (name, service, calls) in [
        ("api-1", "api", &[][..]),
        ("web-1", "web", &["api"]),
        ("web-2", "web", &["api"]),
        ("edge-1", "edge", &["web"]),
    ] {
        let put = cp.put(&format!("/meshes/default/dataplanes/{name}"), &dataplane(name, service, calls)).await;
        assert_eq!(put.status, StatusCode::CREATED, "{}", put.text);
    }
    cp
}

async fn ask(cp: &TestControlPlane, path: &str, change: &Value) -> Answer {
    cp.send(Method::POST, path, &[], change.to_string()).await
}

#[track_caller]
fn fine(answer: &Answer) -> Value {
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer.json()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

/// Resources of users with their revisions, without those that the control plane writes.
fn stored(cp: &TestControlPlane) -> Vec<(ResourceKey, u64)> {
    let snapshot = cp.control_plane.catalog.store().snapshot();
    let kinds = kinds().iter().filter(|kind| !kind.read_only());
    let records = kinds.flat_map(|kind| snapshot.list(kind.name));
    records.map(|record| (record.key.clone(), record.revision)).collect()
}

const DIFF: &str = "/meshes/default/_diff";

#[tokio::test]
async fn timeout_for_a_service_changes_only_its_clients() {
    let cp = mesh().await;
    let before = stored(&cp);
    let change = json!({ "resources": [timeout("fast", "api", 7)] });
    let answer = fine(&ask(&cp, DIFF, &change).await);
    assert_eq!(
        answer["changes"],
        json!([{ "type": "MeshTimeout", "name": "fast", "effect": "created", "warnings": [] }])
    );
    assert_eq!(names(&answer["proxies"]), ["web-1", "web-2"]);
    assert_eq!((&answer["unchanged"], &answer["faults"], &answer["leftOut"]), (&json!(2), &json!([]), &json!(0)));
    let first = &answer["proxies"][0];
    assert_eq!((&first["added"], &first["removed"]), (&json!([]), &json!([])));
    assert_eq!((names(&first["changed"]), first["changed"][0].get("patch")), (vec!["api"], None));
    assert_eq!(answer["bytes"].as_u64(), first["bytes"].as_u64().map(|bytes| 2 * bytes), "both are sent the same");

    let full = fine(&ask(&cp, &format!("{DIFF}?full=true"), &change).await);
    let patch = full["proxies"][0]["changed"][0]["patch"].as_array().unwrap().clone();
    let added: Vec<_> = patch.iter().filter(|operation| operation["op"] == "add").collect();
    assert_eq!((added.len(), &added[0]["path"], &added[0]["value"]), (1, &json!("/connectTimeout"), &json!("7s")));

    assert_eq!(stored(&cp), before, "nothing is stored");
    assert_eq!(cp.get("/meshes/default/meshtimeouts/fast").await.status, StatusCode::NOT_FOUND);

    // After the write, the same diff is empty.
    assert_eq!(cp.put("/meshes/default/meshtimeouts/fast", &change["resources"][0]).await.status, StatusCode::CREATED);
    let again = fine(&ask(&cp, DIFF, &change).await);
    assert_eq!((&again["changes"][0]["effect"], &again["proxies"]), (&json!("unchanged"), &json!([])));
    let deleted = json!({ "deleted": [{ "type": "MeshTimeout", "name": "fast" }] });
    let undone = fine(&ask(&cp, DIFF, &deleted).await);
    assert_eq!(undone["changes"][0]["effect"], "deleted");
    assert_eq!((names(&undone["proxies"]), &undone["unchanged"]), (vec!["web-1", "web-2"], &json!(2)));
    let other = fine(&ask(&cp, DIFF, &json!({ "resources": [timeout("fast", "api", 8)] })).await);
    assert_eq!((&other["changes"][0]["effect"], names(&other["proxies"])), (&json!("updated"), vec!["web-1", "web-2"]));
}

#[tokio::test]
async fn added_and_deleted_proxies_are_shown_with_their_effect_on_others() {
    let cp = mesh().await;
    let new = fine(&ask(&cp, DIFF, &json!({ "resources": [dataplane("api-2", "api", &["web"])] })).await);
    assert_eq!(names(&new["proxies"]), ["api-2", "web-1", "web-2"]);
    let itself = &new["proxies"][0];
    assert!(itself["counts"]["added"].as_u64() > Some(3), "{itself}");
    assert_eq!((&itself["counts"]["changed"], &itself["counts"]["removed"]), (&json!(0), &json!(0)));
    assert!(itself["added"].as_array().unwrap().iter().any(|one| one["type"] == LISTENER), "{itself}");
    assert_eq!(new["proxies"][1]["counts"], json!({ "added": 0, "removed": 0, "changed": 1 }), "its endpoints");
    assert_eq!(new["unchanged"], 2);

    let gone = fine(&ask(&cp, DIFF, &json!({ "deleted": [{ "type": "Dataplane", "name": "api-1" }] })).await);
    assert_eq!((names(&gone["proxies"]), &gone["unchanged"]), (vec!["web-1", "web-2"], &json!(1)));
}

#[tokio::test]
async fn proxy_with_an_invalid_snapshot_is_reported_with_the_fault() {
    let cp = mesh().await;
    let mut twice = dataplane("web-1", "web", &["api"]);
    let inbound = json!({ "port": 9000, "tags": { "kuma.io/service": "web" } });
    twice["networking"]["inbound"].as_array_mut().unwrap().push(inbound.clone());
    twice["networking"]["inbound"].as_array_mut().unwrap().push(inbound);
    let answer = ask(&cp, DIFF, &json!({ "resources": [twice] })).await;
    let answer = fine(&answer);
    assert_eq!(names(&answer["faults"]), ["web-1"], "{answer}");
    assert!(answer["faults"][0]["faults"][0].as_str().unwrap().contains(":9000"), "{answer}");
    assert!(!names(&answer["proxies"]).contains(&"web-1"), "{answer}");
}

#[tokio::test]
async fn writes_without_effect_change_no_proxy() {
    let cp = mesh().await;
    let mut shadow = timeout("tried", "api", 7);
    shadow["labels"] = json!({ "kuma.io/effect": "shadow" });
    let zone = json!({ "type": "Zone", "name": "east" });
    let answer = fine(&ask(&cp, DIFF, &json!({ "resources": [shadow, zone] })).await);
    assert_eq!((&answer["proxies"], &answer["unchanged"], &answer["bytes"]), (&json!([]), &json!(4), &json!(0)));
    let [tried, zone] = [0, 1].map(|n| answer["changes"][n].clone());
    assert_eq!((&tried["effect"], &zone["effect"]), (&json!("created"), &json!("created")));
    assert!(tried["warnings"].to_string().contains("kuma.io/effect: shadow"), "{tried}");
    assert_eq!(zone["warnings"], json!([]));
}

#[tokio::test]
async fn mtls_diff_shows_the_last_step() {
    let cp = mesh().await;
    let backends = json!([{ "name": "ca", "type": "builtin" }]);
    let mesh = json!({ "type": "Mesh", "name": "default", "mtls": { "enabledBackend": "ca", "backends": backends } });
    let answer = fine(&ask(&cp, &format!("{DIFF}?full=1"), &json!({ "resources": [mesh] })).await);
    assert_eq!((names(&answer["proxies"]).len(), &answer["unchanged"]), (4, &json!(0)));
    let first = answer["proxies"][0].to_string();
    assert!(first.contains("identity_cert:secret:default") && first.contains("/filterChains/"), "{first}");
}

/// The diff includes MeshServices that the control plane would create or delete.
#[tokio::test]
async fn mode_of_mesh_services_is_shown_with_generated_services() {
    let cp = mesh().await;
    let mut redirected = dataplane("front-1", "front", &[]);
    redirected["networking"]["transparentProxying"] =
        json!({ "redirectPortInbound": 15006, "redirectPortOutbound": 15001 });
    assert_eq!(cp.put("/meshes/default/dataplanes/front-1", &redirected).await.status, StatusCode::CREATED);
    let mesh = |mode: &str| json!({ "type": "Mesh", "name": "default", "meshServices": { "mode": mode } });
    let everywhere = fine(&ask(&cp, DIFF, &json!({ "resources": [mesh("Everywhere")] })).await);
    assert_eq!((names(&everywhere["proxies"]), &everywhere["unchanged"]), (vec!["front-1"], &json!(4)));
    let first = &everywhere["proxies"][0];
    // A cluster, its endpoints and a listener for each of api, edge, front and web.
    assert_eq!(first["counts"], json!({ "added": 12, "removed": 0, "changed": 0 }));
    assert!(names(&first["added"]).contains(&"web__default_default_msvc_8080"), "{first}");

    let exclusive = fine(&ask(&cp, DIFF, &json!({ "resources": [mesh("Exclusive")] })).await);
    let proxies = exclusive["proxies"].as_array().unwrap();
    let counts = |name: &str| proxies.iter().find(|proxy| proxy["name"] == name).map(|proxy| &proxy["counts"]);
    assert_eq!(counts("front-1"), Some(&json!({ "added": 12, "removed": 12, "changed": 0 })), "{exclusive}");
    // Listed outbounds with tags have no destination in this mode: a cluster, its endpoints and a listener go.
    assert_eq!(counts("web-1"), Some(&json!({ "added": 0, "removed": 3, "changed": 0 })), "{exclusive}");

    cp.put("/meshes/default", &mesh("Everywhere")).await;
    let path = "/meshes/default/meshservices";
    while cp.get(path).await.json()["items"].as_array().is_none_or(|all| all.len() < 4) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let back = fine(&ask(&cp, DIFF, &json!({ "resources": [mesh("Disabled")] })).await);
    assert_eq!(back["proxies"][0]["counts"], json!({ "added": 0, "removed": 12, "changed": 0 }));
}

#[tokio::test]
async fn invalid_writes_fail_with_the_same_problems() {
    let cp = mesh().await;
    let mut wrong = timeout("wrong", "api", 7);
    wrong["spec"]["to"][0]["default"]["connectionTimeout"] = json!("-7s");
    let written = cp.put("/meshes/default/meshtimeouts/wrong", &wrong).await;
    let asked = ask(&cp, DIFF, &json!({ "resources": [timeout("fast", "api", 7), wrong, wrong_again(&wrong)] })).await;
    assert_eq!((written.status, asked.status), (StatusCode::BAD_REQUEST, StatusCode::BAD_REQUEST));
    let expected: Vec<_> = (1..3).flat_map(|n| at(n, &written)).collect();
    assert_eq!(asked.problems(), expected);

    for (change, status, detail) in [
        (json!({ "resources": [{ "type": "MeshTimout", "name": "x" }] }), 400, "there is no kind \"MeshTimout\""),
        (json!({ "resources": [{ "type": "DataplaneInsight", "name": "x" }] }), 405, "is read-only"),
        (json!({ "resources": [{ "type": "Mesh", "name": "other" }] }), 400, "does not match mesh \"default\""),
        (json!({ "resources": [timeout("a", "api", 1), timeout("a", "api", 2)] }), 400, "occurs more than once"),
        (
            json!({ "deleted": [{ "type": "MeshTimeout", "name": "x" }] }),
            404,
            "there is no MeshTimeout \"x\" to delete",
        ),
        (json!({ "deleted": [{ "type": "Mesh", "name": "default" }] }), 400, "Resource is not valid"),
        (json!({ "resource": [] }), 400, "the body must be"),
    ] {
        let answer = ask(&cp, DIFF, &change).await;
        assert_eq!(answer.status.as_u16(), status, "{change}: {}", answer.text);
        assert!(answer.json()["detail"].as_str().unwrap().contains(detail), "{change}: {}", answer.text);
    }
    assert_eq!(ask(&cp, "/meshes/none/_diff", &json!({})).await.status, StatusCode::NOT_FOUND);
    assert_eq!(ask(&cp, &format!("{DIFF}?full=perhaps"), &json!({})).await.status, StatusCode::BAD_REQUEST);
    let nothing = fine(&ask(&cp, DIFF, &json!({})).await);
    assert_eq!((&nothing["changes"], &nothing["proxies"], &nothing["unchanged"]), (&json!([]), &json!([]), &json!(4)));
}

fn wrong_again(wrong: &Value) -> Value {
    let mut again = wrong.clone();
    again["name"] = json!("again");
    again
}

/// Problems of a document, with paths below `resources[n]`.
fn at(n: usize, answer: &Answer) -> Vec<String> {
    answer.problems().into_iter().map(|problem| format!("resources[{n}].{problem}")).collect()
}

/// Certificates and Secrets are read for a diff as they are for a proxy, and private keys are not shown.
#[tokio::test]
async fn external_service_with_tls_shows_its_changes() {
    let cp = mesh().await;
    let mut redirected = dataplane("front-1", "front", &[]);
    redirected["networking"]["transparentProxying"] =
        json!({ "redirectPortInbound": 15006, "redirectPortOutbound": 15001 });
    assert_eq!(cp.put("/meshes/default/dataplanes/front-1", &redirected).await.status, StatusCode::CREATED);
    let everywhere = json!({ "type": "Mesh", "name": "default", "meshServices": { "mode": "Everywhere" } });
    assert_eq!(cp.put("/meshes/default", &everywhere).await.status, StatusCode::OK);
    let secret = |name: &str, label: &str, content: &str| {
        let pem = format!("-----BEGIN {label}-----\n{content}\n-----END {label}-----\n");
        json!({ "type": "Secret", "mesh": "default", "name": name, "data": BASE64_STANDARD.encode(pem) })
    };
    for (name, label) in [("outside-ca", "CERTIFICATE"), ("outside-key", "PRIVATE KEY")] {
        let put = cp.put(&format!("/meshes/default/secrets/{name}"), &secret(name, label, "b25l")).await;
        assert_eq!(put.status, StatusCode::CREATED, "{}", put.text);
    }
    let outside = |address: &str| {
        let verification = json!({
            "mode": "Secured", "caCert": { "secret": "outside-ca" }, "clientCert": { "secret": "outside-ca" },
            "clientKey": { "secret": "outside-key" },
        });
        let matching = json!({ "type": "HostnameGenerator", "port": 443, "protocol": "tcp" });
        json!({
            "type": "MeshExternalService", "mesh": "default", "name": "outside",
            "spec": {
                "match": matching, "endpoints": [{ "address": address, "port": 443 }],
                "tls": { "enabled": true, "verification": verification },
            },
        })
    };
    let put = cp.put("/meshes/default/meshexternalservices/outside", &outside("192.0.2.1")).await;
    assert_eq!(put.status, StatusCode::CREATED, "{}", put.text);

    let changed = |answer: &Value| {
        let proxies = answer["proxies"].as_array().unwrap().clone();
        let front = proxies.into_iter().find(|proxy| proxy["name"] == "front-1").unwrap_or_else(|| panic!("{answer}"));
        names(&front["changed"]).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let full = format!("{DIFF}?full=true");
    let moved = fine(&ask(&cp, &full, &json!({ "resources": [outside("192.0.2.2")] })).await);
    assert!(changed(&moved).iter().any(|name| name.starts_with("outside_")), "{moved}");
    assert!(moved.to_string().contains("192.0.2.2"), "{moved}");
    for (name, label) in [("outside-ca", "CERTIFICATE"), ("outside-key", "PRIVATE KEY")] {
        let renewed = fine(&ask(&cp, &full, &json!({ "resources": [secret(name, label, "dHdv")] })).await);
        assert!(changed(&renewed).iter().any(|name| name.starts_with("outside_")), "{name}: {renewed}");
        let key = secret("", "PRIVATE KEY", "dHdv")["data"].as_str().unwrap().to_owned();
        assert!(!renewed.to_string().contains(&key), "{renewed}");
    }
}

//! References of Dataplanes: route, status and warnings.

use axum::http::Method;
use kodiak_model::ResourceKey;
use kodiak_store::{Expect, Transaction, Write};
use serde_json::{Value, json};

use super::{World, texts};

const CLIENT: &str = "/meshes/default/dataplanes/client";

fn client(networking: &Value) -> Value {
    let mut document = json!({ "type": "Dataplane", "mesh": "default", "name": "client", "networking": networking });
    document["networking"]["address"] = json!("127.0.0.1");
    document["networking"]["inbound"] = json!([{ "port": 7070, "tags": { "kuma.io/service": "client" } }]);
    document
}

fn backends(refs: &Value) -> Value {
    let lists = json!({ "reachableBackends": { "refs": refs } });
    client(&json!({ "transparentProxying": lists }))
}

/// Path and reason of each reference with a problem.
fn troubles(references: &Value) -> Vec<(&str, &str)> {
    let all = references.as_array().into_iter().flatten();
    let troubled = all.filter(|one| one.get("trouble").is_some());
    troubled.map(|one| (one["path"].as_str().unwrap(), one["trouble"]["reason"].as_str().unwrap())).collect()
}

async fn write(world: &World, path: &str, document: &Value) -> (u16, Vec<String>) {
    let (status, body) = world.ask(Method::PUT, path, document.to_string()).await;
    (status, serde_json::from_value(body["warnings"].clone()).unwrap_or_default())
}

#[tokio::test]
async fn reference_has_a_problem_until_its_target_exists() {
    let world = World::new("Everywhere").await;
    let document = backends(&json!([{ "kind": "MeshService", "name": "web" }]));
    let (status, warnings) = write(&world, CLIENT, &document).await;
    let path = "networking.transparentProxying.reachableBackends.refs[0]";
    let message =
        "there is no MeshService \"web\" in zone \"east\"; fix the reference, or start a Dataplane of the service";
    assert_eq!((status, warnings), (201, vec![format!("{path}: {message}")]));
    let trouble = json!([{ "path": path, "means": [], "trouble": { "reason": "Unresolved", "message": message } }]);
    let read = world.get(CLIENT).await;
    assert_eq!(read["status"], json!({ "references": trouble }));
    let by_kri = world.get(&format!("/_kri/{}", read["kri"].as_str().unwrap())).await;
    assert_eq!(by_kri["status"], read["status"]);
    for list in ["/meshes/default/dataplanes", "/dataplanes"] {
        assert_eq!(world.get(list).await["items"][0]["status"], read["status"], "{list}");
    }
    assert_eq!(world.get(&format!("{CLIENT}/_references")).await["references"], trouble);

    world.service("web").await;
    let means = json!(["kri_msvc_default_east__web_81", "kri_msvc_default_east__web_http"]);
    let all = world.get(&format!("{CLIENT}/_references")).await;
    assert_eq!(all, json!({ "references": [{ "path": path, "means": means }] }));
    assert_eq!(world.get(CLIENT).await.get("status"), None);
    assert_eq!(write(&world, CLIENT, &document).await, (200, vec![]));
}

#[tokio::test]
async fn dataplane_with_a_status_can_be_written_back() {
    let world = World::new("Exclusive").await;
    let outbound = json!([{ "port": 1, "backendRef": { "kind": "MeshService", "name": "web", "port": 80 } }]);
    let (_, first) = write(&world, CLIENT, &client(&json!({ "outbound": outbound }))).await;
    assert!(first.len() == 1 && first[0].starts_with("networking.outbound[0].backendRef: "), "{first:?}");
    let read = world.get(CLIENT).await;
    assert_eq!(troubles(&read["status"]["references"]), [("networking.outbound[0].backendRef", "Unresolved")]);
    assert_eq!(write(&world, CLIENT, &read).await, (200, first));
    assert_eq!(world.get(CLIENT).await["modificationTime"], read["modificationTime"]);
}

#[tokio::test]
async fn dry_run_returns_the_same_warnings_and_stores_nothing() {
    let world = World::new("Disabled").await;
    world.service("web").await;
    let services = json!({ "transparentProxying": { "reachableServices": ["client", "gone"] } });
    let document = client(&services);
    let (status, dry) = write(&world, &format!("{CLIENT}?dryRun=true"), &document).await;
    assert_eq!(status, 201);
    let paths: Vec<_> = dry.iter().map(|text| text.split_once(": ").unwrap().0).collect();
    let list = "networking.transparentProxying.reachableServices";
    assert_eq!(paths, [list, &format!("{list}[1]")]);
    assert_eq!(world.refused(CLIENT).await.0, 404);
    assert_eq!(write(&world, CLIENT, &document).await, (201, dry));
}

#[tokio::test]
async fn only_ready_inbounds_provide_services() {
    let world = World::new("Disabled").await;
    let inbound =
        |service: &str, state: &str| json!({ "port": 80, "state": state, "tags": { "kuma.io/service": service } });
    world.dataplane("a", json!({ "inbound": [inbound("web", "Ready")] })).await;
    world.dataplane("b", json!({ "inbound": [inbound("off", "Ignored")] })).await;
    let calls = json!([{ "port": 1, "tags": { "kuma.io/service": "called" } }]);
    world.dataplane("c", json!({ "inbound": [inbound("x", "Ready")], "outbound": calls })).await;
    let lists = json!({ "reachableServices": ["web", "off", "called"] });
    let (_, warnings) = write(&world, CLIENT, &client(&json!({ "transparentProxying": lists }))).await;
    let all = world.get(&format!("{CLIENT}/_references")).await["references"].clone();
    let list = "networking.transparentProxying.reachableServices";
    let entries = [1, 2].map(|n| format!("{list}[{n}]"));
    assert_eq!(troubles(&all), [(&*entries[0], "Unresolved"), (&*entries[1], "Unresolved")]);
    assert_eq!((&all[0]["means"], warnings.len()), (&json!(["web"]), 2));
    assert_eq!(texts(&world.get(CLIENT).await["status"]["references"], "/path"), entries);
}

#[tokio::test]
async fn reachable_lists_depend_on_the_transparent_proxy() {
    let world = World::new("Everywhere").await;
    world.service("web").await;
    world.write(CLIENT, &backends(&json!([{ "kind": "MeshService", "name": "web" }]))).await;
    assert_eq!(world.get(CLIENT).await.get("status"), None, "nobody knows yet");
    let redirect = json!({ "redirect": { "outbound": { "enabled": true, "port": 15001 } } });
    for (metadata, expected) in [(json!({}), true), (json!({ "transparentProxy": redirect }), false)] {
        let insight = Write::Put {
            key: ResourceKey::in_mesh("DataplaneInsight", "default", "client"),
            spec: json!({ "metadata": metadata }).to_string().into(),
            labels: <_>::default(),
            owner: None,
            expect: Expect::Any,
        };
        world.api.catalog().store().commit(Transaction(vec![insight])).await.unwrap();
        let status = world.get(CLIENT).await["status"]["references"].clone();
        let unread = [("networking.transparentProxying.reachableBackends", "NoEffect")];
        assert_eq!(troubles(&status), if expected { &unread[..] } else { &[] }, "{metadata}");
    }
}

#[tokio::test]
async fn dataplane_without_references_has_no_status() {
    let world = World::new("Everywhere").await;
    world.web().await;
    assert_eq!(world.get(super::WEB).await.get("status"), None);
    assert_eq!(world.get(&format!("{}/_references", super::WEB)).await, json!({ "references": [] }));
    assert_eq!(world.refused("/meshes/default/dataplanes/gone/_references").await.0, 404);
}

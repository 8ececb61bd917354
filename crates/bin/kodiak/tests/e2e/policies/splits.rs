//! MeshHTTPRoute: traffic splits between services and versions, under load.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use super::{routes, tally, until_only};
use crate::harness::{Dataplane, Load, Mesh, Mtls, Sidecar, eventually, expect};

// Bounds for one in ten, and for one in two, which a fair split leaves less than once in 10^10 runs.
const TENTH_OF_1000: RangeInclusive<u32> = 40..=170;
const HALF_OF_500: RangeInclusive<u32> = 175..=325;

#[tokio::test(flavor = "multi_thread")]
async fn splits_requests_between_services_under_load() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let new = mesh.serving("new", |service| Dataplane::serving_as("canary", "new", service));
    let (_old, _new) = tokio::join!(mesh.backend("old"), new);
    let client = mesh.client_as(Dataplane::calling("client").also_calling("canary")).await;
    let load = Load::on(&client);

    let part = |name: &str, weight: u32| json!({ "kind": "MeshService", "name": name, "weight": weight });
    split(&mesh, &json!([part("backend", 90), part("canary", 10)])).await;
    check_share(&client, 1000, TENTH_OF_1000).await;
    split(&mesh, &json!([part("backend", 50), part("canary", 50)])).await;
    check_share(&client, 500, HALF_OF_500).await;
    split(&mesh, &json!([part("canary", 1)])).await;
    until_only(&client, "new", 50).await;
    load.go_on(20).await;
    mesh.delete("MeshHTTPRoute", "split").await;
    until_only(&client, "old", 50).await;
    load.go_on(20).await;
    load.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn splits_requests_between_versions_under_load() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    mesh.permit_all().await;
    let version =
        |name, version| mesh.serving(name, move |service| Dataplane::serving(name, service).tagged("version", version));
    let (_old, _new) = tokio::join!(version("old", "v1"), version("new", "v2"));
    let client = mesh.client().await;
    let load = Load::on(&client);

    let part = |version: &str, weight: u32| {
        let tags = json!({ "version": version });
        json!({ "kind": "MeshServiceSubset", "name": "backend", "tags": tags, "weight": weight })
    };
    split(&mesh, &json!([part("v1", 90), part("v2", 10)])).await;
    check_share(&client, 1000, TENTH_OF_1000).await;
    split(&mesh, &json!([part("v1", 50), part("v2", 50)])).await;
    check_share(&client, 500, HALF_OF_500).await;
    split(&mesh, &json!([part("v1", 1), part("v2", 0)])).await;
    until_only(&client, "old", 50).await;
    load.go_on(20).await;

    // Connections that stay open follow the route a little longer, and need its clusters.
    mesh.delete("MeshHTTPRoute", "split").await;
    eventually("both answer alike", async || {
        let tally = tally(&client, 20).await;
        expect(tally.len() == 2, tally)
    })
    .await;
    load.go_on(20).await;
    load.end().await;
}

/// Waits until the caller has it.
async fn split(mesh: &Mesh, backends: &Value) {
    let every = json!([{ "path": { "type": "PathPrefix", "value": "/" } }]);
    let rules = json!([{ "matches": every, "default": { "backendRefs": backends } }]);
    mesh.until_taken("client", mesh.put("MeshHTTPRoute", "split", &routes(&rules))).await;
}

/// Of so many requests the new one gets its share.
async fn check_share(client: &Sidecar, calls: u32, share: RangeInclusive<u32>) {
    let tally = tally(client, calls).await;
    assert!(share.contains(tally.get("new").unwrap_or(&0)), "not {share:?} of {calls}: {tally:?}");
}

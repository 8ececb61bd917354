//! Flows between identities, under load in both directions. No request may fail.

use super::{Bed, LEGACY, announced, generated};
use crate::harness::{Mtls, Load};

fn mesh_ca() -> Mtls {
    Mtls::Strict(vec![Mtls::builtin("ca-1")])
}

async fn end(flow: &str, load: Load) {
    load.go_on(200).await;
    let (answered, failed, failures) = load.counted();
    println!("flow {flow}: {answered} requests answered, {failed} failed {failures:?}");
    load.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_from_the_mesh_ca_to_an_identity_with_preparation() {
    let Some(bed) = Bed::start(mesh_ca()).await else { return };
    let load = bed.load();
    load.go_on(50).await;
    bed.identity("identity-spiffe-only", &announced("prepared.local")).await;
    bed.until_settled().await;
    let mut unselected = generated("prepared.local");
    unselected["selector"] = serde_json::json!({});
    bed.identity("identity", &unselected).await;
    load.go_on(50).await;
    bed.identity("identity", &generated("prepared.local")).await;
    bed.until_issued("prepared.local").await;
    load.go_on(50).await;
    bed.mesh.delete("MeshIdentity", "identity-spiffe-only").await;
    bed.until_settled().await;
    bed.until_issued("prepared.local").await;
    end("a", load).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_from_the_mesh_ca_to_an_identity_without_preparation() {
    let Some(bed) = Bed::start(mesh_ca()).await else { return };
    let load = bed.load();
    load.go_on(50).await;
    bed.identity("identity", &generated("new.local")).await;
    bed.until_issued("new.local").await;
    end("c", load).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removes_an_identity() {
    let Some(bed) = Bed::start(mesh_ca()).await else { return };
    bed.identity("identity", &generated("gone.local")).await;
    bed.until_issued("gone.local").await;
    let load = bed.load();
    load.go_on(50).await;
    bed.mesh.delete("MeshIdentity", "identity").await;
    bed.until_issued(LEGACY).await;
    end("e", load).await;
}

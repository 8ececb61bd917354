//! Proxies start and stop under load.

use hyper::StatusCode;

use crate::harness::{Load, Mesh, Mtls, eventually, expect};

#[tokio::test(flavor = "multi_thread")]
async fn endpoint_is_added_and_removed_under_load() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    mesh.permit_all().await;
    let (first_service, first) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    let load = Load::on(&client);

    let (second_service, _second) = mesh.backend("backend-2").await;
    eventually("the one that came is called", async || expect(second_service.counted() > 100, ())).await;

    let inbound = first.dataplane.inbound();
    first.terminate();
    let (status, printed) = first.ended().await;
    assert!(status.success(), "{printed}");
    let after = first_service.counted();
    load.go_on(100).await;
    load.end().await;
    assert_eq!(first_service.counted(), after, "the one that went is not called any more");

    eventually("the Dataplane of the one that went is gone", async || {
        let answer = mesh.dataplane("backend-1").await;
        expect(answer.status == StatusCode::NOT_FOUND, answer)
    })
    .await;
    let clusters = client.admin("/clusters").await.unwrap().text;
    assert!(!clusters.contains(&inbound.to_string()), "{clusters}");
    assert_eq!(mesh.dataplane("backend-2").await.status, StatusCode::OK);
}

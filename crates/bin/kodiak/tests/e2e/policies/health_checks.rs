//! MeshHealthCheck: an instance that fails its checks gets no request, and comes back.

use std::time::Duration;

use hyper::header::HeaderValue;
use serde_json::json;

use super::{tally, to_backend};
use crate::harness::{Manner, Mesh, Mtls, Sidecar, eventually, expect};

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_fails_its_checks_gets_no_request_until_it_recovers() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    mesh.permit_all().await;
    let ((bad, _bad), (_good, _fine)) = tokio::join!(mesh.backend("bad"), mesh.backend("good"));
    let client = mesh.client().await;
    let check = json!({
        "interval": "200ms", "noTrafficInterval": "200ms", "timeout": "2s", "unhealthyThreshold": 2,
        "healthyThreshold": 2, "healthyPanicThreshold": 0,
        "http": { "path": "/health", "requestHeadersToAdd": { "set": [{ "name": "x-probe", "value": "100%" }] } },
    });
    mesh.put("MeshHealthCheck", "checks", &to_backend(&check)).await;
    until_healthy(&client, 2).await;
    let probe = bad.last();
    assert_eq!((probe.uri.path(), &probe.headers["x-probe"]), ("/health", &HeaderValue::from_static("100%")));

    bad.answers(Manner::Failing(u64::MAX));
    until_healthy(&client, 1).await;
    // Envoy merges changes of one second before it gives them to its workers.
    eventually("calls succeed", async || {
        for _ in 0..10 {
            let answer = client.call().await?;
            expect(answer.text == "good", answer)?;
        }
        Ok(())
    })
    .await;
    assert!(tally(&client, 50).await.keys().eq(["good"]));

    bad.answers(Manner::AtOnce);
    eventually("it is called again", async || {
        let tally = tally(&client, 10).await;
        expect(tally.keys().eq(["bad", "good"]), tally)
    })
    .await;

    mesh.delete("MeshHealthCheck", "checks").await;
    let mut before = bad.counted();
    eventually("checks end with the policy", async || {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let counted = bad.counted();
        expect(std::mem::replace(&mut before, counted) == counted, counted)
    })
    .await;
}

/// Until the client takes so many instances of `backend` for healthy.
async fn until_healthy(client: &Sidecar, instances: u64) {
    eventually(&format!("{instances} instances are healthy"), async || {
        let healthy = client.stats("^cluster.backend.health_check.healthy$").await;
        expect(healthy == [format!("cluster.backend.health_check.healthy: {instances}")], healthy)
    })
    .await;
}

//! MeshCircuitBreaker: outlier detection ejects failing instances.

use hyper::StatusCode;
use serde_json::json;

use super::{tally, to_backend};
use crate::harness::{Manner, Mesh, Mtls, eventually, expect};

#[tokio::test(flavor = "multi_thread")]
async fn ejects_a_failing_instance() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let ((bad, _bad), (_good, _fine)) = tokio::join!(mesh.backend("bad"), mesh.backend("good"));
    let client = mesh.client().await;
    bad.answers(Manner::Failing(u64::MAX));
    let detection = json!({
        "interval": "1s", "baseEjectionTime": "10m", "maxEjectionPercent": 100, "healthyPanicThreshold": 0,
        "detectors": { "totalFailures": { "consecutive": 5 } },
    });
    mesh.put("MeshCircuitBreaker", "outliers", &to_backend(&json!({ "outlierDetection": detection }))).await;
    let mut failed = 0;
    eventually("the one that fails is left alone", async || {
        failed += u32::from(client.call().await?.status == StatusCode::SERVICE_UNAVAILABLE);
        let active = client.stats("^cluster.backend.outlier_detection.ejections_active$").await;
        expect(active == ["cluster.backend.outlier_detection.ejections_active: 1"], active)
    })
    .await;
    assert!(failed >= 5, "it was left alone after {failed} failures");
    let before = bad.counted();
    assert!(tally(&client, 50).await.keys().eq(["good"]));
    assert_eq!(bad.counted(), before);

    mesh.delete("MeshCircuitBreaker", "outliers").await;
    eventually("it is called again", async || {
        let answer = client.call().await?;
        expect(answer.status == StatusCode::SERVICE_UNAVAILABLE, answer)
    })
    .await;
}

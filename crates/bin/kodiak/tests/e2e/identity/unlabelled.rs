//! A replica that no MeshIdentity gives a certificate.

use super::{Bed, generated};
use crate::harness::{Dataplane, Mtls, Service, eventually, expect, get, workload_address};

/// An administrator adds a replica without the label of its workload to a mesh that refuses plain text. Requests to the
/// service keep their encryption, and go to the others until it has a certificate.
#[tokio::test(flavor = "multi_thread")]
async fn unlabelled_replica_of_a_strict_mesh_is_not_called() {
    let Some(bed) = Bed::start(Mtls::Off).await else { return };
    bed.identity("identity", &generated("only.local")).await;
    bed.until_issued("only.local").await;
    assert!(bed.step().await.starts_with("accept=mtls call=mtls"), "{}", bed.step().await);
    let load = bed.load();
    load.go_on(30).await;
    let service = Service::start("api-2", workload_address()).await;
    let dataplane = Dataplane::workload("api", &service, "web").named("api-2");
    let replica = bed.mesh.sidecar(dataplane.clone().unlabelled()).await;
    let condition = async || {
        let service = bed.mesh.mesh_service("api").await.unwrap_or_default();
        let conditions = service["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|each| each["type"] == "MembersHaveCertificates")
    };
    eventually("the MeshService names the replica", async || {
        let found = condition().await;
        let named =
            found.as_ref().is_some_and(|found| found["message"].as_str().is_some_and(|it| it.contains("api-2")));
        expect(named, found)
    })
    .await;
    load.go_on(100).await;
    let connections = format!("^listener.*_{}.downstream_cx_total$", replica.dataplane.inbound().port());
    assert_eq!(
        (service.counted(), replica.sum_of(&connections).await),
        (0, 0),
        "nobody calls it, and not in plain text"
    );
    assert!(bed.step().await.starts_with("accept=mtls call=mtls"), "{}", bed.step().await);
    load.end().await;
    // A changed label of a running proxy has no steps, so nothing is promised about requests at this moment.
    bed.mesh.store(&dataplane).await;
    eventually("the replica has a certificate and is called", async || {
        let _ = get(bed.web.outbound(), "/").await;
        expect(service.counted() > 0 && condition().await.is_none(), service.counted())
    })
    .await;
}

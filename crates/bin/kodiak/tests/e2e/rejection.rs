//! NACKs of Envoy are shown to the user.

use std::net::SocketAddr;

use crate::harness::{Dataplane, Mesh, Mtls, eventually, expect};

#[tokio::test(flavor = "multi_thread")]
async fn shows_the_error_of_envoy_for_a_nack() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let (_service, _backend) = mesh.backend("backend-1").await;
    let mut elsewhere = Dataplane::calling("client");
    // An address that no machine has.
    let nowhere: SocketAddr = "192.0.2.1:8080".parse().unwrap();
    elsewhere.outbound = Some(nowhere);
    let _client = mesh.start_sidecar(elsewhere, &[]).await;
    eventually("the rejection is in the insight", async || {
        let insight = mesh.insight("client").await;
        let last = insight["subscriptions"].as_array().and_then(|all| all.last()).cloned().unwrap_or_default();
        expect(last["status"]["lds"]["responsesRejected"] == "1", last)
    })
    .await;
    assert_eq!(mesh.control_plane.metric("kodiak_xds_responses_rejected_total").await, 1, "and not sent again");
    let log = mesh.control_plane.log();
    let line = log.line("rejected its configuration (NACK)").unwrap_or_else(|| panic!("{}", log.printed()));
    for part in ["shop/client", &nowhere.to_string(), "Cannot assign requested address"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

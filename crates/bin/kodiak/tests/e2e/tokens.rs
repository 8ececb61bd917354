//! Authentication of proxies.

use hyper::StatusCode;

use crate::harness::{Dataplane, MESH, Mesh, Mtls, Sidecar, eventually, expect};

#[tokio::test(flavor = "multi_thread")]
async fn rejects_invalid_expired_and_foreign_tokens() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let Some(foreign) = Mesh::start(Mtls::Off).await else { return };
    let control_plane = &mesh.control_plane;
    let good = control_plane.token(MESH, "client", "1h").await;
    let expired = control_plane.token(MESH, "client", "1s").await;
    // So that it is over when it is shown.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let cases = [
        ("no token", "not.a.token".to_owned()),
        ("a changed one", format!("{}AAAA", &good[..good.len() - 4])),
        ("one of another proxy", control_plane.token(MESH, "somebody-else", "1h").await),
        ("one of another mesh", control_plane.token("default", "client", "1h").await),
        ("one of another control plane", foreign.control_plane.token(MESH, "client", "1h").await),
        ("an expired one", expired),
    ];
    let mut refused = 0;
    for (what, token) in &cases {
        let mut sidecar = Sidecar::run(control_plane, mesh.folder(), Dataplane::calling("client"), token, &[]);
        eventually(&format!("{what} is refused"), async || {
            let now = control_plane.metric("kodiak_xds_streams_refused_total").await;
            expect(now > refused, now)
        })
        .await;
        assert_eq!(mesh.dataplane("client").await.status, StatusCode::NOT_FOUND, "{what}");
        assert_eq!(control_plane.metric("kodiak_xds_proxies").await, 0, "{what}");
        assert!(sidecar.process().is_running(), "it waits for a better one");
        drop(sidecar);
        refused = control_plane.metric("kodiak_xds_streams_refused_total").await;
    }
    let client = Sidecar::run(control_plane, mesh.folder(), Dataplane::calling("client"), &good, &[]);
    client.wait_until_ready().await;
    assert_eq!(mesh.dataplane("client").await.status, StatusCode::OK);
}

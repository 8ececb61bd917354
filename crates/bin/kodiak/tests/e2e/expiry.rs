//! A control plane that is away for longer than certificates live.

use std::time::{Duration, Instant};

use hyper::StatusCode;
use serde_json::json;

use crate::harness::{Mesh, Mtls, Setup, Sidecar, eventually, expect, get};

/// How long certificates live here. Proxies have between half of it and all of it left when the control plane ends.
const LIFETIME: &str = "20s";

#[tokio::test(flavor = "multi_thread")]
async fn certificates_expire_while_the_control_plane_is_away_and_are_renewed_when_it_is_back() {
    let rotation = json!({ "rotation": { "expiration": LIFETIME } });
    let backend = json!({ "name": "ca-1", "type": "builtin", "dpCert": rotation });
    let setup = Setup { settings: &["xdsServer.dataplaneStatusFlushIntervalSeconds=1"], ..Setup::default() };
    let Some(mesh) = Mesh::start_with(Mtls::Strict(vec![backend]), setup).await else { return };
    mesh.permit_all().await;
    let (_service, _backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    mesh.until_acknowledged(&["client", "backend-1"], "accept=mtls call=mtls signer=ca-1 trust=ca-1").await;
    // Renewed at least once: what is measured below is not the first certificate.
    let first = mesh.insight("client").await["mTLS"]["certificateExpirationTime"].clone();
    eventually("the certificate of the client is renewed", async || {
        let now = mesh.insight("client").await["mTLS"]["certificateExpirationTime"].clone();
        expect(now != first, now)
    })
    .await;
    let left = mesh.control_plane.metric(r#"kodiak_certificate_expiry_seconds{mesh="shop",kind="leaf"}"#).await;
    assert!(left > 0, "{left}");
    until_new_connection(&client, "a new connection is made").await;

    let started = Instant::now();
    let mut away = Duration::ZERO;
    let mesh = mesh
        .crash(async || {
            // The pool of the HTTP outbound keeps its connection: calls go on, also past the end of the certificates.
            eventually("new connections fail", async || {
                let answer = client.call().await?;
                assert_eq!(answer.status, StatusCode::OK, "a connection from before fails: {answer:?}");
                expect(!new_connection(&client).await, "a new connection is made")
            })
            .await;
            away = started.elapsed();
            for _ in 0..10 {
                assert_eq!(client.call().await.unwrap().status, StatusCode::OK, "calls go on over old connections");
            }
            assert!(!new_connection(&client).await, "and new ones fail");
        })
        .await;
    let back = Instant::now();
    until_new_connection(&client, "new connections are made again").await;
    println!(
        "lifetime {LIFETIME}: new connections failed {:.1} s after the control plane ended, and were made {:.1} s after it was back",
        away.as_secs_f64(),
        back.elapsed().as_secs_f64()
    );
    assert_eq!(client.call().await.unwrap().status, StatusCode::OK);
    drop(mesh);
}

/// Whether one more handshake between the proxies succeeds: each connection to this outbound is one.
async fn new_connection(client: &Sidecar) -> bool {
    get(client.outbound_tcp(), "/").await.is_ok_and(|answer| answer.status == StatusCode::OK)
}

async fn until_new_connection(client: &Sidecar, what: &str) {
    eventually(what, async || expect(new_connection(client).await, "it fails")).await;
}

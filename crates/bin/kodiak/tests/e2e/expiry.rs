//! A control plane is down for longer than the lifetime of certificates.

use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Empty};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpStream;

use crate::harness::{Mesh, Mtls, Setup, Sidecar, eventually, expect, get};

/// How long certificates live here. Proxies have between half of it and all of it left when the control plane ends.
const LIFETIME: &str = "20s";

#[tokio::test(flavor = "multi_thread")]
async fn expired_certificates_are_renewed_when_the_control_plane_is_back() {
    let rotation = json!({ "rotation": { "expiration": LIFETIME } });
    let backend = json!({ "name": "ca-1", "type": "builtin", "dpCert": rotation });
    let setup = Setup { settings: &["xdsServer.dataplaneStatusFlushIntervalSeconds=1"], ..Setup::default() };
    let Some(mesh) = Mesh::start_with(Mtls::Strict(vec![backend]), setup).await else { return };
    mesh.permit_all().await;
    let (_service, _backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    mesh.until_acknowledged(&["client", "backend-1"], "accept=mtls call=mtls signer=ca-1 trust=ca-1").await;
    let mut held = Held::open(&client).await;
    let first = mesh.insight("client").await["mTLS"]["certificateExpirationTime"].clone();
    eventually("the certificate of the client is renewed", async || {
        let now = mesh.insight("client").await["mTLS"]["certificateExpirationTime"].clone();
        expect(now != first, now)
    })
    .await;
    let left = mesh.control_plane.metric(r#"kodiak_certificate_expiry_seconds{mesh="shop",kind="leaf"}"#).await;
    assert!(left <= 20, "{left}");
    assert!(is_made(&client).await, "a new connection is made");

    let started = Instant::now();
    let mut away = Duration::ZERO;
    let mesh = mesh
        .crash(async || {
            eventually("new connections fail", async || {
                held.call().await;
                expect(!is_made(&client).await, "a new connection is made")
            })
            .await;
            away = started.elapsed();
            // Past the end of the certificates, what is connected stays connected.
            for _ in 0..10 {
                held.call().await;
            }
            assert!(!is_made(&client).await, "and new connections go on to fail");
        })
        .await;
    let back = Instant::now();
    eventually("new connections are made again", async || expect(is_made(&client).await, "it fails")).await;
    println!(
        "lifetime {LIFETIME}: new connections failed {:.1} s after the control plane ended, and were made {:.1} s after it was back",
        away.as_secs_f64(),
        back.elapsed().as_secs_f64()
    );
    held.call().await;
    drop(mesh);
}

/// Whether one more handshake between the proxies succeeds: each connection to this outbound is one.
async fn is_made(client: &Sidecar) -> bool {
    get(client.outbound_tcp(), "/").await.is_ok_and(|answer| answer.status == StatusCode::OK)
}

/// One connection between the proxies that stays open.
struct Held(http1::SendRequest<Empty<Bytes>>);

impl Held {
    async fn open(client: &Sidecar) -> Self {
        let stream = TcpStream::connect(client.outbound_tcp()).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut held = Self(sender);
        held.call().await;
        held
    }

    async fn call(&mut self) {
        self.0.ready().await.expect("the connection is open");
        let request = Request::get("/").header("host", "backend").body(Empty::new()).unwrap();
        let answer = self.0.send_request(request).await.expect("the connection is open");
        assert_eq!(answer.status(), StatusCode::OK);
        answer.into_body().collect().await.expect("the connection is open");
    }
}

//! MeshTLS: modes and TLS versions change under load, and rollouts of mutual TLS come first.

use std::{net::SocketAddr, sync::Arc};

use rustls::{AlertDescription, ClientConfig, RootCertStore, version::TLS12};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::harness::{Load, Mesh, Mtls, Service, Sidecar, eventually, expect, get};

const PROXIES: [&str; 2] = ["client", "backend-1"];

struct Bed {
    mesh: Mesh,
    _service: Service,
    backend: Sidecar,
    client: Sidecar,
}

impl Bed {
    async fn start(mtls: Mtls) -> Option<Self> {
        let mesh = Mesh::start(mtls).await?;
        mesh.permit_all().await;
        let (service, backend) = mesh.backend("backend-1").await;
        let client = mesh.client().await;
        Some(Self { mesh, _service: service, backend, client })
    }

    /// Both inbounds of the server, over HTTP and TCP.
    fn inbounds(&self) -> [SocketAddr; 2] {
        [self.backend.dataplane.inbound(), self.backend.dataplane.inbound_tcp()]
    }

    async fn put(&self, conf: &Value) {
        self.mesh.put("MeshTLS", "tls", &json!({ "rules": [{ "default": conf }] })).await;
    }

    /// Until calls from outside the mesh are answered, or refused.
    async fn until_plaintext_is(&self, accepted: bool) {
        for inbound in self.inbounds() {
            eventually(&format!("plain text is accepted: {accepted}"), async || {
                let answer = get(inbound, "/").await;
                expect(answer.as_ref().is_ok_and(|answer| answer.status.is_success()) == accepted, answer)
            })
            .await;
        }
    }
}

fn permissive() -> Mtls {
    Mtls::Strict(vec![json!({ "name": "ca", "type": "builtin", "mode": "PERMISSIVE" })])
}

#[tokio::test(flavor = "multi_thread")]
async fn mode_changes_under_load() {
    let Some(bed) = Bed::start(Mtls::Strict(vec![Mtls::builtin("ca")])).await else { return };
    bed.until_plaintext_is(false).await;
    let load = Load::on(&bed.client);
    for _ in 0..2 {
        bed.put(&json!({ "mode": "Permissive" })).await;
        bed.until_plaintext_is(true).await;
        load.go_on(100).await;
        bed.put(&json!({ "mode": "Strict" })).await;
        bed.until_plaintext_is(false).await;
        load.go_on(100).await;
    }
    bed.mesh.delete("MeshTLS", "tls").await;
    load.go_on(50).await;
    bed.until_plaintext_is(false).await;
    load.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inbound_of_a_permissive_mesh_is_strict_when_all_clients_use_mtls() {
    let Some(bed) = Bed::start(Mtls::Off).await else { return };
    // It selects the server before, during and after the rollout.
    let target = json!({ "kind": "Dataplane", "name": "backend-1" });
    let spec = json!({ "targetRef": target, "rules": [{ "default": { "mode": "Strict" } }] });
    bed.mesh.put("MeshTLS", "tls", &spec).await;
    bed.until_plaintext_is(true).await;
    let load = Load::on(&bed.client);
    load.go_on(50).await;

    // The client is updated late: the server must wait for it.
    let stalled = bed.client.stall();
    bed.mesh.set(permissive()).await;
    bed.mesh.until_acknowledged(&["backend-1"], "accept=both call=plain signer=ca trust=ca").await;
    drop(stalled);
    bed.mesh.until_acknowledged(&PROXIES, "accept=both call=mtls strict=allowed signer=ca trust=ca").await;
    bed.until_plaintext_is(false).await;
    load.go_on(100).await;

    // The server is updated late: the client must wait for it.
    let stalled = bed.backend.stall();
    bed.mesh.set(Mtls::Off).await;
    bed.mesh.until_acknowledged(&["client"], "accept=both call=mtls signer=ca trust=ca").await;
    drop(stalled);
    bed.mesh.until_acknowledged(&PROXIES, "").await;
    bed.until_plaintext_is(true).await;
    load.go_on(100).await;
    load.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_versions_change_in_two_steps_under_load() {
    let Some(bed) = Bed::start(Mtls::Strict(vec![Mtls::builtin("ca")])).await else { return };
    let load = Load::on(&bed.client);
    load.go_on(50).await;
    assert!(!is_too_old(bed.backend.dataplane.inbound()).await, "TLS 1.2 is accepted by default");

    let later = async || bed.put(&json!({ "tlsVersion": { "max": "TLS13" } })).await;
    bed.mesh.until_taken("client", later()).await;
    load.go_on(50).await;
    bed.put(&json!({ "tlsVersion": { "min": "TLS13" } })).await;
    for inbound in bed.inbounds() {
        eventually("TLS 1.2 is refused", async || expect(is_too_old(inbound).await, inbound)).await;
    }
    load.go_on(100).await;
    load.end().await;
    let handshakes = format!("listener.*_{}.ssl.versions.TLSv1.3", bed.backend.dataplane.inbound_tcp().port());
    assert!(bed.backend.sum_of(&handshakes).await > 0);
}

/// Whether a server refuses a client that offers TLS 1.2 and nothing newer. If not, the client refuses the server, because it
/// trusts no CA.
async fn is_too_old(inbound: SocketAddr) -> bool {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS12]).unwrap();
    let config = config.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let stream = TcpStream::connect(inbound).await.unwrap();
    let refused = TlsConnector::from(Arc::new(config)).connect("backend".try_into().unwrap(), stream).await;
    let error = refused.map(|_| ()).expect_err("nobody is trusted");
    let error = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    matches!(error, Some(rustls::Error::AlertReceived(AlertDescription::ProtocolVersion)))
}

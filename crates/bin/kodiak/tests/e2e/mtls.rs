//! Mutual TLS is enabled and disabled, and CAs and certificates change, under load.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use kodiak_crypto::{CaKeyType, RootCaParams, RsaBits, root_ca};
use serde_json::json;

use crate::harness::{Load, MESH, Mesh, Mtls, Service, Setup, Sidecar, eventually, expect};

const DAY: Duration = Duration::from_hours(24);
const PROXIES: [&str; 2] = ["client", "backend-1"];

struct Bed {
    mesh: Mesh,
    _service: Service,
    backend: Sidecar,
    client: Sidecar,
}

impl Bed {
    async fn start(mtls: Mtls) -> Option<Self> {
        Self::start_with(mtls, Setup::default()).await
    }

    async fn start_with(mtls: Mtls, setup: Setup) -> Option<Self> {
        let mesh = Mesh::start_with(mtls, setup).await?;
        mesh.permit_all().await;
        let (service, backend) = mesh.backend("backend-1").await;
        let client = mesh.client().await;
        Some(Self { mesh, _service: service, backend, client })
    }

    /// Changes it so that the client is updated first, and keeps calling while the server is not updated yet.
    async fn change(&self, mtls: Mtls) {
        let before = self.mesh.acknowledged("client").await;
        let stalled = self.backend.stall();
        self.mesh.set(mtls).await;
        eventually("the one who calls has heard of it", async || {
            let now = self.mesh.acknowledged("client").await;
            expect(now != before, now)
        })
        .await;
        drop(stalled);
    }

    fn inbounds(&self) -> [SocketAddr; 2] {
        [self.backend.dataplane.inbound(), self.backend.dataplane.inbound_tcp()]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn enables_and_disables_mtls_under_load() {
    let Some(bed) = Bed::start(Mtls::Off).await else { return };
    let load = Load::on(&bed.client);
    load.go_on(50).await;
    bed.change(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await;
    bed.mesh.until_acknowledged(&PROXIES, "accept=mtls call=mtls signer=ca-1 trust=ca-1").await;
    load.go_on(150).await;
    let [http, tcp] = bed.inbounds().map(|inbound| handshakes(&bed.backend, inbound));
    let (http, tcp) = (sum(&http.await), sum(&tcp.await));
    assert!(http > 0 && tcp > 100, "few over HTTP, and one with each request over TCP: {http} {tcp}");
    bed.change(Mtls::Off).await;
    bed.mesh.until_acknowledged(&PROXIES, "").await;
    load.go_on(150).await;
    eventually("nobody takes TLS any more", async || {
        let [http, tcp] = bed.inbounds().map(|inbound| handshakes(&bed.backend, inbound));
        let handshakes = [http.await, tcp.await].concat();
        expect(handshakes.is_empty(), handshakes)
    })
    .await;
    load.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn switches_the_ca_under_load() {
    let Some(bed) = Bed::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    bed.mesh.until_acknowledged(&PROXIES, "accept=mtls call=mtls signer=ca-1 trust=ca-1").await;
    let load = Load::on(&bed.client);
    let old = trusted_cas(&bed.client).await;
    bed.change(Mtls::Strict(vec![Mtls::builtin("ca-2"), Mtls::builtin("ca-1")])).await;
    bed.mesh.until_acknowledged(&PROXIES, "accept=mtls call=mtls signer=ca-2 trust=ca-2,ca-1").await;
    load.go_on(100).await;
    assert_eq!(trusted_cas(&bed.client).await.len(), old.len() + 1, "both CAs are trusted");
    bed.change(Mtls::Strict(vec![Mtls::builtin("ca-2")])).await;
    bed.mesh.until_acknowledged(&PROXIES, "accept=mtls call=mtls signer=ca-2 trust=ca-2").await;
    load.go_on(150).await;
    load.end().await;
    let new = trusted_cas(&bed.client).await;
    assert!(new.len() == old.len() && new != old, "{old:?} {new:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rotates_certificates_under_load() {
    let mut backend = Mtls::builtin("ca-1");
    backend["dpCert"] = json!({ "rotation": { "expiration": "6s" } });
    let Some(bed) = Bed::start(Mtls::Strict(vec![backend])).await else { return };
    let load = Load::on(&bed.client);
    for sidecar in [&bed.backend, &bed.client] {
        let mut seen = BTreeSet::new();
        eventually("the certificate was replaced three times", async || {
            seen.extend(leaves(sidecar).await?);
            expect(seen.len() > 3, &seen)
        })
        .await;
    }
    load.go_on(100).await;
    load.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn switches_to_a_provided_ca_under_load() {
    let files = tempfile::tempdir().unwrap();
    let setting: &'static str = format!("general.dataSourceFolder={}", files.path().display()).leak();
    let setup = Setup { settings: vec![setting].leak(), ..Setup::default() };
    let bed = Bed::start_with(Mtls::Strict(vec![Mtls::builtin("ca-1")]), setup).await;
    let Some(bed) = bed else { return };
    bed.mesh.until_acknowledged(&PROXIES, "accept=mtls call=mtls signer=ca-1 trust=ca-1").await;
    let load = Load::on(&bed.client);
    let uri = format!("spiffe://{MESH}");
    let params = RootCaParams {
        common_name: "our own",
        expires_after: DAY,
        key: CaKeyType::Rsa(RsaBits::B2048),
        uri_san: Some(&uri),
        now: jiff::Timestamp::now(),
    };
    let pair = root_ca(&params).unwrap();
    let (cert, key) = (files.path().join("own.crt"), files.path().join("own.key"));
    std::fs::write(&cert, &pair.cert_pem).unwrap();
    std::fs::write(&key, pair.key_pem.expose()).unwrap();
    let own = json!({
        "name": "own", "type": "provided", "conf": { "cert": { "file": cert }, "key": { "file": key } },
    });
    bed.change(Mtls::Strict(vec![own.clone(), Mtls::builtin("ca-1")])).await;
    bed.mesh.until_acknowledged(&PROXIES, "accept=mtls call=mtls signer=own trust=own,ca-1").await;
    bed.change(Mtls::Strict(vec![own])).await;
    bed.mesh.until_acknowledged(&PROXIES, "accept=mtls call=mtls signer=own trust=own").await;
    load.go_on(150).await;
    load.end().await;
    assert_eq!(bed.mesh.insight("client").await["mTLS"]["issuedBackend"], "own");
}

/// TLS connections of this inbound; `None` without TLS.
async fn handshakes(sidecar: &Sidecar, inbound: SocketAddr) -> Vec<String> {
    sidecar.stats(&format!("listener.*_{}.ssl.handshake", inbound.port())).await
}

fn sum(counters: &[String]) -> u64 {
    counters.iter().map(|line| line.rsplit_once(": ").unwrap().1.parse::<u64>().unwrap()).sum()
}

/// Serial numbers of the certificates of the proxy.
async fn leaves(sidecar: &Sidecar) -> Result<BTreeSet<String>, String> {
    let certificates = sidecar.admin("/certs").await?.json();
    let all = certificates["certificates"].as_array().into_iter().flatten();
    let chains = all.flat_map(|each| each["cert_chain"].as_array().cloned().unwrap_or_default());
    let of_mesh = chains.filter(|leaf| leaf["subject_alt_names"].to_string().contains("spiffe://shop/"));
    Ok(of_mesh.map(|leaf| leaf["serial_number"].to_string()).collect())
}

/// Serial numbers of the CAs that the proxy trusts.
async fn trusted_cas(sidecar: &Sidecar) -> Vec<String> {
    let certificates = sidecar.admin("/certs").await.unwrap().json();
    let mut found: Vec<String> = certificates["certificates"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|each| each["ca_cert"].as_array().cloned().unwrap_or_default())
        .map(|authority| authority["serial_number"].to_string())
        .collect();
    found.sort();
    found.dedup();
    found
}

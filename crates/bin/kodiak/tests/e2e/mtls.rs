//! Mutual TLS is enabled and disabled, and CAs and certificates change, under load.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use kodiak_crypto::{CaKeyType, CaPair, KeyPair, RootCaParams, RsaBits, root_ca};
use serde_json::json;

use crate::harness::{Kept, Load, MESH, Mesh, Mtls, Service, Setup, Sidecar, eventually, expect};

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
    let pair = own_ca();
    let name = applied(&pair);
    let (cert, key) = (files.path().join("own.crt"), files.path().join("own.key"));
    std::fs::write(&cert, &pair.cert_pem).unwrap();
    std::fs::write(&key, pair.key_pem.expose()).unwrap();
    let own = json!({
        "name": "own", "type": "provided", "conf": { "cert": { "file": cert }, "key": { "file": key } },
    });
    bed.change(Mtls::Strict(vec![own.clone(), Mtls::builtin("ca-1")])).await;
    bed.mesh.until_acknowledged(&PROXIES, &format!("accept=mtls call=mtls signer={name} trust={name},ca-1")).await;
    bed.change(Mtls::Strict(vec![own])).await;
    bed.mesh.until_acknowledged(&PROXIES, &format!("accept=mtls call=mtls signer={name} trust={name}")).await;
    load.go_on(150).await;
    load.end().await;
    assert_eq!(bed.mesh.insight("client").await["mTLS"]["issuedBackend"], "own");
}

/// New content of both Secrets of a `provided` backend: the certificate first, then the key, and the other way round.
/// The pair between does not match and is never used; then all trust the new CA before anybody presents its certificates.
#[tokio::test(flavor = "multi_thread")]
async fn replaces_both_secrets_of_a_provided_ca_under_load() {
    let Some(bed) = Bed::start(Mtls::Off).await else { return };
    let own = json!({
        "name": "own", "type": "provided", "conf": { "cert": { "secret": "own-cert" }, "key": { "secret": "own-key" } },
    });
    let write = async |half: Half, pair: &KeyPair| match half {
        Half::Certificate => bed.mesh.secret("own-cert", &pair.cert_pem).await,
        Half::Key => bed.mesh.secret("own-key", pair.key_pem.expose()).await,
    };
    let only = |name: &str| format!("accept=mtls call=mtls signer={name} trust={name}");
    let mut last = own_ca();
    write(Half::Certificate, &last).await;
    write(Half::Key, &last).await;
    bed.mesh.set(Mtls::Strict(vec![own])).await;
    bed.mesh.until_acknowledged(&PROXIES, &only(&applied(&last))).await;
    let load = Load::on(&bed.client);
    let mut kept = Kept::open([bed.client.outbound_tcp()]).await;
    for halves in [[Half::Certificate, Half::Key], [Half::Key, Half::Certificate]] {
        let next = own_ca();
        let before = (leaves(&bed.client).await.unwrap(), trusted_cas(&bed.client).await);
        write(halves[0], &next).await;
        load.go_on(100).await;
        let now = (leaves(&bed.client).await.unwrap(), trusted_cas(&bed.client).await);
        assert_eq!(now, before, "half of a pair is not used");
        write(halves[1], &next).await;
        bed.mesh.until_acknowledged(&PROXIES, &only(&applied(&next))).await;
        load.go_on(100).await;
        kept.check("the CA was replaced").await;
        let now = (leaves(&bed.client).await.unwrap(), trusted_cas(&bed.client).await);
        assert!(now.0.is_disjoint(&before.0) && now.1 != before.1, "{now:?} {before:?}");
        last = next;
    }
    assert_eq!(bed.mesh.acknowledged("client").await, only(&applied(&last)));
    load.end().await;
}

#[derive(Clone, Copy)]
enum Half {
    Certificate,
    Key,
}

fn own_ca() -> KeyPair {
    let uri = format!("spiffe://{MESH}");
    let params = RootCaParams {
        common_name: "our own",
        expires_after: DAY,
        key: CaKeyType::Rsa(RsaBits::B2048),
        uri_san: Some(&uri),
        now: jiff::Timestamp::now(),
    };
    root_ca(&params).unwrap()
}

/// The backend `own` with this CA, as steps name it.
fn applied(pair: &KeyPair) -> String {
    let ca = CaPair::from_pem(pair.cert_pem.as_bytes(), pair.key_pem.expose().as_bytes()).unwrap();
    format!("own@{}", &ca.bundle_fingerprint()[..8])
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

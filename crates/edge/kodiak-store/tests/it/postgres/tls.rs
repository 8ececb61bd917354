//! The server's certificate must be valid.

use std::fs;

use kodiak_store::{Store, StoreError, Tls};
use kodiak_testkit::postgres::{HOST, Server};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::bed::*;

fn authority() -> (String, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    (certificate, Issuer::new(params, key))
}

#[tokio::test(flavor = "multi_thread")]
async fn accepts_only_a_valid_server_certificate() {
    let (ca, issuer) = authority();
    let (other_ca, _) = authority();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new([HOST.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let files = [("server.crt", certificate.pem()), ("server.key", key.serialize_pem())];
    let files: Vec<_> = files.iter().map(|(name, content)| (*name, content.as_str())).collect();
    let settings = ["ssl=on", "ssl_cert_file=$FOLDER/server.crt", "ssl_key_file=$FOLDER/server.key"];
    let Some(server) = Server::start_with(&files, &settings) else { return };
    let mut bed = Bed::postgres_on(&server);
    let (good, bad) = (bed.path("good.pem"), bed.path("bad.pem"));
    fs::write(&good, ca).unwrap();
    fs::write(&bad, other_ca).unwrap();

    bed.postgres_config().tls = Tls::Verify { ca: Some(good.clone()) };
    write(&bed.open().await, put("a", "{}")).await;
    for ca in [Some(bad), None] {
        bed.postgres_config().tls = Tls::Verify { ca };
        assert!(matches!(Store::open(bed.config()).await, Err(StoreError::Unavailable { .. })));
    }
    bed.postgres_config().tls = Tls::Verify { ca: Some(good) };
    bed.postgres_config().host = "localhost".into();
    let other_name = Store::open(bed.config()).await;
    assert!(matches!(other_name, Err(StoreError::Unavailable { .. })), "the certificate is for {HOST}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_a_server_without_tls() {
    let Some(mut bed) = Bed::postgres() else { return };
    bed.postgres_config().tls = Tls::Verify { ca: None };
    assert!(matches!(Store::open(bed.config()).await, Err(StoreError::Unavailable { .. })));
}

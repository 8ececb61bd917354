//! TLS handshakes that do not end.

use std::sync::Arc;

use kodiak_listen::{ConnectionLimits, Refused};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::AsyncWriteExt as _;

use crate::bed::{Bed, SHORT, closed};

fn config() -> Arc<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap())
}

#[tokio::test]
async fn a_handshake_that_is_never_finished_is_cut() {
    let bed = Bed::start(ConnectionLimits { handshake: SHORT, ..ConnectionLimits::api() }, Some(config())).await;
    let mut stream = bed.connect().await;
    // The header of a record, and a part of what it announces.
    stream.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
    closed(&mut stream).await;
    bed.seen.until_open(0).await;
    assert_eq!(bed.seen.refused(), [Refused::Handshake]);
}

#[tokio::test]
async fn a_client_that_does_not_begin_is_cut_before_anything_is_made_for_it() {
    let bed = Bed::start(ConnectionLimits { first_byte: SHORT, ..ConnectionLimits::api() }, Some(config())).await;
    closed(&mut bed.connect().await).await;
    bed.seen.until_open(0).await;
    assert_eq!(bed.seen.refused(), [Refused::FirstByte]);
}

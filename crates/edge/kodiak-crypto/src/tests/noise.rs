//! Whatever bytes come in, an answer comes out: never a panic.

use proptest::prelude::*;

use super::{now, root};
use crate::{ClientCa, RsaKey, RsaPublicKey, check_ca_pair, pem, server_config};

/// Bytes that get past the first look: PEM with a known label around noise.
fn pem_like() -> impl Strategy<Value = Vec<u8>> {
    let labels = ["CERTIFICATE", "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "PUBLIC KEY", "RSA PUBLIC KEY"];
    (prop::sample::select(labels.to_vec()), any::<Vec<u8>>())
        .prop_map(|(label, der)| pem::encode(label, &der).into_bytes())
}

/// Our own root with some bytes overwritten, so that the noise reaches deep into the parsers.
fn damaged(good: &'static str) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec((0..good.len(), any::<u8>()), 0..4).prop_map(|edits| {
        let mut bytes = good.as_bytes().to_vec();
        for (at, byte) in edits {
            bytes[at] = byte;
        }
        bytes
    })
}

fn input() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<Vec<u8>>(),
        "(-----BEGIN [A-Z ]{0,12}-----\n|-----END|[A-Za-z0-9+/=\n]{0,40}){0,8}".prop_map(String::into_bytes),
        pem_like(),
        damaged(&root().cert_pem),
        damaged(root().key_pem.expose()),
    ]
}

proptest! {
    #[test]
    fn keys_are_read_or_refused(bytes in input()) {
        let _ = RsaKey::from_bytes(&bytes);
        let _ = RsaPublicKey::from_bytes(&bytes);
    }

    #[test]
    fn ca_pairs_are_checked_or_refused(cert in input(), key in input()) {
        let _ = check_ca_pair(&cert, &key, now());
        let _ = check_ca_pair(&cert, root().key_pem.expose().as_bytes(), now());
    }

    #[test]
    fn servers_are_set_up_or_refused(cert in input(), key in input(), ca in input()) {
        let _ = server_config(&cert, &key, Some(ClientCa::Optional(&ca)));
    }
}

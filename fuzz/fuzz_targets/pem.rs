//! PEM texts: certificates and keys from users, proxies and secrets.
#![no_main]

use jiff::Timestamp;
use kodiak_crypto::{RsaKey, RsaPublicKey, certificates, check_ca_pair, client_config, server_names};
use kodiak_tokens::{KeyId, VerificationKey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(all) = certificates(data) {
        assert!(all.iter().map(|certificate| certificate.len()).sum::<usize>() <= data.len(), "more than was given");
    }
    let _ = server_names(data);
    let _ = client_config(data);
    let _ = VerificationKey::from_public_bytes(&KeyId::serial(1), data);
    // The first half as a certificate, the second as its key.
    let (certificate, key) = data.split_at(data.len() / 2);
    let _ = check_ca_pair(certificate, key, Timestamp::UNIX_EPOCH);
    if let Ok(key) = RsaPublicKey::from_bytes(data) {
        let text = key.to_pem().expect("a key that is read can be written");
        RsaPublicKey::from_bytes(text.as_bytes()).expect("a key that is written can be read");
    }
    if let Ok(key) = RsaKey::from_bytes(data) {
        key.to_pem().expect("a key that is read can be written");
    }
});

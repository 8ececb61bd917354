//! Untrusted tokens: only the signed one is accepted.
//!
//! The key of `data/token-key.pem` signed only `seeds/token/good.jwt`, and its private half was deleted. So any other
//! accepted token is a forgery.
#![no_main]

use std::sync::LazyLock;

use jiff::Timestamp;
use kodiak_tokens::{KeyId, KeySource, TokenError, VerificationKey, verify_dataplane, verify_user, verify_zone};
use libfuzzer_sys::fuzz_target;

const GOOD: &str = include_str!("../seeds/token/good.jwt");
const KEY: &[u8] = include_bytes!("../data/token-key.pem");
/// Between `nbf` and `exp` of the good token.
const NOW: i64 = 1_800_000_000;

/// The same key for every ID.
struct OneKey(VerificationKey);

impl KeySource for OneKey {
    fn key(&self, _: &KeyId) -> Result<VerificationKey, TokenError> {
        Ok(self.0.clone())
    }

    fn is_revoked(&self, _: &str) -> bool {
        false
    }
}

static KEYS: LazyLock<OneKey> = LazyLock::new(|| {
    let key = VerificationKey::from_public_bytes(&KeyId::serial(1), KEY).expect("the key of the repository is a key");
    let keys = OneKey(key);
    verify_user(GOOD, &keys, now()).expect("the good token is good");
    keys
});

fn now() -> Timestamp {
    Timestamp::from_second(NOW).expect("a moment that jiff knows")
}

fuzz_target!(|text: &str| {
    let accepted = verify_user(text, &*KEYS, now()).is_ok()
        || verify_dataplane(text, &*KEYS, now()).is_ok()
        || verify_zone(text, &*KEYS, now()).is_ok();
    assert!(!accepted || text == GOOD, "accepted a token that nobody signed");
});

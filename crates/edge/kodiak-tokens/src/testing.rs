//! What the tests share: a few keys, a clock that stands still, and tokens taken apart and put together by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey};
use kodiak_crypto::RsaKey;
use serde_json::Value;

use crate::names::TokenKind;
use crate::{KeyId, KeySource, SigningKey, TokenError, VerificationKey};

pub(crate) const DAY: Duration = Duration::from_hours(24);

pub(crate) fn now() -> Timestamp {
    "2026-08-01T12:00:00Z".parse().unwrap()
}

/// One of three keys. They are slow to make, so all tests share them.
pub(crate) fn key_pem(index: usize) -> &'static str {
    static KEYS: OnceLock<[String; 3]> = OnceLock::new();
    &KEYS.get_or_init(|| [(); 3].map(|()| RsaKey::generate().unwrap().to_pem().unwrap().expose().to_owned()))[index]
}

/// The key with this serial number; it is the same every time, and another than that of the next number.
pub(crate) fn signing_key(serial: u64) -> SigningKey {
    let index = usize::try_from(serial % 3).unwrap();
    SigningKey::from_bytes(KeyId::serial(serial), key_pem(index).as_bytes()).unwrap()
}

/// The user keys of a control plane, as a caller over the store would offer them.
#[derive(Default)]
pub(crate) struct Keys {
    pub(crate) keys: BTreeMap<KeyId, VerificationKey>,
    pub(crate) revoked: BTreeSet<String>,
}

impl Keys {
    pub(crate) fn with(serials: &[u64]) -> Self {
        let key = |serial: &u64| (KeyId::serial(*serial), signing_key(*serial).verification_key());
        Self { keys: serials.iter().map(key).collect(), revoked: BTreeSet::new() }
    }
}

impl KeySource for Keys {
    fn key(&self, kid: &KeyId) -> Result<VerificationKey, TokenError> {
        self.keys.get(kid).cloned().ok_or_else(|| TokenKind::User.key_not_found(kid))
    }

    fn is_revoked(&self, jti: &str) -> bool {
        self.revoked.contains(jti)
    }
}

/// Header and payload of a token.
pub(crate) fn parts(token: &str) -> (Value, Value) {
    let part = |text: &str| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap();
    let parts: Vec<_> = token.split('.').collect();
    assert_eq!(parts.len(), 3);
    (part(parts[0]), part(parts[1]))
}

/// Header and payload as they are signed.
pub(crate) fn message(header: &str, payload: &str) -> String {
    format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload))
}

/// A token that is signed well, whatever it says.
pub(crate) fn signed(header: &str, payload: &str, key: &EncodingKey, algorithm: Algorithm) -> String {
    let message = message(header, payload);
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), key, algorithm).unwrap();
    format!("{message}.{signature}")
}

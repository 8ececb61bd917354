//! The keys that tokens are signed and verified with, and where a verifier finds them.

use std::fmt;
use std::sync::Arc;

use jsonwebtoken::{DecodingKey, EncodingKey};
use kodiak_crypto::{RsaKey, RsaPublicKey};

use crate::TokenError;

/// The `kid` of a key: the serial number in the name of its secret, or any name for a key from the configuration.
///
/// It comes from the header of a token that nobody has verified yet and goes into names and messages, so only harmless
/// characters are allowed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(String);

impl KeyId {
    const MAX_LEN: usize = 128;

    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if text.is_empty() || text.len() > Self::MAX_LEN || !text.bytes().all(allowed) {
            return Err(TokenError::KeyId);
        }
        Ok(Self(text.to_owned()))
    }

    pub fn serial(serial: u64) -> Self {
        Self(serial.to_string())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A private key to sign with, under the id that goes into the header.
pub struct SigningKey {
    id: KeyId,
    encoding: EncodingKey,
    public: RsaPublicKey,
}

impl SigningKey {
    /// Reads the data of a signing-key secret, or the file given to the command line: PEM, or raw PKCS1 DER.
    pub fn from_bytes(id: KeyId, bytes: &[u8]) -> Result<Self, TokenError> {
        let read = |source| TokenError::ReadKey { kid: id.clone(), source };
        let key = RsaKey::from_bytes(bytes).map_err(read)?;
        let pem = key.to_pem().map_err(read)?;
        let encoding = EncodingKey::from_rsa_pem(pem.expose().as_bytes())
            .map_err(|source| TokenError::Sign { kid: id.clone(), source })?;
        Ok(Self { id, encoding, public: key.public() })
    }

    pub fn id(&self) -> &KeyId {
        &self.id
    }

    /// The key that verifies what this one signs.
    pub fn verification_key(&self) -> VerificationKey {
        VerificationKey::from_public(&self.public)
    }

    pub(crate) fn encoding(&self) -> &EncodingKey {
        &self.encoding
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({}, ***)", self.id)
    }
}

/// A public key, read once and cheap to clone. Make it when the secret changes, not per token.
#[derive(Clone, Debug)]
pub struct VerificationKey(Arc<DecodingKey>);

impl VerificationKey {
    pub fn from_public(key: &RsaPublicKey) -> Self {
        Self(Arc::new(DecodingKey::from_rsa_der(key.pkcs1_der())))
    }

    /// From the data of a signing-key secret, of which only the public half is kept.
    pub fn from_private_bytes(kid: &KeyId, bytes: &[u8]) -> Result<Self, TokenError> {
        RsaKey::from_bytes(bytes)
            .map(|key| Self::from_public(&key.public()))
            .map_err(|source| TokenError::ReadKey { kid: kid.clone(), source })
    }

    /// From a public key: `publicKeys` of the configuration, or a `zone-token-signing-public-key-<n>` secret.
    pub fn from_public_bytes(kid: &KeyId, bytes: &[u8]) -> Result<Self, TokenError> {
        RsaPublicKey::from_bytes(bytes)
            .map(|key| Self::from_public(&key))
            .map_err(|source| TokenError::ReadKey { kid: kid.clone(), source })
    }

    pub(crate) fn decoding(&self) -> &DecodingKey {
        &self.0
    }
}

/// The keys and revocations that apply to one kind of token; for dataplane tokens, to those of one mesh.
pub trait KeySource {
    /// The key with this id. `names::TokenKind::key_not_found` is the error for a missing one.
    fn key(&self, kid: &KeyId) -> Result<VerificationKey, TokenError>;

    fn is_revoked(&self, jti: &str) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{key_pem, signing_key};

    #[test]
    fn key_ids_hold_only_what_is_harmless() {
        for good in ["0", "1", "18446744073709551615", "my-key_2.0"] {
            assert_eq!(KeyId::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "a b", "a/b", "a\nb", "schlüssel", &"x".repeat(129)] {
            assert!(matches!(KeyId::parse(bad), Err(TokenError::KeyId)), "{bad:?}");
        }
        assert_eq!(KeyId::serial(12).to_string(), "12");
    }

    #[test]
    fn a_signing_key_does_not_print_itself() {
        assert_eq!(format!("{:?}", signing_key(3)), "SigningKey(3, ***)");
        let verification = format!("{:?}", signing_key(3).verification_key());
        assert!(verification.contains("redacted"), "{verification}");
    }

    #[test]
    fn keys_that_are_none_are_refused_with_their_id() {
        let kid = KeyId::serial(7);
        let text = "key 7 cannot be read as an RSA key";
        for bytes in [&b"nonsense"[..], b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            assert_eq!(SigningKey::from_bytes(kid.clone(), bytes).unwrap_err().to_string(), text);
            assert_eq!(VerificationKey::from_private_bytes(&kid, bytes).unwrap_err().to_string(), text);
            assert_eq!(VerificationKey::from_public_bytes(&kid, bytes).unwrap_err().to_string(), text);
        }
        // A private key where a public one belongs is a mistake to be told about, not to be worked around.
        assert!(VerificationKey::from_public_bytes(&kid, key_pem(0).as_bytes()).is_err());
    }
}

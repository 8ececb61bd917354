//! Why a token was not issued or not accepted.
//!
//! Each text says what is wrong and what to do about it. The texts about the `kid` header and about missing keys are
//! Kuma's, since people search for them. What a stranger wrote into a token is never repeated unchecked.

use jiff::Timestamp;
use kodiak_crypto::CryptoError;

use crate::keys::KeyId;
use crate::names::SecretName;

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("the token is longer than {} bytes; check that the right file was sent", crate::MAX_TOKEN_BYTES)]
    TooLong,
    #[error("the token is not a JWT; generate a new one")]
    NotJwt,
    #[error("the token is not signed with RS256, the only algorithm accepted; regenerate the token")]
    Algorithm,
    #[error("the token has a critical header that is not understood; regenerate the token")]
    CriticalHeader,
    #[error("JWT token must have kid header")]
    NoKeyId,
    #[error("the key id must be 1 to 128 letters, digits, '-', '_' or '.'")]
    KeyId,
    #[error(
        "there is no signing key with KID {kid}. {secret} is not found. If signing key was rotated, regenerate the token"
    )]
    KeyNotFound { kid: KeyId, secret: SecretName },
    #[error("there is no public key with KID {0}. If signing key was rotated, regenerate the token")]
    PublicKeyNotFound(KeyId),
    #[error("key {kid} cannot be read as an RSA key")]
    ReadKey { kid: KeyId, source: CryptoError },
    /// For a `KeySource` that has to ask somewhere.
    #[error("the signing keys cannot be looked up")]
    Lookup { source: Box<dyn std::error::Error + Send + Sync> },
    #[error("the token was not signed by key {0}. If the control plane was set up anew, regenerate the token")]
    Signature(KeyId),
    #[error("the claims of the token cannot be read; regenerate the token")]
    Claims { source: serde_json::Error },
    #[error("the token has more than one {0} claim; regenerate the token")]
    ClaimTwice(&'static str),
    #[error("the token is of another kind, as its {0} claim shows; generate one of the right kind")]
    OtherKind(&'static str),
    #[error("the token has no {0} claim; regenerate the token")]
    ClaimMissing(&'static str),
    #[error("the {0} claim of the token is not a time; regenerate the token")]
    ClaimTime(&'static str),
    #[error("the token is not valid before {0}; check the clocks, or wait")]
    NotYetValid(Timestamp),
    #[error("the token expired at {0}; generate a new one")]
    Expired(Timestamp),
    #[error("the token is revoked; generate a new one")]
    Revoked,
    #[error("a token must be valid for at least a second and at most 100 years")]
    ValidFor,
    #[error("the token cannot be signed with key {kid}")]
    Sign { kid: KeyId, source: jsonwebtoken::errors::Error },
}

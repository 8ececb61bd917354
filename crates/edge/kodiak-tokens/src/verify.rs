//! Is this token good? From the cheapest question to the dearest: length, header, key, signature, time, revocation.

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation, decode};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::TokenError;
use crate::claims::{self, Claims, DataplaneClaims, UserClaims, ZoneClaims};
use crate::keys::{KeyId, KeySource};

/// Real tokens are below one KiB; what is longer is refused before anything is parsed.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The claims of a token that was good at the time it was asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified<C> {
    pub claims: C,
    /// The id of the token, for closing its streams when it is revoked.
    pub jti: String,
    /// From this moment on the token is not good any more.
    pub expires: Timestamp,
}

pub fn verify_dataplane(
    token: &str,
    keys: &dyn KeySource,
    now: Timestamp,
) -> Result<Verified<DataplaneClaims>, TokenError> {
    verify(token, keys, now)
}

pub fn verify_zone(token: &str, keys: &dyn KeySource, now: Timestamp) -> Result<Verified<ZoneClaims>, TokenError> {
    verify(token, keys, now)
}

pub fn verify_user(token: &str, keys: &dyn KeySource, now: Timestamp) -> Result<Verified<UserClaims>, TokenError> {
    verify(token, keys, now)
}

fn verify<C: Claims>(token: &str, keys: &dyn KeySource, now: Timestamp) -> Result<Verified<C>, TokenError> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(TokenError::TooLong);
    }
    let kid = check_header(token)?;
    let payload = check_signature(token, &kid, keys)?;
    let expires = check_times(&payload, now)?;
    let jti = claims::token_id(&payload)?;
    if keys.is_revoked(&jti) {
        return Err(TokenError::Revoked);
    }
    Ok(Verified { claims: claims::from_payload(&payload)?, jti, expires })
}

/// What we ask the header for. Everything else in it (`jwk`, `x5u` and the like) must not have a say.
#[derive(Deserialize)]
struct Header {
    alg: Value,
    kid: Option<Value>,
    crit: Option<Value>,
}

fn check_header(token: &str) -> Result<KeyId, TokenError> {
    let (header, _) = token.split_once('.').ok_or(TokenError::NotJwt)?;
    let header = URL_SAFE_NO_PAD.decode(header).map_err(|_| TokenError::NotJwt)?;
    let Header { alg, kid, crit } = serde_json::from_slice(&header).map_err(|_| TokenError::NotJwt)?;
    // The header does not choose the algorithm, it may only agree. So neither `none` nor an HMAC with our public key as
    // its secret gets any further.
    if alg != "RS256" {
        return Err(TokenError::Algorithm);
    }
    // RFC 7515, section 4.1.11: who does not understand all of them must refuse, and we understand none.
    if crit.is_some() {
        return Err(TokenError::CriticalHeader);
    }
    KeyId::parse(kid.ok_or(TokenError::NoKeyId)?.as_str().ok_or(TokenError::KeyId)?)
}

fn check_signature(token: &str, kid: &KeyId, keys: &dyn KeySource) -> Result<Map<String, Value>, TokenError> {
    let key = keys.key(kid)?;
    let mut validation = Validation::new(Algorithm::RS256);
    // The rest is ours: times with the caller's clock, and nobody of ours writes an audience.
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    match decode(token, key.decoding(), &validation) {
        Ok(data) => Ok(data.claims),
        Err(error) if matches!(error.kind(), ErrorKind::InvalidSignature) => Err(TokenError::Signature(kid.clone())),
        Err(_) => Err(TokenError::NotJwt),
    }
}

/// Without any leeway: the issuer has already put `nbf` and `iat` back by a few seconds.
fn check_times(payload: &Map<String, Value>, now: Timestamp) -> Result<Timestamp, TokenError> {
    for key in ["nbf", "iat"] {
        if let Some(from) = claims::time(payload, key)?.filter(|from| now < *from) {
            return Err(TokenError::NotYetValid(from));
        }
    }
    let expires = claims::time(payload, "exp")?.ok_or(TokenError::ClaimMissing("exp"))?;
    if now >= expires { Err(TokenError::Expired(expires)) } else { Ok(expires) }
}

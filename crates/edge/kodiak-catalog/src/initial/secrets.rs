//! Making keys and authorities. They take a while, so they are made off the threads that serve.

use std::time::Duration;

use jiff::Timestamp;
use kodiak_crypto::{CryptoError, RootCaParams, RsaBits, RsaKey};

use crate::Refusal;

/// A new RSA key as PEM, the data of a signing-key secret.
pub(super) async fn signing_key() -> Result<Vec<u8>, Refusal> {
    blocking(|| Ok(RsaKey::generate()?.to_pem()?.expose().as_bytes().to_vec())).await
}

/// A new root: certificate and key, both as PEM.
pub(super) async fn root_ca(
    common_name: String,
    expires_after: Duration,
    bits: RsaBits,
    uri_san: Option<String>,
) -> Result<(String, String), Refusal> {
    blocking(move || {
        let pair = kodiak_crypto::root_ca(&RootCaParams {
            common_name: &common_name,
            expires_after,
            rsa_bits: bits,
            uri_san: uri_san.as_deref(),
            now: Timestamp::now(),
        })?;
        Ok((pair.cert_pem, pair.key_pem.expose().to_owned()))
    })
    .await
}

async fn blocking<T: Send + 'static>(
    make: impl FnOnce() -> Result<T, CryptoError> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(make).await.map_err(Refusal::make)?.map_err(Refusal::make)
}

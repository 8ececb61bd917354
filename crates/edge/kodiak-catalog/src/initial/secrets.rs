//! Generates keys and CAs.
//!
//! A key takes a core for seconds, and users can request many. They are generated one at a time, each on its own
//! thread: neither the threads that serve requests nor those that commit to disk ever wait for a key.

use std::{thread, time::Duration};

use jiff::Timestamp;
use kodiak_crypto::{CaKeyType, CryptoError, RootCaParams, RsaKey};
use tokio::sync::{Semaphore, oneshot};

use crate::Refusal;

/// One for the whole process, which shares the cores. First come, first served.
static KEY_GENERATION: Semaphore = Semaphore::const_new(1);

/// A new RSA key as PEM, the data of a signing-key secret.
pub(super) async fn signing_key() -> Result<Vec<u8>, Refusal> {
    apart(|| Ok(RsaKey::generate()?.to_pem()?.expose().as_bytes().to_vec())).await
}

/// A new root: certificate and key, both as PEM.
pub(crate) async fn root_ca(
    common_name: String,
    expires_after: Duration,
    key: CaKeyType,
    uri_san: Option<String>,
) -> Result<(String, String), Refusal> {
    apart(move || {
        let pair = kodiak_crypto::root_ca(&RootCaParams {
            common_name: &common_name,
            expires_after,
            key,
            uri_san: uri_san.as_deref(),
            now: Timestamp::now(),
        })?;
        Ok((pair.cert_pem, pair.key_pem.expose().to_owned()))
    })
    .await
}

async fn apart<T: Send + 'static>(
    make: impl FnOnce() -> Result<T, CryptoError> + Send + 'static,
) -> Result<T, Refusal> {
    let turn = KEY_GENERATION.acquire().await.map_err(Refusal::make)?;
    let (done, answer) = oneshot::channel();
    let work = move || {
        // Held here, so that a cancelled request does not start the next key in parallel.
        let _turn = turn;
        let _ = done.send(make());
    };
    thread::Builder::new().name("make key".to_owned()).spawn(work).map_err(Refusal::make)?;
    answer.await.map_err(Refusal::make)?.map_err(Refusal::make)
}

//! Random bytes from the operating system's generator, by way of aws-lc-rs.

use aws_lc_rs::rand;

use crate::CryptoError;

/// Bytes good enough for keys, nonces and ids.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], CryptoError> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|source| CryptoError::Random { source })?;
    Ok(bytes)
}

//! Keys that follow from another key and a name, so that nobody has to store them.

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use rcgen::PKCS_ECDSA_P256_SHA256;
use rustls_pki_types::PrivatePkcs8KeyDer;

use crate::CryptoError;

/// Keys of one scheme never meet those of another. A change of the scheme changes every key.
const SALT: &[u8] = b"kodiak derived key, P-256, 1";

const SCALAR_BYTES: usize = 32;

/// The order of P-256 is so close to 2^256 that the first scalar fits but for one time in 2^32.
const TRIES: u8 = 8;

struct Scalar;

impl KeyType for Scalar {
    fn len(&self) -> usize {
        SCALAR_BYTES
    }
}

/// The key that belongs to these words under this secret: always the same one, and no other words have it.
pub(crate) fn derived_key(secret: &[u8], words: &[&[u8]]) -> Result<rcgen::KeyPair, CryptoError> {
    let info = joined(words);
    let pseudorandom = Salt::new(HKDF_SHA256, SALT).extract(secret);
    for attempt in 0..TRIES {
        let mut scalar = [0; SCALAR_BYTES];
        pseudorandom
            .expand(&[&info, &[attempt]], Scalar)
            .and_then(|okm| okm.fill(&mut scalar))
            .map_err(|source| CryptoError::DeriveKey { source })?;
        // Refused when it is zero or not below the order of the curve; then the next one is taken.
        if let Ok(key) = PrivateKey::from_private_key(&ECDH_P256, &scalar) {
            return signer(&scalar, &key);
        }
    }
    Err(CryptoError::DeriveKey { source: aws_lc_rs::error::Unspecified })
}

fn signer(scalar: &[u8], key: &PrivateKey) -> Result<rcgen::KeyPair, CryptoError> {
    let derive = |source| CryptoError::DeriveKey { source };
    let public = key.compute_public_key().map_err(derive)?;
    let pair = EcdsaKeyPair::from_private_key_and_public_key(&ECDSA_P256_SHA256_ASN1_SIGNING, scalar, public.as_ref())
        .map_err(|source| CryptoError::ReadKey { source })?;
    let pkcs8 = pair.to_pkcs8v1().map_err(derive)?;
    rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(pkcs8.as_ref()), &PKCS_ECDSA_P256_SHA256)
        .map_err(|source| CryptoError::MakeCertificate { source })
}

/// Each word with its length before it: no two lists of words give the same bytes.
pub(crate) fn joined(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in words {
        bytes.extend_from_slice(&(word.len() as u64).to_be_bytes());
        bytes.extend_from_slice(word);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_give_the_same_key_and_others_another() {
        let key = |secret: &[u8], words: &[&[u8]]| derived_key(secret, words).unwrap().serialize_der();
        let first = key(b"secret", &[b"ab", b"c"]);
        assert_eq!(first, key(b"secret", &[b"ab", b"c"]));
        assert_ne!(first, key(b"secret", &[b"a", b"bc"]));
        assert_ne!(first, key(b"secret", &[b"abc"]));
        assert_ne!(first, key(b"other", &[b"ab", b"c"]));
    }

    #[test]
    fn keys_stay_what_they_were_in_earlier_versions() {
        let key = derived_key(b"secret", &[b"words"]).unwrap();
        let hex: String = key
            .public_key_raw()
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 0xf])
            .filter_map(|digit| char::from_digit(digit.into(), 16))
            .collect();
        let pinned = concat!(
            "047168ff09bb588cd22827f38cc6743415ebdb2254bd8ab988b2fdc8529038ccbc",
            "9293f191b4a4156ba2845393b4df93980cb922a49e00d5f55f383b945ce5b6af",
        );
        assert_eq!(hex, pinned);
    }
}

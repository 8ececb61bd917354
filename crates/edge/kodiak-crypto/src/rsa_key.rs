//! RSA keys: for signing tokens and for certificate authorities.
//!
//! Written as PKCS8 PEM. Read as PKCS8 PEM, PKCS1 PEM or raw PKCS1 DER, because all three are found in the secrets of
//! meshes that were made with Kuma.

use std::fmt;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa;
use aws_lc_rs::signature::KeyPair as _;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::pem::{self, PrivatePem};
use crate::{CryptoError, MAX_PEM_BYTES};

/// Below this aws-lc refuses to verify; saying so when the key is read is kinder than a bad signature later.
const MIN_MODULUS_BYTES: usize = 2048 / 8;

/// How long a new key is. Longer ones would take a core for many seconds, and are no safer for as long as RSA is safe.
/// Long keys take seconds to make: generate them off the async threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RsaBits {
    #[default]
    B2048,
    B3072,
    B4096,
}

impl TryFrom<u32> for RsaBits {
    type Error = CryptoError;

    fn try_from(bits: u32) -> Result<Self, CryptoError> {
        match bits {
            2048 => Ok(Self::B2048),
            3072 => Ok(Self::B3072),
            4096 => Ok(Self::B4096),
            other => Err(CryptoError::RsaBits(other)),
        }
    }
}

/// A private RSA key.
pub struct RsaKey {
    pair: rsa::KeyPair,
}

impl RsaKey {
    /// A new key of 2048 bits.
    pub fn generate() -> Result<Self, CryptoError> {
        Self::generate_bits(RsaBits::default())
    }

    pub fn generate_bits(bits: RsaBits) -> Result<Self, CryptoError> {
        let size = match bits {
            RsaBits::B2048 => rsa::KeySize::Rsa2048,
            RsaBits::B3072 => rsa::KeySize::Rsa3072,
            RsaBits::B4096 => rsa::KeySize::Rsa4096,
        };
        let pair = rsa::KeyPair::generate(size).map_err(|source| CryptoError::GenerateKey { source })?;
        Ok(Self { pair })
    }

    /// Reads PKCS8 PEM, PKCS1 PEM or raw PKCS1 DER.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CryptoError> {
        if bytes.len() > MAX_PEM_BYTES {
            return Err(CryptoError::PemTooLong);
        }
        let pair = if pem::is_pem(bytes) {
            match pem::private_key(bytes)? {
                PrivateKeyDer::Pkcs8(der) => rsa::KeyPair::from_pkcs8(der.secret_pkcs8_der()),
                PrivateKeyDer::Pkcs1(der) => rsa::KeyPair::from_der(der.secret_pkcs1_der()),
                // `Sec1`, and whatever a later pki-types may add: not RSA.
                _ => return Err(CryptoError::NotRsa),
            }
        } else {
            rsa::KeyPair::from_der(bytes)
        };
        Ok(Self { pair: pair.map_err(|source| CryptoError::ReadKey { source })? })
    }

    pub fn to_pem(&self) -> Result<PrivatePem, CryptoError> {
        Ok(PrivatePem::new(pem::encode("PRIVATE KEY", self.pkcs8()?.secret_pkcs8_der())))
    }

    pub fn public(&self) -> RsaPublicKey {
        RsaPublicKey { key: self.pair.public_key().clone() }
    }

    /// The public half as `SubjectPublicKeyInfo` PEM.
    pub fn public_pem(&self) -> Result<String, CryptoError> {
        self.public().to_pem()
    }

    pub(crate) fn pkcs8(&self) -> Result<PrivatePkcs8KeyDer<'static>, CryptoError> {
        let der: Pkcs8V1Der<'static> = self.pair.as_der().map_err(|source| CryptoError::WriteKey { source })?;
        Ok(der.as_ref().to_vec().into())
    }
}

impl fmt::Debug for RsaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The public half of an RSA key, of at least 2048 bits.
#[derive(Clone)]
pub struct RsaPublicKey {
    key: rsa::PublicKey,
}

impl RsaPublicKey {
    /// Reads `PUBLIC KEY` and `RSA PUBLIC KEY` PEM, or the DER of either.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CryptoError> {
        if bytes.len() > MAX_PEM_BYTES {
            return Err(CryptoError::PemTooLong);
        }
        let key = if pem::is_pem(bytes) {
            rsa::PublicKey::from_der(&pem::public_key(bytes)?)
        } else {
            rsa::PublicKey::from_der(bytes)
        };
        let key = key.map_err(|source| CryptoError::ReadKey { source })?;
        if key.modulus_len() < MIN_MODULUS_BYTES { Err(CryptoError::RsaTooShort) } else { Ok(Self { key }) }
    }

    pub fn to_pem(&self) -> Result<String, CryptoError> {
        let der: PublicKeyX509Der<'static> = self.key.as_der().map_err(|source| CryptoError::WriteKey { source })?;
        Ok(pem::encode("PUBLIC KEY", der.as_ref()))
    }

    /// PKCS1 DER (`RSAPublicKey` of RFC 8017), the form signature checkers take.
    pub fn pkcs1_der(&self) -> &[u8] {
        self.key.as_ref()
    }
}

impl fmt::Debug for RsaPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RsaPublicKey")
    }
}

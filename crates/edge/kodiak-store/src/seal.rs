//! Encryption of specs at rest.
//!
//! The specs of some kinds (Secrets, CA keys) are encrypted with AES-256-GCM before they reach a back end, each with a
//! random nonce, and bound to the key of their resource: a sealed spec that is moved to another resource does not open.
//! In memory they are plaintext.

mod key_file;

use std::{borrow::Cow, collections::BTreeSet, fmt, path::Path};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use kodiak_model::ResourceKey;

use crate::error::StoreError;

/// An encryption key, and the kinds whose specs it seals.
#[derive(Clone)]
pub struct Seal {
    pub key: [u8; 32],
    pub kinds: Vec<String>,
}

impl Seal {
    /// Reads the key from a file, which is first created with a random key if it does not exist.
    ///
    /// Without this file the sealed specs are lost.
    pub fn load_or_create(path: &Path, kinds: Vec<String>) -> Result<Self, StoreError> {
        Ok(Self { key: key_file::load_or_create(path)?, kinds })
    }

    /// Takes the key from text: 32 bytes in base64.
    pub fn from_text(text: &str, kinds: Vec<String>) -> std::io::Result<Self> {
        Ok(Self { key: key_file::parse(text)?, kinds })
    }

    /// Reads the key from a file that must exist.
    pub fn load(path: &Path, kinds: Vec<String>) -> Result<Self, StoreError> {
        Ok(Self { key: key_file::load(path).map_err(|error| StoreError::file(path, error))?, kinds })
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").field("key", &"***").field("kinds", &self.kinds).finish()
    }
}

/// A spec in the form of a back end.
#[derive(Debug)]
pub(crate) struct AtRest<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) sealed: bool,
}

/// Seals and unseals; passes through specs that need not be sealed.
#[derive(Default)]
pub(crate) struct Sealer {
    cipher: Option<RandomizedNonceKey>,
    kinds: BTreeSet<String>,
}

impl Sealer {
    pub(crate) fn new(seal: Option<Seal>) -> Self {
        let Some(Seal { key, kinds }) = seal else { return Self::default() };
        let cipher = RandomizedNonceKey::new(&AES_256_GCM, &key).expect("32 bytes are a key for AES-256");
        Self { cipher: Some(cipher), kinds: kinds.into_iter().collect() }
    }

    pub(crate) fn seal<'a>(&self, key: &ResourceKey, spec: &'a str) -> AtRest<'a> {
        match &self.cipher {
            Some(cipher) if self.kinds.contains(&*key.kind) => {
                let mut sealed = spec.as_bytes().to_vec();
                let nonce = cipher
                    .seal_in_place_append_tag(Aad::from(bound_to(key)), &mut sealed)
                    .expect("AES-GCM takes any text below 64 GiB, and decide::limits keeps specs far below");
                sealed.extend_from_slice(nonce.as_ref());
                AtRest { bytes: sealed.into(), sealed: true }
            }
            _ => AtRest { bytes: spec.as_bytes().into(), sealed: false },
        }
    }

    /// The plaintext bytes. Specs that were stored before a seal was configured are plaintext already.
    pub(crate) fn unseal<'a>(&self, key: &ResourceKey, spec: AtRest<'a>) -> Result<Cow<'a, [u8]>, StoreError> {
        if !spec.sealed {
            return Ok(spec.bytes);
        }
        let Some(cipher) = &self.cipher else { return Err(StoreError::Sealed(key.clone())) };
        let wrong = || StoreError::WrongSeal(key.clone());
        let mut bytes = spec.bytes.into_owned();
        let text_len = bytes.len().checked_sub(NONCE_LEN).ok_or_else(wrong)?;
        let nonce = bytes.split_off(text_len);
        let nonce = Nonce::try_assume_unique_for_key(&nonce).map_err(|_| wrong())?;
        let plain_len = cipher.open_in_place(nonce, Aad::from(bound_to(key)), &mut bytes).map_err(|_| wrong())?.len();
        bytes.truncate(plain_len);
        Ok(bytes.into())
    }
}

/// Names contain no NUL (`decide::limits`), so it is unique for each resource.
fn bound_to(ResourceKey { kind, mesh, name }: &ResourceKey) -> Vec<u8> {
    format!("{kind}\0{mesh}\0{name}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer(key: u8) -> Sealer {
        Sealer::new(Some(Seal { key: [key; 32], kinds: vec!["Secret".into()] }))
    }

    #[test]
    fn sealed_spec_opens_only_with_its_key_and_for_its_resource() {
        let key = ResourceKey::in_mesh("Secret", "default", "token");
        let sealed = sealer(1).seal(&key, r#"{"data":"aGVsbG8="}"#).bytes.into_owned();
        let again = || AtRest { bytes: sealed.clone().into(), sealed: true };

        assert!(!sealed.windows(4).any(|window| window == b"data"));
        assert_eq!(*sealer(1).unseal(&key, again()).unwrap(), *br#"{"data":"aGVsbG8="}"#);
        assert!(matches!(sealer(2).unseal(&key, again()), Err(StoreError::WrongSeal(_))));
        let other = ResourceKey::in_mesh("Secret", "default", "other");
        assert!(matches!(sealer(1).unseal(&other, again()), Err(StoreError::WrongSeal(_))));
        assert!(matches!(Sealer::default().unseal(&key, again()), Err(StoreError::Sealed(_))));
    }

    #[test]
    fn arbitrary_bytes_are_unsealed_or_rejected() {
        let key = ResourceKey::global("Secret", "s");
        for len in 0..64 {
            let spec = AtRest { bytes: vec![7; len].into(), sealed: true };
            assert!(matches!(sealer(1).unseal(&key, spec), Err(StoreError::WrongSeal(_))));
        }
    }

    #[test]
    fn other_kinds_stay_plaintext() {
        assert!(!sealer(1).seal(&ResourceKey::global("Mesh", "default"), "{}").sealed);
    }

    #[test]
    fn debug_output_hides_the_key() {
        let text = format!("{:?}", Seal { key: [77; 32], kinds: vec![] });
        assert!(!text.contains("77"), "{text}");
    }
}

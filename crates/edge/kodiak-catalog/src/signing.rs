//! Signing keys of tokens, as stored.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use kodiak_model::ResourceKey;
use kodiak_store::Snapshot;
use kodiak_tokens::{
    KeyId, KeySource, SigningKey, TokenError, VerificationKey,
    names::{SecretName, TokenKind, parse_revocations},
};

use crate::Catalog;

/// Parsing an RSA key takes longer than verifying with it, so each version of a key is parsed once.
#[derive(Default)]
pub(crate) struct KeyCache(Mutex<BTreeMap<ResourceKey, (u64, VerificationKey)>>);

/// Keys and revocations of one kind of token.
pub struct TokenKeys<'a> {
    snapshot: Snapshot,
    kind: TokenKind<'a>,
    cache: &'a KeyCache,
}

impl Catalog {
    pub fn token_keys<'a>(&'a self, kind: TokenKind<'a>) -> TokenKeys<'a> {
        TokenKeys { snapshot: self.store().snapshot(), kind, cache: &self.keys }
    }

    /// The newest key of this kind, which signs new tokens.
    pub fn signing_key(&self, kind: TokenKind<'_>) -> Result<SigningKey, TokenError> {
        let snapshot = self.store().snapshot();
        let id = KeyId::serial(newest(&snapshot, kind).unwrap_or(kodiak_tokens::names::FIRST_SERIAL));
        let data = snapshot.world().secret(&key_of(&kind.signing_key(&id)));
        let data = data.ok_or_else(|| kind.key_not_found(&id))?;
        SigningKey::from_bytes(id, &data)
    }
}

impl KeySource for TokenKeys<'_> {
    fn key(&self, kid: &KeyId) -> Result<VerificationKey, TokenError> {
        let key = key_of(&self.kind.signing_key(kid));
        let world = self.snapshot.world();
        let secret = world.get(&key).ok_or_else(|| self.kind.key_not_found(kid))?;
        let mut cache = self.cache.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((version, cached)) = cache.get(&key)
            && *version == secret.version
        {
            return Ok(cached.clone());
        }
        let data = world.secret(&key).ok_or_else(|| self.kind.key_not_found(kid))?;
        let read = VerificationKey::from_private_bytes(kid, &data)?;
        cache.insert(key, (secret.version, read.clone()));
        Ok(read)
    }

    fn is_revoked(&self, jti: &str) -> bool {
        self.kind.revocations().iter().any(|name| {
            let data = self.snapshot.world().secret(&key_of(name)).unwrap_or_default();
            parse_revocations(&String::from_utf8_lossy(&data)).contains(jti)
        })
    }
}

/// Serial number of the newest stored signing key.
pub(crate) fn newest(snapshot: &Snapshot, kind: TokenKind<'_>) -> Option<u64> {
    match kind {
        TokenKind::Dataplane { mesh } => {
            kind.newest(snapshot.list_in("Secret", mesh).map(|record| record.key.name.as_ref()))
        }
        TokenKind::Zone | TokenKind::User => {
            kind.newest(snapshot.list("GlobalSecret").map(|record| record.key.name.as_ref()))
        }
    }
}

pub(crate) fn key_of(name: &SecretName) -> ResourceKey {
    match name {
        SecretName::Mesh { mesh, name } => ResourceKey::in_mesh("Secret", mesh, name),
        SecretName::Global { name } => ResourceKey::global("GlobalSecret", name),
    }
}

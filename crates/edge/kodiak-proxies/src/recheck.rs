//! Closing streams that would not be let in any more.

use std::{collections::BTreeSet, ops::Bound, sync::Arc};

use jiff::Timestamp;
use kodiak_ads::{Closing, Credential};
use kodiak_model::{ProxyKey, ResourceKey};
use tokio::sync::watch;

use crate::{
    Registry, credential, dataplane,
    health::HealthStream,
    registry::State,
    sessions::stream::{self, Stream},
};

/// Every stream is checked once in so many calls of [`Registry::recheck_next`], which are a second apart.
const ROUND: usize = 60;

/// Streams whose token may not be good any more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recheck {
    All,
    Mesh(Arc<str>),
    Proxy(ProxyKey),
}

impl Recheck {
    /// The streams that depend on a resource, which was changed or deleted. All that admission reads must be here: see
    /// [`crate::admission`] and `credential`.
    pub fn after(key: &ResourceKey) -> Option<Self> {
        match &*key.kind {
            // Revocations, also of the tokens of one mesh. It is the name that tells whose, and names are many.
            "GlobalSecret" => Some(Self::All),
            "Mesh" => Some(Self::Mesh(key.name.clone())),
            // Signing keys and revocations; and whether an identity is made from a label that tokens must bind.
            "Secret" | "MeshIdentity" => Some(Self::Mesh(key.mesh.clone())),
            "Dataplane" => Some(Self::Proxy(ProxyKey { mesh: key.mesh.clone(), name: key.name.clone() })),
            _ => None,
        }
    }
}

/// What was shown on streams of a proxy.
struct Shown {
    key: ProxyKey,
    credential: Credential,
    streams: Vec<u64>,
}

impl Registry {
    /// To be called with what [`Recheck::after`] says of every change. Verifies the token of each of these streams, so it
    /// takes its time.
    pub fn recheck(&self, concerned: &BTreeSet<Recheck>) {
        if concerned.contains(&Recheck::All) {
            return self.recheck_where(|_| true);
        }
        for each in concerned {
            match each {
                Recheck::All => (),
                Recheck::Mesh(mesh) => self.recheck_where(|key| key.mesh == *mesh),
                Recheck::Proxy(key) if concerned.contains(&Recheck::Mesh(key.mesh.clone())) => (),
                Recheck::Proxy(key) => self.recheck_proxy(key),
            }
        }
    }

    /// Checks the next few streams, so that each has its turn once in [`ROUND`] calls: whatever was missed, no stream
    /// outlives its token by more than that.
    pub(crate) fn recheck_next(&self) {
        let keys: Vec<ProxyKey> = {
            let mut state = self.state();
            let count = state.streams.len().max(state.health.len()).div_ceil(ROUND);
            let mut keys = state.keys_after(state.rechecked.as_ref(), count);
            if keys.len() < count {
                keys.extend(state.keys_after(None, count - keys.len()));
            }
            state.rechecked = keys.last().cloned();
            keys
        };
        for key in &keys {
            self.recheck_proxy(key);
        }
    }

    /// A proxy that brought its Dataplane brings it again.
    pub(crate) fn recheck_proxy(&self, key: &ProxyKey) {
        let shown = self.state().shown_by(key);
        for shown in &shown {
            self.recheck_streams(shown);
        }
    }

    fn recheck_where(&self, concerns: impl Fn(&ProxyKey) -> bool) {
        let shown: Vec<_> = {
            let state = self.state();
            let only_health = state.health.keys().filter(|key| !state.streams.contains_key(key));
            let concerned = state.streams.keys().chain(only_health).filter(|key| concerns(key));
            concerned.flat_map(|key| state.shown_by(key)).collect()
        };
        for shown in &shown {
            self.recheck_streams(shown);
        }
    }

    /// Without the lock: signatures take their time.
    fn recheck_streams(&self, shown: &Shown) {
        let Shown { key, credential, streams } = shown;
        let Err((code, reason)) = self.check_again(key, credential) else { return };
        let state = self.state();
        let open = state.open_streams_of(key).filter(|stream| streams.contains(&stream.id));
        let closed = open.filter(|stream| stream::close(stream.closing, code, &reason)).count();
        if closed > 0 {
            tracing::info!(proxy = %key, reason, "Closing the stream of a proxy.");
        }
    }

    fn check_again(&self, key: &ProxyKey, credential: &Credential) -> Result<(), (u8, String)> {
        let denied = |reason: String| (Closing::UNAUTHENTICATED, reason);
        let snapshot = self.0.catalog.store().snapshot();
        if dataplane::mesh(&snapshot, &key.mesh).is_none() {
            return Err(denied(format!("the mesh {:?} was deleted", key.mesh)));
        }
        let proof = credential::verify_again(&self.0.catalog, &self.0.settings, key, credential).map_err(denied)?;
        let Some(stored) = dataplane::stored(&snapshot, key) else {
            // Who makes it again, makes it anew.
            self.state().brought.remove(key);
            self.0.readiness.deleted(key, snapshot.revision());
            return Err((Closing::UNAVAILABLE, format!("the Dataplane {key} was deleted")));
        };
        proof.check(&snapshot, key, &stored).map_err(denied)
    }

    /// Closes streams whose token has reached its end.
    pub(crate) fn close_expired(&self) {
        let now = self.now();
        for (key, stream) in self.state().open_streams() {
            if let Some(expires) = stream.expires.filter(|expires| *expires <= now) {
                let reason = format!("authentication failed: the token has expired at {expires}; generate a new one");
                if stream::close(stream.closing, Closing::UNAUTHENTICATED, &reason) {
                    tracing::info!(proxy = %key, %expires, "Closing a stream whose token has expired.");
                }
            }
        }
    }
}

/// What a stream of either kind is closed by.
struct Open<'a> {
    id: u64,
    credential: &'a Credential,
    expires: Option<Timestamp>,
    closing: &'a watch::Sender<Option<Closing>>,
}

impl<'a> Open<'a> {
    fn stream(stream: &'a Stream) -> Self {
        let Stream { id, credential, expires, closing, .. } = stream;
        Self { id: *id, credential, expires: *expires, closing }
    }

    fn health(stream: &'a HealthStream) -> Self {
        let HealthStream { id, credential, expires, closing, .. } = stream;
        Self { id: *id, credential, expires: *expires, closing }
    }
}

impl State {
    /// The next proxies with streams, in the order of their names.
    fn keys_after(&self, last: Option<&ProxyKey>, count: usize) -> Vec<ProxyKey> {
        let from = (last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let streams = self.streams.range::<ProxyKey, _>(from).map(|(key, _)| key).take(count);
        let health = self.health.range::<ProxyKey, _>(from).map(|(key, _)| key).take(count);
        let both: BTreeSet<&ProxyKey> = streams.chain(health).collect();
        both.into_iter().take(count).cloned().collect()
    }

    fn open_streams(&self) -> impl Iterator<Item = (&ProxyKey, Open<'_>)> {
        let streams = self.streams.iter().map(|(key, stream)| (key, Open::stream(stream)));
        streams.chain(self.health.iter().map(|(key, stream)| (key, Open::health(stream))))
    }

    fn open_streams_of(&self, key: &ProxyKey) -> impl Iterator<Item = Open<'_>> {
        self.streams.get(key).map(Open::stream).into_iter().chain(self.health.get(key).map(Open::health))
    }

    /// Mostly one token for both streams.
    fn shown_by(&self, key: &ProxyKey) -> Vec<Shown> {
        let mut all: Vec<Shown> = Vec::new();
        for Open { id, credential, .. } in self.open_streams_of(key) {
            match all.iter_mut().find(|shown| shown.credential == *credential) {
                Some(shown) => shown.streams.push(id),
                None => all.push(Shown { key: key.clone(), credential: credential.clone(), streams: vec![id] }),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use kodiak_tokens::{
        KeyId,
        names::{ADMIN_USER_TOKEN, SecretName, TokenKind, zone_signing_public_key},
    };

    use super::*;

    fn after(name: &SecretName) -> Option<Recheck> {
        Recheck::after(&match name {
            SecretName::Mesh { mesh, name } => ResourceKey::in_mesh("Secret", mesh, name),
            SecretName::Global { name } => ResourceKey::global("GlobalSecret", name),
        })
    }

    #[test]
    fn every_secret_that_a_token_depends_on_leads_to_its_streams() {
        let mesh = Recheck::Mesh("demo".into());
        for kind in TokenKind::all("demo") {
            for kid in [KeyId::serial(0), KeyId::serial(7), KeyId::parse("from-configuration").unwrap()] {
                for secret in kind.secrets(&kid) {
                    let found = after(&secret);
                    assert!(found == Some(Recheck::All) || found.as_ref() == Some(&mesh), "{secret}: {found:?}");
                }
            }
        }
        for global in [zone_signing_public_key(1), SecretName::Global { name: ADMIN_USER_TOKEN.to_owned() }] {
            assert_eq!(after(&global), Some(Recheck::All), "{global}");
        }
    }

    #[test]
    fn what_no_token_depends_on_costs_nothing() {
        for kind in ["MeshTimeout", "MeshService", "DataplaneInsight", "Config"] {
            assert_eq!(Recheck::after(&ResourceKey::in_mesh(kind, "demo", "a")), None, "{kind}");
        }
    }
}

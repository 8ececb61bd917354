//! Closing streams that would not be let in any more.

use jiff::Timestamp;
use kodiak_ads::{Closing, Credential};
use kodiak_model::ProxyKey;
use tokio::sync::watch;

use crate::{
    Registry, credential, dataplane,
    health::HealthStream,
    registry::State,
    stream::{self, Stream},
};

/// What was shown on streams of a proxy.
struct Shown {
    key: ProxyKey,
    credential: Credential,
    streams: Vec<u64>,
}

impl Registry {
    /// To be called when a Secret of the mesh, or the mesh, was changed or deleted. Verifies the token of every stream
    /// of the mesh, so it takes its time.
    pub fn recheck(&self, mesh: &str) {
        self.recheck_where(|key| *key.mesh == *mesh);
    }

    /// To be called when a GlobalSecret was changed or deleted, and now and then.
    pub fn recheck_all(&self) {
        self.recheck_where(|_| true);
    }

    /// To be called when a Dataplane was changed or deleted. A proxy that brought it brings it again.
    pub fn recheck_proxy(&self, key: &ProxyKey) {
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
        let proof = credential::verify(&self.0.catalog, &self.0.settings, &key.mesh, credential).map_err(denied)?;
        let Some(stored) = dataplane::stored(&snapshot, key) else {
            // Who makes it again, makes it anew.
            let mut state = self.state();
            state.brought.remove(key);
            state.drained.remove(key);
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

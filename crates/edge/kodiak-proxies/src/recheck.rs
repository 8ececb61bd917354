//! Closing streams that would not be let in any more.

use kodiak_ads::{Closing, Credential};
use kodiak_model::ProxyKey;

use crate::{Registry, credential, dataplane};

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
        let stream = self.state().streams.get(key).map(|stream| (stream.id, stream.credential.clone()));
        if let Some((id, credential)) = stream {
            self.recheck_stream(key, id, &credential);
        }
    }

    fn recheck_where(&self, concerns: impl Fn(&ProxyKey) -> bool) {
        let streams: Vec<_> = {
            let state = self.state();
            let concerned = state.streams.iter().filter(|(key, _)| concerns(key));
            concerned.map(|(key, stream)| (key.clone(), stream.id, stream.credential.clone())).collect()
        };
        for (key, id, credential) in streams {
            self.recheck_stream(&key, id, &credential);
        }
    }

    /// Without the lock: signatures take their time.
    fn recheck_stream(&self, key: &ProxyKey, id: u64, credential: &Credential) {
        if let Err((code, reason)) = self.check_again(key, credential) {
            self.close(key, id, code, &reason);
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
        for (key, stream) in &self.state().streams {
            if let Some(expires) = stream.expires.filter(|expires| *expires <= now) {
                let reason = format!("authentication failed: the token has expired at {expires}; generate a new one");
                if stream.close(Closing::UNAUTHENTICATED, &reason) {
                    tracing::info!(proxy = %key, %expires, "Closing a stream whose token has expired.");
                }
            }
        }
    }

    fn close(&self, key: &ProxyKey, id: u64, code: u8, reason: &str) {
        let closed = self.state().streams.get(key).is_some_and(|stream| stream.id == id && stream.close(code, reason));
        if closed {
            tracing::info!(proxy = %key, reason, "Closing the stream of a proxy.");
        }
    }
}

//! Tokens of open streams: which to verify again, and closing the streams of those that are no longer valid.

use std::{collections::BTreeSet, ops::Bound};

use jiff::Timestamp;
use kodiak_ads::{Closing, Credential};
use kodiak_model::ProxyKey;
use tokio::sync::watch;

use super::{HealthStream, LoadStream, Sessions, State, Stream, stream};

/// Every stream is checked once in so many calls of [`Sessions::next_to_recheck`], which are a second apart.
const ROUND: usize = 60;

/// A token that a proxy presented, and the streams that were opened with it.
pub(crate) struct Presented {
    pub(crate) key: ProxyKey,
    pub(crate) credential: Credential,
    pub(crate) streams: Vec<u64>,
}

impl Sessions {
    /// Mostly one token for all streams of a proxy.
    pub(crate) fn presented_by(&self, key: &ProxyKey) -> Vec<Presented> {
        self.state().presented_by(key)
    }

    pub(crate) fn presented_where(&self, concerns: impl Fn(&ProxyKey) -> bool) -> Vec<Presented> {
        let state = self.state();
        let keys = state.streams.keys().chain(state.health.keys()).chain(state.load.keys());
        let concerned: BTreeSet<&ProxyKey> = keys.filter(|key| concerns(key)).collect();
        concerned.into_iter().flat_map(|key| state.presented_by(key)).collect()
    }

    /// The next few proxies, so that each has its turn once in [`ROUND`] calls.
    pub(crate) fn next_to_recheck(&self) -> Vec<ProxyKey> {
        let mut state = self.state();
        let count = state.streams.len().max(state.health.len()).max(state.load.len()).div_ceil(ROUND);
        let mut keys = state.keys_after(state.rechecked.as_ref(), count);
        if keys.len() < count {
            keys.extend(state.keys_after(None, count - keys.len()));
        }
        state.rechecked = keys.last().cloned();
        keys
    }

    /// Closes those of the streams that are still open. False when there was none.
    pub(crate) fn close_streams(&self, presented: &Presented, code: u8, reason: &str) -> bool {
        let state = self.state();
        let open = state.open_streams_of(&presented.key).filter(|stream| presented.streams.contains(&stream.id));
        open.filter(|stream| stream::close(stream.closing, code, reason)).count() > 0
    }

    /// Closes streams whose token has expired.
    pub(crate) fn close_expired(&self, now: Timestamp) {
        for (key, stream) in self.state().open_streams() {
            if let Some(expires) = stream.expires.filter(|expires| *expires <= now) {
                let reason = format!("authentication failed: the token has expired at {expires}; generate a new one");
                if stream::close(stream.closing, Closing::UNAUTHENTICATED, &reason) {
                    tracing::info!(proxy = %key, %expires, "xDS stream closed: token expired");
                }
            }
        }
    }
}

/// Parts of a stream of any type that closing it needs.
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

    fn load(stream: &'a LoadStream) -> Self {
        let LoadStream { id, credential, expires, closing, .. } = stream;
        Self { id: *id, credential, expires: *expires, closing }
    }
}

impl State {
    /// The next proxies with streams, in the order of their names.
    fn keys_after(&self, last: Option<&ProxyKey>, count: usize) -> Vec<ProxyKey> {
        let from = (last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let streams = self.streams.range::<ProxyKey, _>(from).map(|(key, _)| key).take(count);
        let health = self.health.range::<ProxyKey, _>(from).map(|(key, _)| key).take(count);
        let load = self.load.range::<ProxyKey, _>(from).map(|(key, _)| key).take(count);
        let all: BTreeSet<&ProxyKey> = streams.chain(health).chain(load).collect();
        all.into_iter().take(count).cloned().collect()
    }

    fn open_streams(&self) -> impl Iterator<Item = (&ProxyKey, Open<'_>)> {
        let streams = self.streams.iter().map(|(key, stream)| (key, Open::stream(stream)));
        let health = self.health.iter().map(|(key, stream)| (key, Open::health(stream)));
        streams.chain(health).chain(self.load.iter().map(|(key, stream)| (key, Open::load(stream))))
    }

    fn open_streams_of(&self, key: &ProxyKey) -> impl Iterator<Item = Open<'_>> {
        let streams = self.streams.get(key).map(Open::stream).into_iter();
        streams.chain(self.health.get(key).map(Open::health)).chain(self.load.get(key).map(Open::load))
    }

    fn presented_by(&self, key: &ProxyKey) -> Vec<Presented> {
        let mut all: Vec<Presented> = Vec::new();
        for Open { id, credential, .. } in self.open_streams_of(key) {
            match all.iter_mut().find(|presented| presented.credential == *credential) {
                Some(presented) => presented.streams.push(id),
                None => all.push(Presented { key: key.clone(), credential: credential.clone(), streams: vec![id] }),
            }
        }
        all
    }
}

//! Registrations: proxies that provided their Dataplane themselves, and when it is deleted after they left.
//!
//! `deregister` deletes the Dataplanes that are due.
//!
//! **Invariant:** a Dataplane is never deleted while a proxy connects, see [`Registrations::connecting`].
//! **Invariant:** a proxy that keeps trying to connect has not left: a Dataplane is not deleted while its proxy, with a valid
//! token, is refused, or this control plane ends its streams.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kodiak_model::ProxyKey;
use tokio::{
    sync::{Notify, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Instant,
};

/// Twice the longest pause of Envoy between two attempts to connect.
const PAUSE: Duration = Duration::from_mins(1);

pub(crate) struct Registrations {
    /// How long the Dataplane of a proxy that left stays.
    delay: Duration,
    state: Mutex<State>,
    connecting: RwLock<()>,
    /// Wakes the deregistration before its next tick.
    pub(crate) due: Notify,
}

#[derive(Default)]
struct State {
    provided: BTreeSet<ProxyKey>,
    departures: Vec<Departure>,
    /// Proxies that tried to connect, and when the next attempt is overdue.
    trying: BTreeMap<ProxyKey, Instant>,
}

/// A proxy that left, and when its Dataplane is deleted.
struct Departure {
    key: ProxyKey,
    at: Instant,
}

impl Registrations {
    pub(crate) fn new(delay: Duration) -> Self {
        Self { delay, state: Mutex::default(), connecting: RwLock::default(), due: Notify::new() }
    }

    /// A proxy is about to store a Dataplane that does not exist yet. If it disconnects meanwhile, nobody else deletes it.
    pub(crate) fn begin(&self, key: &ProxyKey) {
        let mut state = self.state();
        state.provided.insert(key.clone());
        state.departures.push(Departure { key: key.clone(), at: Instant::now() + self.delay });
    }

    /// The Dataplane was not stored. `connected` when another connection of the proxy has stored it.
    pub(crate) fn abandon(&self, key: &ProxyKey, connected: bool) {
        let mut state = self.state();
        if !connected {
            state.provided.remove(key);
        }
        state.departures.retain(|departure| departure.key != *key);
    }

    pub(crate) fn connected(&self, key: &ProxyKey, provided: bool) {
        let mut state = self.state();
        if provided {
            state.provided.insert(key.clone());
        }
        state.departures.retain(|departure| departure.key != *key);
    }

    pub(crate) fn disconnected(&self, key: &ProxyKey) {
        let mut state = self.state();
        if state.provided.contains(key) {
            state.departures.push(Departure { key: key.clone(), at: Instant::now() + self.delay });
            self.due.notify_one();
        }
    }

    /// A proxy with a valid token got no stream, or this control plane ended it. It will try again.
    pub(crate) fn refused(&self, key: &ProxyKey) {
        let now = Instant::now();
        let overdue = now + PAUSE.max(self.delay);
        let mut state = self.state();
        for departure in state.departures.iter_mut().filter(|departure| departure.key == *key) {
            departure.at = overdue;
        }
        state.trying.retain(|_, overdue| *overdue > now);
        state.trying.insert(key.clone(), overdue);
    }

    /// Whether the proxy tried to connect a moment ago.
    pub(crate) fn is_trying(&self, key: &ProxyKey) -> bool {
        self.state().trying.get(key).is_some_and(|overdue| *overdue > Instant::now())
    }

    pub(crate) fn is_provided(&self, key: &ProxyKey) -> bool {
        self.state().provided.contains(key)
    }

    pub(crate) fn forget(&self, key: &ProxyKey) {
        self.state().provided.remove(key);
    }

    pub(crate) fn take_due(&self) -> BTreeSet<ProxyKey> {
        let now = Instant::now();
        let mut state = self.state();
        state.departures.extract_if(.., |departure| departure.at <= now).map(|departure| departure.key).collect()
    }

    pub(crate) fn retry(&self, keys: Vec<ProxyKey>) {
        let at = Instant::now() + self.delay;
        self.state().departures.extend(keys.into_iter().map(|key| Departure { key, at }));
    }

    /// Held while a proxy connects.
    pub(crate) async fn connecting(&self) -> RwLockReadGuard<'_, ()> {
        self.connecting.read().await
    }

    /// Held while Dataplanes are deleted: none is deleted under a proxy that is just coming back.
    pub(crate) async fn deleting(&self) -> RwLockWriteGuard<'_, ()> {
        self.connecting.write().await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

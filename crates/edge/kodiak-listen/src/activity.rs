//! What one connection does now, and until when it may.
//!
//! hyper bounds the head of an HTTP/1 request too, but from the end of the request before: it cannot tell a connection
//! that is kept from one whose head comes byte by byte. So the deadlines are here, for both protocols.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Version;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::limits::{ConnectionLimits, RESET_WINDOW};
use crate::observer::Refused;
use crate::table::Table;

pub(crate) struct Activity {
    table: Arc<Table>,
    connection: u64,
    limits: ConnectionLimits,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    /// Beginnings of the requests that are under way; the first is the oldest.
    requests: BTreeMap<u64, Instant>,
    next: u64,
    /// The end of the last request, or the beginning of the connection.
    idle_since: Instant,
    /// When the head of an HTTP/1 request began to arrive.
    head_since: Option<Instant>,
    protocol: Protocol,
    resets: u32,
    resets_since: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// Until the first request.
    Unknown,
    Http1,
    Http2,
}

/// Why a connection ends without the client's doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    Idle,
    Refused(Refused),
}

/// A request that is under way. Dropping it ends the request.
pub(crate) struct Exchange {
    activity: Arc<Activity>,
    request: u64,
    completed: bool,
}

impl Activity {
    pub(crate) fn new(table: Arc<Table>, connection: u64, limits: ConnectionLimits) -> Arc<Self> {
        let now = Instant::now();
        let state = State {
            requests: BTreeMap::new(),
            next: 0,
            idle_since: now,
            head_since: None,
            protocol: Protocol::Unknown,
            resets: 0,
            resets_since: now,
        };
        Arc::new(Self { table, connection, limits, state: Mutex::new(state), changed: Notify::new() })
    }

    /// The client has sent bytes.
    pub(crate) fn received(&self) {
        let mut state = self.lock();
        if state.protocol == Protocol::Http1 && state.requests.is_empty() && state.head_since.is_none() {
            state.head_since = Some(Instant::now());
            drop(state);
            self.changed.notify_one();
        }
    }

    /// The head of a request is there.
    pub(crate) fn begin(self: &Arc<Self>, version: Version) -> Exchange {
        let mut state = self.lock();
        state.protocol = if version == Version::HTTP_2 { Protocol::Http2 } else { Protocol::Http1 };
        state.head_since = None;
        let request = state.next;
        state.next += 1;
        state.requests.insert(request, Instant::now());
        // Under the lock, so that the table never sees the end of a request before its beginning.
        if state.requests.len() == 1 {
            self.table.busy(self.connection);
        }
        drop(state);
        self.changed.notify_one();
        Exchange { activity: self.clone(), request, completed: false }
    }

    fn end(&self, request: u64, completed: bool) {
        let mut state = self.lock();
        let now = Instant::now();
        state.requests.remove(&request);
        state.idle_since = now;
        if !completed {
            if now.duration_since(state.resets_since) > RESET_WINDOW {
                (state.resets, state.resets_since) = (0, now);
            }
            state.resets += 1;
        }
        if state.requests.is_empty() {
            self.table.idle(self.connection);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Waits until the connection has overstayed.
    pub(crate) async fn overdue(&self) -> Overdue {
        loop {
            // Changes from here on are not missed: one that came before the wait leaves a permit.
            match self.deadline() {
                None => self.changed.notified().await,
                Some((at, overdue)) if at <= Instant::now() => return overdue,
                Some((at, _)) => tokio::select! {
                    () = self.changed.notified() => (),
                    () = tokio::time::sleep_until(at) => (),
                },
            }
        }
    }

    fn deadline(&self) -> Option<(Instant, Overdue)> {
        let state = self.lock();
        let limits = &self.limits;
        if state.resets > limits.resets {
            return Some((state.resets_since, Overdue::Refused(Refused::Resets)));
        }
        if let Some((_, oldest)) = state.requests.first_key_value() {
            return limits.exchange.map(|time| (*oldest + time, Overdue::Refused(Refused::Exchange)));
        }
        let head = |since: Instant| Some((since + limits.request_head, Overdue::Refused(Refused::RequestHead)));
        match (state.protocol, state.head_since) {
            (Protocol::Unknown, _) => head(state.idle_since),
            (Protocol::Http1, Some(since)) => head(since),
            (Protocol::Http1 | Protocol::Http2, _) => Some((state.idle_since + limits.idle, Overdue::Idle)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exchange {
    /// The whole response was taken; dropped before, the client has aborted the request.
    pub(crate) fn complete(&mut self) {
        self.completed = true;
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.activity.end(self.request, self.completed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::peer::PeerKey;

    fn activity() -> Arc<Activity> {
        let limits = ConnectionLimits {
            request_head: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            exchange: Some(Duration::from_mins(2)),
            resets: 3,
            ..ConnectionLimits::api()
        };
        let table = Table::new(limits, None);
        let ticket = table.admit(PeerKey::Local).unwrap();
        Activity::new(table, ticket.connection, limits)
    }

    /// When it is overdue, in seconds from now, and why.
    async fn ends(activity: &Activity) -> (u64, Overdue) {
        let now = Instant::now();
        let overdue = activity.overdue().await;
        (now.elapsed().as_secs(), overdue)
    }

    fn done(mut exchange: Exchange) {
        exchange.complete();
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_head_has_its_time() {
        assert_eq!(ends(&activity()).await, (10, Overdue::Refused(Refused::RequestHead)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_kept_connection_may_be_idle_but_a_head_may_not_drip() {
        let activity = activity();
        done(activity.begin(Version::HTTP_11));
        assert_eq!(ends(&activity).await, (75, Overdue::Idle));
        done(activity.begin(Version::HTTP_11));
        activity.received();
        tokio::time::advance(Duration::from_secs(6)).await;
        activity.received();
        assert_eq!(ends(&activity).await, (4, Overdue::Refused(Refused::RequestHead)));
    }

    #[tokio::test(start_paused = true)]
    async fn control_frames_do_not_keep_an_http_2_connection() {
        let activity = activity();
        done(activity.begin(Version::HTTP_2));
        tokio::time::advance(Duration::from_secs(70)).await;
        activity.received();
        assert_eq!(ends(&activity).await, (5, Overdue::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_has_its_time_whatever_else_goes_on() {
        let activity = activity();
        let slow = activity.begin(Version::HTTP_2);
        tokio::time::advance(Duration::from_secs(100)).await;
        done(activity.begin(Version::HTTP_2));
        assert_eq!(ends(&activity).await, (20, Overdue::Refused(Refused::Exchange)));
        done(slow);
    }

    #[tokio::test(start_paused = true)]
    async fn many_aborted_requests_end_the_connection() {
        let activity = activity();
        for _ in 0..3 {
            drop(activity.begin(Version::HTTP_2));
            done(activity.begin(Version::HTTP_2));
        }
        assert_eq!(ends(&activity).await, (75, Overdue::Idle));
        for _ in 0..4 {
            drop(activity.begin(Version::HTTP_2));
        }
        assert_eq!(ends(&activity).await, (0, Overdue::Refused(Refused::Resets)));
    }
}

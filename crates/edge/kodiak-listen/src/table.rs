//! The open connections of one port: who gets in, and who is closed for whom.
//!
//! A connection that carries no request can be evicted: first those that never carried one, and among them the one that
//! waits longest. A flood of silent connections therefore evicts itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::limits::ConnectionLimits;
use crate::observer::{ConnectionObserver, Refused};
use crate::peer::PeerKey;

pub(crate) struct Table {
    limits: ConnectionLimits,
    observer: Option<Arc<dyn ConnectionObserver>>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, Entry>,
    /// Those that can be evicted, in the order in which they would be.
    idle: BTreeSet<Rank>,
    peers: BTreeMap<PeerKey, OfPeer>,
}

#[derive(Default)]
struct OfPeer {
    connections: usize,
    idle: BTreeSet<Rank>,
}

struct Entry {
    peer: PeerKey,
    /// None while it carries a request.
    rank: Option<Rank>,
    evicted: CancellationToken,
}

/// The smallest is evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Whether it has carried a request.
    used: bool,
    /// Counts up, so the smaller one waits longer.
    since: u64,
    connection: u64,
}

/// A place in the table, given back when it is dropped.
pub(crate) struct Ticket {
    pub(crate) connection: u64,
    pub(crate) evicted: CancellationToken,
    table: Arc<Table>,
}

impl Table {
    pub(crate) fn new(limits: ConnectionLimits, observer: Option<Arc<dyn ConnectionObserver>>) -> Arc<Self> {
        Arc::new(Self { limits, observer, open: Mutex::default() })
    }

    /// Lets a connection in, if need be in place of another one.
    pub(crate) fn admit(self: &Arc<Self>, peer: PeerKey) -> Result<Ticket, Refused> {
        let mut open = self.lock();
        let of_peer = open.peers.get(&peer);
        if peer != PeerKey::Local && of_peer.is_some_and(|of| of.connections >= self.limits.connections_per_peer) {
            let oldest = of_peer.and_then(|of| of.idle.first().copied());
            self.evict(&mut open, oldest.ok_or(Refused::PeerLimit)?, Refused::Evicted);
        }
        if open.connections.len() >= self.limits.connections {
            let oldest = open.idle.first().copied();
            self.evict(&mut open, oldest.ok_or(Refused::TotalLimit)?, Refused::Evicted);
        }
        let connection = open.count();
        let evicted = CancellationToken::new();
        open.connections.insert(connection, Entry { peer, rank: None, evicted: evicted.clone() });
        open.peers.entry(peer).or_default().connections += 1;
        open.rank(connection, false);
        if let Some(observer) = &self.observer {
            observer.opened();
        }
        Ok(Ticket { connection, evicted, table: self.clone() })
    }

    /// Closes the connection that waits longest, where the process can open no more.
    pub(crate) fn make_room(&self) {
        let mut open = self.lock();
        if let Some(oldest) = open.idle.first().copied() {
            self.evict(&mut open, oldest, Refused::Descriptors);
        }
    }

    pub(crate) fn refused(&self, reason: Refused) {
        if let Some(observer) = &self.observer {
            observer.refused(reason);
        }
    }

    /// It carries a request, and is not evicted meanwhile.
    pub(crate) fn busy(&self, connection: u64) {
        if !self.limits.evict_busy {
            self.lock().unrank(connection);
        }
    }

    /// It carries no request any more.
    pub(crate) fn idle(&self, connection: u64) {
        if !self.limits.evict_busy {
            self.lock().rank(connection, true);
        }
    }

    fn evict(&self, open: &mut Open, rank: Rank, reason: Refused) {
        if let Some(entry) = open.remove(rank.connection) {
            entry.evicted.cancel();
            self.refused(reason);
            self.closed();
        }
    }

    fn closed(&self) {
        if let Some(observer) = &self.observer {
            observer.closed();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn count(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn rank(&mut self, connection: u64, used: bool) {
        self.unrank(connection);
        let rank = Rank { used, since: self.count(), connection };
        if let Some(entry) = self.connections.get_mut(&connection) {
            entry.rank = Some(rank);
            self.idle.insert(rank);
            self.peers.entry(entry.peer).or_default().idle.insert(rank);
        }
    }

    fn unrank(&mut self, connection: u64) {
        let Some(entry) = self.connections.get_mut(&connection) else { return };
        let Some(rank) = entry.rank.take() else { return };
        self.idle.remove(&rank);
        if let Some(of_peer) = self.peers.get_mut(&entry.peer) {
            of_peer.idle.remove(&rank);
        }
    }

    fn remove(&mut self, connection: u64) -> Option<Entry> {
        self.unrank(connection);
        let entry = self.connections.remove(&connection)?;
        if let Some(of_peer) = self.peers.get_mut(&entry.peer) {
            of_peer.connections -= 1;
            if of_peer.connections == 0 {
                self.peers.remove(&entry.peer);
            }
        }
        Some(entry)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // One that was evicted has lost its place already.
        if self.table.lock().remove(self.connection).is_some() {
            self.table.closed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PeerKey = PeerKey::V4(1);
    const B: PeerKey = PeerKey::V4(2);

    fn table(connections: usize, connections_per_peer: usize) -> Arc<Table> {
        Table::new(ConnectionLimits { connections, connections_per_peer, ..ConnectionLimits::api() }, None)
    }

    fn evicted(tickets: &[&Ticket]) -> Vec<bool> {
        tickets.iter().map(|ticket| ticket.evicted.is_cancelled()).collect()
    }

    #[test]
    fn the_longest_silent_connection_is_closed_for_a_new_one() {
        let table = table(2, 2);
        let (first, second) = (table.admit(A).unwrap(), table.admit(A).unwrap());
        let third = table.admit(B).unwrap();
        assert_eq!(evicted(&[&first, &second, &third]), [true, false, false]);
    }

    #[test]
    fn a_used_connection_outlives_silent_ones() {
        let table = table(2, 2);
        let used = table.admit(A).unwrap();
        table.busy(used.connection);
        table.idle(used.connection);
        for _ in 0..100 {
            let _silent = table.admit(B).unwrap();
        }
        assert!(!used.evicted.is_cancelled());
    }

    #[test]
    fn busy_connections_stay_and_new_ones_are_refused() {
        let table = table(1, 1);
        let first = table.admit(A).unwrap();
        table.busy(first.connection);
        assert_eq!(table.admit(B).err(), Some(Refused::TotalLimit));
        assert_eq!(table.admit(A).err(), Some(Refused::PeerLimit));
        drop(first);
        table.admit(B).unwrap();
    }

    #[test]
    fn a_peer_at_its_limit_takes_from_itself_alone() {
        let table = table(100, 2);
        let other = table.admit(B).unwrap();
        let own: Vec<_> = (0..3).map(|_| table.admit(A).unwrap()).collect();
        assert_eq!(evicted(&[&other, &own[0], &own[1], &own[2]]), [false, true, false, false]);
    }

    #[test]
    fn this_machine_is_limited_in_total_alone() {
        let table = table(3, 1);
        let local: Vec<_> = (0..3).map(|_| table.admit(PeerKey::Local).unwrap()).collect();
        assert!(local.iter().all(|ticket| !ticket.evicted.is_cancelled()));
    }

    #[test]
    fn where_busy_ones_may_be_evicted_the_oldest_is() {
        let limits = ConnectionLimits { connections: 1, ..ConnectionLimits::health() };
        let table = Table::new(limits, None);
        let first = table.admit(A).unwrap();
        table.busy(first.connection);
        let _second = table.admit(B).unwrap();
        assert!(first.evicted.is_cancelled());
    }

    #[test]
    fn nothing_is_left_of_closed_connections() {
        let table = table(10, 10);
        let (first, second) = (table.admit(A).unwrap(), table.admit(B).unwrap());
        table.busy(first.connection);
        drop((first, second));
        let open = table.lock();
        assert!(open.connections.is_empty() && open.idle.is_empty() && open.peers.is_empty());
    }
}

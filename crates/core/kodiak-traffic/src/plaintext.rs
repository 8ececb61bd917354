//! Callers without mTLS: which addresses called which inbounds of a server, as its proxies report them.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Serialize};

/// One server has at most one of this many parts of all callers that are recorded.
const SHARE_OF_A_SERVER: usize = 4;

/// Callers that a proxy has counted since its last report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PlaintextReport {
    pub callers: Vec<ReportedCaller>,
    /// Requests of addresses for which the proxy had no space.
    pub dropped: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportedCaller {
    /// Port of the inbound.
    pub port: u16,
    /// Source address of its connections.
    pub address: IpAddr,
    /// HTTP requests, or TCP connections.
    pub requests: u64,
}

/// Recorded callers of all proxies of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredCallers", into = "StoredCallers")]
pub struct ServerCallers {
    /// By port of the inbound, and source address.
    pub callers: BTreeMap<(u16, IpAddr), CallerTraffic>,
    /// Requests of addresses that were not recorded because there were too many.
    pub dropped: u64,
}

/// Traffic of one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallerTraffic {
    pub requests: u64,
    /// Seconds since the epoch of the first and the last report with traffic.
    pub first_seen: i64,
    pub last_seen: i64,
}

/// Callers are arrays: there are many.
#[derive(Serialize, Deserialize)]
struct StoredCallers {
    callers: Vec<(u16, IpAddr, u64, i64, i64)>,
    dropped: u64,
}

impl From<StoredCallers> for ServerCallers {
    fn from(StoredCallers { callers, dropped }: StoredCallers) -> Self {
        let callers = callers.into_iter().map(|(port, address, requests, first_seen, last_seen)| {
            ((port, address), CallerTraffic { requests, first_seen, last_seen })
        });
        Self { callers: callers.collect(), dropped }
    }
}

impl From<ServerCallers> for StoredCallers {
    fn from(ServerCallers { callers, dropped }: ServerCallers) -> Self {
        let callers = callers.into_iter().map(|((port, address), seen)| {
            let CallerTraffic { requests, first_seen, last_seen } = seen;
            (port, address, requests, first_seen, last_seen)
        });
        Self { callers: callers.collect(), dropped }
    }
}

impl CallerTraffic {
    fn merge(&mut self, other: Self) {
        let Self { requests, first_seen, last_seen } = other;
        self.requests = self.requests.saturating_add(requests);
        self.first_seen = self.first_seen.min(first_seen);
        self.last_seen = self.last_seen.max(last_seen);
    }
}

impl ServerCallers {
    pub fn reported(report: &PlaintextReport, now: i64) -> Self {
        let mut callers = Self { dropped: report.dropped, ..Self::default() };
        for ReportedCaller { port, address, requests } in &report.callers {
            let traffic = CallerTraffic { requests: *requests, first_seen: now, last_seen: now };
            let caller = callers.callers.entry((*port, address.to_canonical()));
            caller.and_modify(|known| known.merge(traffic)).or_insert(traffic);
        }
        callers
    }

    /// Number of pairs of port and address.
    pub fn len(&self) -> usize {
        self.callers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.callers.is_empty() && self.dropped == 0
    }

    /// Adds the other callers; new ones only while `space` is left, which is reduced. Requests of others are counted.
    pub(crate) fn merge_into(&mut self, other: &Self, space: &mut usize, limit: usize) {
        let mut own = (limit / SHARE_OF_A_SERVER).max(1).saturating_sub(self.len());
        let mut dropped = other.dropped;
        for (caller, traffic) in &other.callers {
            if let Some(known) = self.callers.get_mut(caller) {
                known.merge(*traffic);
            } else if *space > 0 && own > 0 {
                self.callers.insert(*caller, *traffic);
                *space -= 1;
                own -= 1;
            } else {
                dropped = dropped.saturating_add(traffic.requests);
            }
        }
        self.dropped = self.dropped.saturating_add(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(callers: &[(u16, &str, u64)]) -> PlaintextReport {
        let caller = |(port, address, requests): &(u16, &str, u64)| ReportedCaller {
            port: *port,
            address: address.parse().unwrap(),
            requests: *requests,
        };
        PlaintextReport { callers: callers.iter().map(caller).collect(), dropped: 0 }
    }

    #[test]
    fn mapped_addresses_are_those_of_ipv4() {
        let callers = ServerCallers::reported(&report(&[(80, "::ffff:10.0.0.1", 2), (80, "10.0.0.1", 3)]), 7);
        let expected = CallerTraffic { requests: 5, first_seen: 7, last_seen: 7 };
        assert_eq!(callers.callers, [((80, "10.0.0.1".parse().unwrap()), expected)].into());
    }

    #[test]
    fn one_server_cannot_use_up_the_space_of_all() {
        let many: Vec<_> = (0..100_u8).map(|n| (80, format!("10.0.0.{n}"), 1)).collect();
        let many: Vec<_> = many.iter().map(|(port, address, requests)| (*port, address.as_str(), *requests)).collect();
        let (mut callers, mut space) = (ServerCallers::default(), 40);
        callers.merge_into(&ServerCallers::reported(&report(&many), 1), &mut space, 40);
        assert_eq!((callers.len(), callers.dropped, space), (10, 90, 30));
        callers.merge_into(&ServerCallers::reported(&report(&many[..1]), 9), &mut space, 40);
        let first = callers.callers[&(80, "10.0.0.0".parse().unwrap())];
        assert_eq!((first.requests, first.first_seen, first.last_seen), (2, 1, 9), "known ones still grow");
    }
}

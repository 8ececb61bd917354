//! Recorded traffic: what a control plane has observed, as it is stored.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{ClientId, ClusterLoad, Coverage, ServerCallers};

/// Traffic of a mesh, or of a part of its clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Recorded {
    pub clients: BTreeMap<ClientId, ClientTraffic>,
    /// Observations that were not recorded because there were too many edges.
    pub dropped: u64,
    /// Callers without mTLS, by server. Servers are grouped as clients are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub plaintext: BTreeMap<ClientId, ServerCallers>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientTraffic {
    pub observed: Coverage,
    /// By `kuma.io/service` or KRI.
    pub destinations: BTreeMap<Arc<str>, EdgeTraffic>,
}

/// Traffic from a client to a destination. Stored as an array: there are many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64, u64, i64, i64)", into = "(u64, u64, u64, i64, i64)")]
pub struct EdgeTraffic {
    requests: u64,
    failed: u64,
    /// Most requests in progress at a time. Those that began before the observation are in no other counter.
    open: u64,
    /// Seconds since the epoch of the first and the last report with traffic.
    pub first_seen: i64,
    pub last_seen: i64,
}

impl From<(u64, u64, u64, i64, i64)> for EdgeTraffic {
    fn from((requests, failed, open, first_seen, last_seen): (u64, u64, u64, i64, i64)) -> Self {
        Self { requests, failed, open, first_seen, last_seen }
    }
}

impl From<EdgeTraffic> for (u64, u64, u64, i64, i64) {
    fn from(EdgeTraffic { requests, failed, open, first_seen, last_seen }: EdgeTraffic) -> Self {
        (requests, failed, open, first_seen, last_seen)
    }
}

impl EdgeTraffic {
    pub fn seen(load: ClusterLoad, now: i64) -> Self {
        let ClusterLoad { requests, failed, open } = load;
        Self { requests, failed, open, first_seen: now, last_seen: now }
    }

    /// HTTP requests or TCP connections, at least those that are known from other counters.
    pub fn requests(self) -> u64 {
        self.requests.max(self.failed).max(self.open)
    }

    pub fn failed(self) -> u64 {
        self.failed
    }

    pub fn merge(&mut self, other: Self) {
        let Self { requests, failed, open, first_seen, last_seen } = other;
        self.requests = self.requests.saturating_add(requests);
        self.failed = self.failed.saturating_add(failed);
        self.open = self.open.max(open);
        self.first_seen = self.first_seen.min(first_seen);
        self.last_seen = self.last_seen.max(last_seen);
    }
}

impl Recorded {
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.dropped == 0 && self.plaintext.is_empty()
    }

    /// Number of edges.
    pub fn edges(&self) -> usize {
        self.clients.values().map(|client| client.destinations.len()).sum()
    }

    /// Observations of edges, and requests without mTLS, that were not recorded because there were too many.
    pub fn all_dropped(&self) -> u64 {
        let plaintext = self.plaintext.values().map(|callers| callers.dropped);
        plaintext.fold(self.dropped, u64::saturating_add)
    }

    /// Adds the other observations to these.
    pub fn merge(&mut self, other: &Self) {
        self.merge_up_to(other, usize::MAX);
    }

    /// Like [`Self::merge`], but adds new edges and clients only until there are `limit` edges, and as many callers without
    /// mTLS. Others are counted.
    pub fn merge_up_to(&mut self, other: &Self, limit: usize) {
        let (mut edges, mut dropped) = (self.edges(), other.dropped);
        for (id, traffic) in &other.clients {
            if !self.clients.contains_key(id) && self.clients.len() >= limit {
                dropped = dropped.saturating_add(traffic.destinations.len().max(1) as u64);
                continue;
            }
            let client = self.clients.entry(id.clone()).or_default();
            client.observed.merge(&traffic.observed);
            for (destination, seen) in &traffic.destinations {
                if let Some(edge) = client.destinations.get_mut(destination) {
                    edge.merge(*seen);
                } else if edges < limit {
                    client.destinations.insert(destination.clone(), *seen);
                    edges += 1;
                } else {
                    dropped = dropped.saturating_add(1);
                }
            }
        }
        self.dropped = self.dropped.saturating_add(dropped);
        self.merge_plaintext(other, limit);
    }

    fn merge_plaintext(&mut self, other: &Self, limit: usize) {
        let known: usize = self.plaintext.values().map(ServerCallers::len).sum();
        let mut space = limit.saturating_sub(known);
        for (server, callers) in &other.plaintext {
            // A server without space is recorded for what it dropped, as long as there are fewer than edges could be.
            if self.plaintext.contains_key(server) || self.plaintext.len() < limit {
                self.plaintext.entry(server.clone()).or_default().merge_into(callers, &mut space, limit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{PlaintextReport, ReportedCaller};

    fn load(requests: u64) -> ClusterLoad {
        ClusterLoad { requests, failed: 0, open: 0 }
    }

    fn recorded(client: &str, destination: &str, edge: EdgeTraffic) -> Recorded {
        let mut observed = Coverage::default();
        observed.add(edge.first_seen - 10, edge.first_seen);
        let traffic = ClientTraffic { observed, destinations: [(destination.into(), edge)].into() };
        Recorded { clients: [(client.into(), traffic)].into(), ..Recorded::default() }
    }

    #[test]
    fn counts_add_up_and_times_widen() {
        let mut all = recorded("web", "backend", EdgeTraffic::seen(load(2), 100));
        all.merge(&recorded("web", "backend", EdgeTraffic::seen(load(3), 50)));
        let edge = all.clients[&"web".into()].destinations["backend"];
        assert_eq!((edge.requests(), edge.first_seen, edge.last_seen), (5, 50, 100));
    }

    #[test]
    fn connections_that_stay_open_are_not_counted_with_each_report() {
        let open = EdgeTraffic::seen(ClusterLoad { requests: 0, failed: 0, open: 2 }, 10);
        let mut all = recorded("web", "backend", open);
        all.merge(&recorded("web", "backend", EdgeTraffic { first_seen: 20, last_seen: 20, ..open }));
        let edge = all.clients[&"web".into()].destinations["backend"];
        assert_eq!((edge.requests(), edge.last_seen), (2, 20));
    }

    #[test]
    fn edges_beyond_the_limit_are_counted_but_known_ones_still_grow() {
        let mut all = Recorded::default();
        for destination in ["a", "b", "c"] {
            all.merge_up_to(&recorded("web", destination, EdgeTraffic::seen(load(1), 1)), 2);
        }
        all.merge_up_to(&recorded("web", "a", EdgeTraffic::seen(load(1), 1)), 2);
        all.merge_up_to(&recorded("one", "x", EdgeTraffic::seen(load(1), 1)), 2);
        all.merge_up_to(&recorded("two", "x", EdgeTraffic::seen(load(1), 1)), 2);
        assert_eq!((all.edges(), all.clients.len(), all.dropped), (2, 2, 3));
        assert_eq!(all.clients[&"web".into()].destinations["a"].requests(), 2);
    }

    #[test]
    fn stored_format_is_unchanged() {
        let text =
            r#"{"clients":{"api,web":{"observed":[[90,100]],"destinations":{"backend":[2,0,1,100,100]}}},"dropped":3}"#;
        let read: Recorded = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!(read.clients.keys().next().unwrap().services().collect::<Vec<_>>(), ["api", "web"]);
    }

    #[test]
    fn stored_callers_without_mtls_have_a_stable_format() {
        let text =
            r#"{"clients":{},"dropped":0,"plaintext":{"db":{"callers":[[8080,"10.0.0.7",3,90,100]],"dropped":1}}}"#;
        let read: Recorded = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    fn any() -> impl Strategy<Value = Recorded> {
        let edge = ("[ab]", "[xy]", 0..9u64, 0..3u64, 0..1000i64);
        let caller = ("[ab]", 0..2u16, 0..3u8, 0..9u64, 0..1000i64);
        let (edges, callers) = (prop::collection::vec(edge, 0..6), prop::collection::vec(caller, 0..6));
        (edges, callers).prop_map(|(edges, callers)| {
            let mut all = Recorded::default();
            for (client, destination, requests, open, now) in edges {
                let load = ClusterLoad { requests, failed: 0, open };
                all.merge(&recorded(&client, &destination, EdgeTraffic::seen(load, now)));
            }
            for (server, port, number, requests, now) in callers {
                let caller = ReportedCaller { port, address: [10, 0, 0, number].into(), requests };
                let callers = PlaintextReport { callers: vec![caller], dropped: requests };
                let plaintext = [(server.as_str().into(), ServerCallers::reported(&callers, now))].into();
                all.merge(&Recorded { plaintext, ..Recorded::default() });
            }
            all
        })
    }

    proptest! {
        #[test]
        fn order_of_merging_does_not_matter(a in any(), b in any(), c in any()) {
            let of = |parts: [&Recorded; 3]| {
                let mut all = Recorded::default();
                for part in parts {
                    all.merge(part);
                }
                all
            };
            let mut nested = b.clone();
            nested.merge(&c);
            let mut other = a.clone();
            other.merge(&nested);
            prop_assert_eq!(&of([&a, &b, &c]), &of([&c, &a, &b]));
            prop_assert_eq!(of([&a, &b, &c]), other);
        }
    }
}

//! What Envoy counts for its clusters, and which of them are old.

use std::collections::BTreeMap;

use kodiak_xds::names;
use serde::Serialize;

/// Since the proxy started, or over a time in which it was watched; `open` and `waiting` are of now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counters {
    pub(super) requests: u64,
    pub(super) connections: u64,
    /// Connections.
    pub(super) open: u64,
    /// Requests without an answer yet, and connections for bytes that are open: Envoy counts those as requests too.
    pub(super) waiting: u64,
}

/// By the names of clusters as they are in statistics.
pub(super) type Clusters = BTreeMap<String, Counters>;

/// What a proxy sends where.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Traffic {
    /// By the value of `kuma.io/service`; those that were never called are missing.
    pub(super) old: BTreeMap<String, Counters>,
    /// To all objects together.
    pub(super) new: Counters,
}

/// The lines of `/stats` that are about clusters.
pub(super) fn read(stats: &str) -> Clusters {
    let mut clusters = Clusters::new();
    for line in stats.lines() {
        let Some((name, value)) = line.strip_prefix("cluster.").and_then(|rest| rest.rsplit_once(": ")) else {
            continue;
        };
        let Some((cluster, counter)) = name.rsplit_once('.') else { continue };
        let Ok(value) = value.trim().parse() else { continue };
        let wanted: fn(&mut Counters) -> &mut u64 = match counter {
            "upstream_rq_total" => |counters| &mut counters.requests,
            "upstream_cx_total" => |counters| &mut counters.connections,
            "upstream_cx_active" => |counters| &mut counters.open,
            "upstream_rq_active" => |counters| &mut counters.waiting,
            _ => continue,
        };
        *wanted(clusters.entry(cluster.to_owned()).or_default()) = value;
    }
    clusters
}

impl Counters {
    fn add(&mut self, other: Self) {
        let Self { requests, connections, open, waiting } = other;
        self.requests += requests;
        self.connections += connections;
        self.open += open;
        self.waiting += waiting;
    }

    /// What came on top of `before`; a proxy that was started anew counts from nothing.
    fn since(self, before: Self) -> Self {
        let restarted = self.requests < before.requests || self.connections < before.connections;
        let before = if restarted { Self::default() } else { before };
        Self { requests: self.requests - before.requests, connections: self.connections - before.connections, ..self }
    }

    /// Connections that are kept open for requests that nobody sends are no use.
    pub(super) fn is_used(self) -> bool {
        let Self { requests, connections, open: _, waiting } = self;
        requests > 0 || connections > 0 || waiting > 0
    }

    /// `1200 requests, 3 open`; bytes are counted by their connections.
    pub(super) fn show(self) -> String {
        let Self { requests, connections, open, .. } = self;
        if !self.is_used() {
            return "0".to_owned();
        }
        let (number, what) = if requests > 0 { (requests, "request") } else { (connections, "connection") };
        let ending = if number == 1 { "" } else { "s" };
        format!("{number} {what}{ending}, {open} open")
    }
}

impl Traffic {
    /// `services` are all values of `kuma.io/service`. Clusters of the proxy itself are neither old nor new.
    pub(super) fn of<'a>(
        clusters: &Clusters,
        before: Option<&Clusters>,
        services: impl Iterator<Item = &'a str>,
    ) -> Self {
        // Clusters of services keep their names in statistics, all others lose what is special in them.
        let known = |service: &'a str| [(names::stat_name(service), service), (service.to_owned(), service)];
        let services: BTreeMap<String, &str> = services.flat_map(known).collect();
        let mut traffic = Self::default();
        for (cluster, counters) in clusters {
            let counters = match before {
                Some(before) => counters.since(before.get(cluster).copied().unwrap_or_default()),
                None => *counters,
            };
            if let Some(service) = services.get(cluster.as_str()).or_else(|| services.get(whole(cluster)?)) {
                if counters.is_used() {
                    traffic.old.entry((*service).to_owned()).or_default().add(counters);
                }
            } else if names::is_port(cluster) {
                traffic.new.add(counters);
            }
        }
        traffic
    }

    pub(super) fn all_old(&self) -> Counters {
        self.old.values().fold(Counters::default(), |mut all, counters| {
            all.add(*counters);
            all
        })
    }
}

/// `web` of `web-c72efb5be46fae6b`: a subset of a service has the hash of its tags behind it.
fn whole(cluster: &str) -> Option<&str> {
    let (service, hash) = cluster.rsplit_once('-')?;
    let is_hash = hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    is_hash.then_some(service)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATS: &str = "\
cluster.api.upstream_cx_active: 2
cluster.api.upstream_cx_total: 3
cluster.api.upstream_rq_total: 40
cluster.api.upstream_rq_active: 0
cluster.api-c72efb5be46fae6b.upstream_rq_total: 2
cluster.api-c72efb5be46fae6b.upstream_cx_length_ms: P0(nan,1) P25(nan,1.025)
cluster.a.b.upstream_cx_total: 1
cluster.idle.upstream_cx_total: 0
cluster.localhost_8080.upstream_rq_total: 9
cluster.web__east_default_msvc_80.upstream_rq_total: 7
cluster.kri_msvc_default_east__web_80.upstream_rq_total: 1
listener.0.0.0.0_1.downstream_cx_total: 5
server.uptime: 100
nonsense";

    fn services() -> impl Iterator<Item = &'static str> {
        ["api", "a.b", "idle", "msvc_80"].into_iter()
    }

    fn requests(counters: Counters) -> (u64, u64) {
        (counters.requests, counters.open)
    }

    #[test]
    fn clusters_are_old_by_their_services_and_new_by_their_endings() {
        let traffic = Traffic::of(&read(STATS), None, services());
        let old: Vec<_> =
            traffic.old.iter().map(|(service, counters)| (service.as_str(), requests(*counters))).collect();
        assert_eq!(old, [("a.b", (0, 0)), ("api", (42, 2))]);
        assert_eq!(traffic.old["a.b"].connections, 1);
        assert_eq!(requests(traffic.new), (8, 0));
        assert_eq!(requests(traffic.all_old()), (42, 2));
    }

    #[test]
    fn what_was_watched_is_what_came_on_top() {
        let (before, mut after) = (read(STATS), read(STATS));
        after.get_mut("a.b").unwrap().connections = 5;
        let traffic = Traffic::of(&after, Some(&before), services());
        assert_eq!(
            traffic.old.keys().collect::<Vec<_>>(),
            ["a.b"],
            "the connections to api are open, and nobody sends over them"
        );
        assert_eq!(traffic.old["a.b"].connections, 4);
        // Bytes are not counted: who has a connection for them may use it.
        let held = read("cluster.api.upstream_cx_total: 1\ncluster.api.upstream_rq_active: 1\n");
        assert!(Traffic::of(&held, Some(&held), services()).old["api"].is_used());
        // The proxy was started anew.
        after.get_mut("api").unwrap().requests = 1;
        assert_eq!(Traffic::of(&after, Some(&before), services()).old["api"].requests, 1);
    }

    #[test]
    fn numbers_are_said_as_people_read_them() {
        let counters = |requests, connections, open| Counters { requests, connections, open, ..Counters::default() };
        for (counters, expected) in [
            (counters(0, 0, 0), "0"),
            (counters(1, 1, 0), "1 request, 0 open"),
            (counters(1200, 3, 2), "1200 requests, 2 open"),
            (counters(0, 1, 1), "1 connection, 1 open"),
        ] {
            assert_eq!(counters.show(), expected);
        }
    }

    #[test]
    fn only_a_hash_is_taken_off_a_name() {
        assert_eq!(whole("web-c72efb5be46fae6b"), Some("web"));
        for other in ["web", "web-1", "web-c72efb5be46fae6", "web-C72EFB5BE46FAE6B"] {
            assert_eq!(whole(other), None, "{other}");
        }
    }
}

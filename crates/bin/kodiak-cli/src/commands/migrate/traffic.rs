//! Traffic of a proxy by cluster, from Envoy's statistics, and which clusters are legacy.

use std::collections::BTreeMap;

use kodiak_xds::names;
use serde::Serialize;

/// Since the proxy started, or over the time of `--watch`; `open` and `waiting` are current values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counters {
    pub(super) requests: u64,
    pub(super) connections: u64,
    /// Connections.
    pub(super) open: u64,
    /// Requests in flight, and open TCP connections, which Envoy counts as requests too.
    pub(super) waiting: u64,
}

/// By the name of the cluster in statistics.
pub(super) type Clusters = BTreeMap<String, Counters>;

/// Traffic of a proxy to legacy and new destinations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Traffic {
    /// By the value of `kuma.io/service`; services without traffic are missing.
    pub(super) old: BTreeMap<String, Counters>,
    /// Sum over all MeshServices and other destinations.
    pub(super) new: Counters,
}

/// Lines of `/stats` for clusters.
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

    /// Traffic since `before`; a restarted proxy counts from zero.
    fn since(self, before: Self) -> Self {
        let restarted = self.requests < before.requests || self.connections < before.connections;
        let before = if restarted { Self::default() } else { before };
        Self { requests: self.requests - before.requests, connections: self.connections - before.connections, ..self }
    }

    /// Idle connections do not count.
    pub(super) fn is_used(self) -> bool {
        let Self { requests, connections, open: _, waiting } = self;
        requests > 0 || connections > 0 || waiting > 0
    }

    /// `1200 requests, 3 open`; TCP traffic is counted in connections.
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
    /// `services` are all values of `kuma.io/service`. Clusters of the proxy itself are neither legacy nor new.
    pub(super) fn of<'a>(
        clusters: &Clusters,
        before: Option<&Clusters>,
        services: impl Iterator<Item = &'a str>,
    ) -> Self {
        // Statistics use the names of legacy clusters unchanged, and replace special characters in all others.
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

/// `web` of `web-c72efb5be46fae6b`: the cluster of a subset ends with the hash of its tags.
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
    fn tells_legacy_clusters_from_new_ones() {
        let traffic = Traffic::of(&read(STATS), None, services());
        let old: Vec<_> =
            traffic.old.iter().map(|(service, counters)| (service.as_str(), requests(*counters))).collect();
        assert_eq!(old, [("a.b", (0, 0)), ("api", (42, 2))]);
        assert_eq!(traffic.old["a.b"].connections, 1);
        assert_eq!(requests(traffic.new), (8, 0));
        assert_eq!(requests(traffic.all_old()), (42, 2));
    }

    #[test]
    fn counts_traffic_since_the_first_reading() {
        let (before, mut after) = (read(STATS), read(STATS));
        after.get_mut("a.b").unwrap().connections = 5;
        let traffic = Traffic::of(&after, Some(&before), services());
        assert_eq!(
            traffic.old.keys().collect::<Vec<_>>(),
            ["a.b"],
            "the connections to api are open, and nobody sends over them"
        );
        assert_eq!(traffic.old["a.b"].connections, 4);
        // Bytes are not counted: an open TCP connection may be in use.
        let held = read("cluster.api.upstream_cx_total: 1\ncluster.api.upstream_rq_active: 1\n");
        assert!(Traffic::of(&held, Some(&held), services()).old["api"].is_used());
        // The proxy restarted.
        after.get_mut("api").unwrap().requests = 1;
        assert_eq!(Traffic::of(&after, Some(&before), services()).old["api"].requests, 1);
    }

    #[test]
    fn formats_counts() {
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
    fn strips_only_a_hash_from_a_name() {
        assert_eq!(whole("web-c72efb5be46fae6b"), Some("web"));
        for other in ["web", "web-1", "web-c72efb5be46fae6", "web-C72EFB5BE46FAE6B"] {
            assert_eq!(whole(other), None, "{other}");
        }
    }
}

//! Results of the demo as tables and as JSON.

use std::fmt::Write as _;

use kodiak_cp::ControlPlane;
use kodiak_model::ProxyKey;
use kodiak_terminal::Table;
use kodiak_xds_stream::TypeUrl;
use serde::Serialize;
use serde_json::{Value, json};

use super::graph::{EDGES, Edge, FORBIDDEN, JOURNEY, SERVICES};
use super::resources::MESH;
use super::tally::{Tally, time};

/// Envoy resources sent to a proxy, and how many it acknowledged.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Sent {
    name: String,
    clusters: usize,
    endpoints: usize,
    listeners: usize,
    secrets: usize,
    bytes: u64,
    published: Option<u64>,
    acknowledged: Option<u64>,
}

impl Sent {
    /// `None` while the proxy is not connected.
    pub(super) fn to(name: &str, control_plane: &ControlPlane) -> Option<Self> {
        let key = ProxyKey::new(MESH, name);
        let status = control_plane.registry.status(&key)?;
        let snapshot = control_plane.registry.snapshot(&key)?;
        let count = |type_url| snapshot.of(type_url).len();
        Some(Self {
            name: name.to_owned(),
            clusters: count(TypeUrl::Cluster),
            endpoints: count(TypeUrl::Endpoint),
            listeners: count(TypeUrl::Listener),
            secrets: count(TypeUrl::Secret),
            bytes: status.bytes_sent,
            published: status.published,
            acknowledged: status.settled,
        })
    }
}

/// Tallies of all flows.
pub(super) struct Results {
    edges: Vec<Tally>,
    /// `None` where it is not tried.
    forbidden: Option<Tally>,
    journey: Tally,
}

impl Results {
    /// In the order of [`super::stage::Stage::flows`].
    pub(super) fn new(mut tallies: Vec<Tally>) -> Self {
        let mut rest = tallies.split_off(EDGES.len());
        let journey = rest.pop().unwrap_or_default();
        Self { edges: tallies, forbidden: rest.pop(), journey }
    }

    /// Of an allowed call.
    pub(super) fn of(&self, edge: &Edge) -> Option<&Tally> {
        EDGES.iter().position(|known| known == edge).and_then(|position| self.edges.get(position))
    }

    /// Sum of the flows that should succeed.
    fn wanted(&self) -> Tally {
        Tally::of(self.edges.iter().chain([&self.journey]))
    }

    /// Whether there were requests, none failed, and the forbidden ones were denied.
    pub(super) fn are_fine(&self) -> bool {
        self.wanted().is_fine() && self.forbidden.as_ref().is_none_or(|forbidden| forbidden.failed == 0)
    }

    pub(super) fn line(&self) -> String {
        let Some(forbidden) = &self.forbidden else { return self.wanted().line() };
        let (refused, let_through) = (forbidden.right(), forbidden.failed);
        let mut line = format!("{refused} refused as they should be; {}", self.wanted().line());
        if let_through > 0 {
            let _ = write!(line, "; {let_through} were not refused, but should have been");
        }
        line
    }

    pub(super) fn json(&self, proxies: &[Sent]) -> Value {
        let mut all = self.wanted().json();
        let forbidden = self.forbidden.clone().unwrap_or_default();
        all["failed"] = (self.wanted().failed + forbidden.failed).into();
        all["refused"] = forbidden.right().into();
        all["proxies"] = proxies.len().into();
        all["services"] = SERVICES.len().into();
        let edge = |from: &str, to: &str, tally: &Tally| {
            let mut edge = json!({"from": from, "to": to, "mtls": tally.right() > 0});
            merge(&mut edge, tally.json());
            edge
        };
        let edges = EDGES.iter().zip(&self.edges).map(|(known, tally)| edge(known.from, known.to, tally));
        all["edges"] = edges.collect();
        all["forbidden"] = json!({
            "from": FORBIDDEN.from,
            "to": FORBIDDEN.to,
            "refused": forbidden.right(),
            "failed": forbidden.failed,
            "last_failure": forbidden.last_failure,
        });
        all["journey"] = self.journey.json();
        all["journey"]["through"] = JOURNEY.into();
        all["envoys"] = json!(proxies);
        all
    }

    pub(super) fn tables(&self, proxies: &[Sent]) -> String {
        let mut calls = Table::new(["CALL", "REQUESTS", "FAILED", "P50", "P99", "MTLS"]);
        let mut row = |name: String, tally: &Tally, mtls: &str| {
            let Tally { requests, failed, latencies, .. } = tally;
            let times = [time(latencies, 50), time(latencies, 99)];
            calls.row(
                [name, requests.to_string(), failed.to_string()].into_iter().chain(times).chain([mtls.to_owned()]),
            );
        };
        // A response counts only if it shows the identity of the caller.
        let mtls = |tally: &Tally| if tally.right() > 0 { "yes" } else { "-" };
        for (edge, tally) in EDGES.iter().zip(&self.edges) {
            row(format!("{} → {}", edge.from, edge.to), tally, mtls(tally));
        }
        row(JOURNEY.join(" → "), &self.journey, mtls(&self.journey));
        if let Some(forbidden) = &self.forbidden {
            let result = if forbidden.failed == 0 { "refused, as it should be" } else { "should be refused!" };
            row(format!("{} → {}", FORBIDDEN.from, FORBIDDEN.to), forbidden, result);
        }

        let headers = ["PROXY", "CLUSTERS", "ENDPOINTS", "LISTENERS", "SECRETS", "SENT", "ACKNOWLEDGED"];
        let mut sent = Table::new(headers);
        for proxy in proxies {
            let Sent { name, clusters, endpoints, listeners, secrets, bytes, published, acknowledged } = proxy;
            let version = |version: &Option<u64>| version.map_or_else(|| "-".to_owned(), |version| version.to_string());
            sent.row([
                name.clone(),
                clusters.to_string(),
                endpoints.to_string(),
                listeners.to_string(),
                secrets.to_string(),
                format!("{} KiB", bytes.div_ceil(1024)),
                format!("{} of {}", version(acknowledged), version(published)),
            ]);
        }
        let mut text = format!("{}\n\n{}", calls.show(), sent.show());
        if let Some(failure) = self.wanted().last_failure.or_else(|| self.forbidden.as_ref()?.last_failure.clone()) {
            let _ = write!(text, "\n\nThe last failure: {failure}");
        }
        text
    }
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

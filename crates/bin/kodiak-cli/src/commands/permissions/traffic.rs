//! Observed traffic of a mesh: the answer of `GET /meshes/{mesh}/_traffic`, from the control plane or from a file.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp, Unit};
use kodiak_client::Refusal;
use serde::{Deserialize, Serialize};

use crate::session::Session;

/// Where observed traffic is read from.
#[derive(clap::Args)]
pub(super) struct TrafficArgs {
    /// Mesh [default: that of the context, or default]
    #[arg(short, long)]
    pub(super) mesh: Option<String>,

    /// Read a saved answer of GET /meshes/MESH/_traffic instead of asking the control plane; - for standard input
    #[arg(short, long, value_name = "FILE|-")]
    pub(super) file: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObservedTraffic {
    pub(super) mesh: String,
    pub(super) window: Window,
    /// Observations that were not recorded because there were too many edges.
    #[serde(default)]
    pub(super) dropped: u64,
    #[serde(default)]
    pub(super) clients: Vec<ObservedClient>,
    #[serde(default)]
    pub(super) destinations: Vec<ObservedDestination>,
    #[serde(default)]
    pub(super) edges: Vec<Edge>,
    /// Calls without mTLS to servers that accept them.
    #[serde(default)]
    pub(super) plaintext: Vec<PlaintextCaller>,
    /// Requests without mTLS of addresses that were not recorded because there were too many.
    #[serde(default)]
    pub(super) plaintext_dropped: u64,
    #[serde(default)]
    pub(super) permission_form: PermissionForm,
}

/// Form in which new permissions of the mesh name callers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum PermissionForm {
    /// By SPIFFE ID.
    Rules,
    /// By tags. Also for a control plane that does not report SPIFFE IDs.
    #[default]
    From,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlaintextCaller {
    pub(super) address: IpAddr,
    /// Dataplanes with this address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) dataplanes: Vec<String>,
    pub(super) server: String,
    /// Port of the inbound.
    pub(super) port: u16,
    pub(super) requests: u64,
    pub(super) first_seen: Timestamp,
    pub(super) last_seen: Timestamp,
}

/// Time in which proxies reported their traffic. `None` before the first report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Window {
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    /// Whether the control plane observes traffic now.
    #[serde(default)]
    pub(super) observing: bool,
}

/// All proxies with the same identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObservedClient {
    /// Referenced by edges.
    pub(super) client: String,
    /// Values of `kuma.io/service`. Empty for a client that has none, and is identified by its workload.
    #[serde(default)]
    pub(super) services: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) workload: Option<String>,
    /// In certificates of its proxies.
    #[serde(default, rename = "spiffeIDs")]
    pub(super) spiffe_ids: BTreeSet<String>,
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
    /// Time in which at least one of its proxies reported.
    pub(super) observed_seconds: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObservedDestination {
    /// A `kuma.io/service` or a KRI; referenced by edges.
    pub(super) destination: String,
    /// `kuma.io/service`, or the kind of the resource.
    pub(super) kind: String,
    pub(super) name: String,
    /// Proxies behind it. Empty for a resource that was deleted, and for one without proxies.
    #[serde(default)]
    pub(super) proxies: Vec<Selection>,
    /// MeshServices of a MeshMultiZoneService, as KRIs.
    #[serde(default)]
    pub(super) services: Vec<String>,
    /// Whether the resource exists.
    #[serde(default)]
    pub(super) exists: bool,
}

/// Selection of proxies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Selection {
    /// Proxies with an inbound that has these tags.
    Tags(BTreeMap<String, String>),
    /// Proxies with these labels.
    Labels(BTreeMap<String, String>),
    /// One proxy.
    Name(String),
}

/// Traffic from a client to a destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Edge {
    pub(super) client: String,
    pub(super) destination: String,
    /// HTTP requests, or TCP connections.
    pub(super) requests: u64,
    pub(super) failed: u64,
    pub(super) first_seen: Timestamp,
    pub(super) last_seen: Timestamp,
}

impl Edge {
    /// Whether all of its traffic was in one report of one proxy.
    pub(super) fn seen_once(&self) -> bool {
        self.first_seen == self.last_seen
    }
}

impl Window {
    /// `2026-11-16T22:00:00Z to 2026-11-16T23:00:00Z (1h)`.
    pub(super) fn show(&self) -> Option<String> {
        let (since, until) = (self.since?, self.until?);
        Some(format!("{} to {} ({})", time(since), time(until), length(until.duration_since(since))))
    }
}

impl ObservedTraffic {
    pub(super) async fn read(args: &TrafficArgs, session: &Session) -> anyhow::Result<Self> {
        if let Some(file) = &args.file {
            return Self::saved(file);
        }
        let mesh = session.mesh(args.mesh.as_deref())?;
        session.client()?.traffic(&mesh).await.map_err(|error| {
            if error.refusal().is_some_and(Refusal::is_not_found) {
                return anyhow::anyhow!("no Mesh with name {mesh:?}; `kodiak get meshes` lists them");
            }
            error.into()
        })
    }

    fn saved(file: &Path) -> anyhow::Result<Self> {
        let text = if file == Path::new("-") {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        } else {
            std::fs::read_to_string(file)
        };
        let text = text.with_context(|| format!("cannot read {}", file.display()))?;
        serde_json::from_str(&text).with_context(|| {
            format!(
                "{} is not an answer of GET /meshes/MESH/_traffic; save one with `kodiak permissions observed -o json`",
                file.display()
            )
        })
    }

    /// Reasons why traffic may be missing.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.window.observing {
            let advice = "set KODIAK_TRAFFIC_OBSERVE=true and restart proxies";
            warnings.push(format!("Warning: the control plane does not observe traffic; {advice}"));
        }
        if self.dropped > 0 {
            warnings.push(format!("Warning: {}", self.dropped_observations()));
        }
        if self.plaintext_dropped > 0 {
            warnings.push(format!(
                "Warning: {} without mTLS came from further addresses, which are too many to record; see KODIAK_TRAFFIC_MAX_EDGES",
                counted(self.plaintext_dropped, "request")
            ));
        }
        warnings
    }

    pub(super) fn dropped_observations(&self) -> String {
        let observations = if self.dropped == 1 { "1 observation" } else { &format!("{} observations", self.dropped) };
        format!("{observations} not recorded because there were too many edges; see KODIAK_TRAFFIC_MAX_EDGES")
    }

    pub(super) fn client(&self, id: &str) -> Option<&ObservedClient> {
        self.clients.iter().find(|client| client.client == id)
    }

    pub(super) fn destination(&self, id: &str) -> Option<&ObservedDestination> {
        self.destinations.iter().find(|destination| destination.destination == id)
    }
}

pub(super) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// In whole seconds.
pub(super) fn time(time: Timestamp) -> String {
    time.round(Unit::Second).unwrap_or(time).to_string()
}

/// `3d 4h`, `2h 5m`, `40s`: the two largest units.
pub(super) fn length(length: SignedDuration) -> String {
    let seconds = length.as_secs().max(0);
    let units = [(seconds / 86400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let shown: Vec<_> = units.iter().skip_while(|(count, _)| *count == 0).take(2).collect();
    let shown: Vec<_> =
        shown.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if shown.is_empty() { "0s".to_owned() } else { shown.join(" ") }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    fn edge(client: &str, destination: &str, requests: u64, last_seen: &str) -> serde_json::Value {
        json!({
            "client": client, "destination": destination, "requests": requests, "failed": requests / 10,
            "firstSeen": "2026-11-16T20:00:00Z", "lastSeen": last_seen,
        })
    }

    fn client(id: &str, services: &[&str]) -> serde_json::Value {
        json!({
            "client": id, "services": services, "observedSeconds": 5400,
            "since": "2026-11-16T20:00:00Z", "until": "2026-11-16T22:00:00Z",
        })
    }

    fn destination(id: &str, kind: &str, name: &str, proxies: &serde_json::Value) -> serde_json::Value {
        json!({ "destination": id, "kind": kind, "name": name, "exists": true, "proxies": proxies })
    }

    /// As the control plane answers.
    pub(in crate::commands::permissions) fn traffic() -> ObservedTraffic {
        const LATER: &str = "2026-11-16T22:00:00Z";
        const ONCE: &str = "2026-11-16T20:00:00Z";
        let (one, two) = ("kri_msvc_shop_east__cart_", "kri_msvc_shop_west__cart_");
        let (all, db, old) = ("kri_mzsvc_shop___cart_", "kri_extsvc_shop_east__db_", "kri_msvc_shop_east__old_");
        let mut everywhere = destination(all, "MeshMultiZoneService", "cart", &json!([]));
        everywhere["services"] = json!([one, two]);
        let backend = |name: &str| json!([{ "tags": { "kuma.io/service": name } }]);
        serde_json::from_value(json!({
            "mesh": "shop",
            "window": { "since": "2026-11-16T20:00:00Z", "until": LATER, "observing": true },
            "dropped": 0,
            "clients": [
                client("web", &["web"]), client("job", &["job"]), client("api,web", &["api", "web"]),
                client("a,b", &["a", "b"]), client("workload/batch", &[]),
            ],
            "destinations": [
                destination("backend", "kuma.io/service", "backend", &backend("backend")),
                destination("Odd_svc_80", "kuma.io/service", "Odd_svc_80", &backend("Odd_svc_80")),
                destination(one, "MeshService", "cart.east", &json!([{ "labels": { "app": "cart" } }])),
                destination(two, "MeshService", "cart.west", &json!([{ "name": "cart-1" }])),
                everywhere,
                destination(db, "MeshExternalService", "db", &json!([])),
                destination(old, "MeshService", old, &json!([])),
            ],
            "edges": [
                edge("web", "backend", 1200, LATER), edge("job", "backend", 1, ONCE),
                edge("api,web", "backend", 7, LATER), edge("a,b", "Odd_svc_80", 3, LATER),
                edge("web", all, 40, LATER), edge("job", one, 2, LATER), edge("web", db, 9, LATER),
                edge("web", old, 5, LATER), edge("workload/batch", "backend", 5, LATER),
            ],
        }))
        .unwrap()
    }

    /// The same in a mesh without permissions by tags.
    pub(in crate::commands::permissions) fn traffic_with_ids() -> ObservedTraffic {
        let mut traffic = traffic();
        traffic.permission_form = PermissionForm::Rules;
        for client in &mut traffic.clients {
            let names = client.client.split(',').map(|name| name.rsplit('/').next().unwrap());
            client.spiffe_ids = names.map(|name| format!("spiffe://shop/{name}")).collect();
        }
        traffic.clients[0].spiffe_ids.insert("spiffe://shop.local/ns/web".to_owned());
        traffic
    }

    #[test]
    fn a_length_has_its_two_largest_units() {
        for (seconds, shown) in
            [(0, "0s"), (40, "40s"), (60, "1m"), (3725, "1h 2m"), (86_400 + 59, "1d"), (90_000, "1d 1h")]
        {
            assert_eq!(length(SignedDuration::from_secs(seconds)), shown);
        }
    }
}

//! `/meshes/{mesh}/_traffic`. `kodiak permissions` reads it, also from a file.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use jiff::Timestamp;
use kodiak_traffic as facts;
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Traffic {
    mesh: String,
    window: Window,
    dropped: u64,
    permission_form: PermissionForm,
    clients: Vec<TrafficClient>,
    destinations: Vec<TrafficDestination>,
    edges: Vec<Edge>,
    plaintext: Vec<PlaintextCaller>,
    plaintext_dropped: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum PermissionForm {
    Rules,
    From,
}

#[derive(Serialize)]
struct Window {
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    observing: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TrafficClient {
    client: String,
    services: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workload: Option<String>,
    #[serde(rename = "spiffeIDs")]
    spiffe_ids: BTreeSet<String>,
    since: Timestamp,
    until: Timestamp,
    observed_seconds: u64,
}

#[derive(Serialize)]
struct TrafficDestination {
    destination: String,
    kind: &'static str,
    name: String,
    exists: bool,
    proxies: Vec<Selection>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    services: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Selection {
    Tags(BTreeMap<String, String>),
    Labels(BTreeMap<String, String>),
    Name(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Edge {
    client: String,
    destination: String,
    requests: u64,
    failed: u64,
    first_seen: Timestamp,
    last_seen: Timestamp,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlaintextCaller {
    address: IpAddr,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dataplanes: Vec<String>,
    server: String,
    port: u16,
    requests: u64,
    first_seen: Timestamp,
    last_seen: Timestamp,
}

impl Traffic {
    pub(crate) fn of(mesh: &str, observing: bool, traffic: facts::ObservedTraffic) -> Self {
        let facts::ObservedTraffic {
            window,
            clients,
            destinations,
            edges,
            dropped,
            plaintext,
            plaintext_dropped,
            form,
        } = traffic;
        let (since, until) = window.unzip();
        Self {
            mesh: mesh.to_owned(),
            window: Window { since, until, observing },
            dropped,
            permission_form: match form {
                facts::PermissionForm::Rules => PermissionForm::Rules,
                facts::PermissionForm::From => PermissionForm::From,
            },
            clients: clients.into_iter().map(Into::into).collect(),
            destinations: destinations.into_iter().map(Into::into).collect(),
            edges: edges.into_iter().map(Into::into).collect(),
            plaintext: plaintext.into_iter().map(Into::into).collect(),
            plaintext_dropped,
        }
    }
}

impl From<facts::ObservedClient> for TrafficClient {
    fn from(client: facts::ObservedClient) -> Self {
        let facts::ObservedClient { id, spiffe_ids, since, until, observed_seconds } = client;
        Self {
            client: id.to_string(),
            services: id.services().map(str::to_owned).collect(),
            workload: id.workload().map(str::to_owned),
            spiffe_ids,
            since,
            until,
            observed_seconds,
        }
    }
}

impl From<facts::ObservedDestination> for TrafficDestination {
    fn from(destination: facts::ObservedDestination) -> Self {
        let facts::ObservedDestination { id, kind, name, exists, proxies, services } = destination;
        let selection = |selection| match selection {
            facts::Selection::Tags(tags) => Selection::Tags(tags),
            facts::Selection::Labels(labels) => Selection::Labels(labels),
            facts::Selection::Name(name) => Selection::Name(name),
        };
        Self { destination: id, kind, name, exists, proxies: proxies.into_iter().map(selection).collect(), services }
    }
}

impl From<facts::ObservedEdge> for Edge {
    fn from(edge: facts::ObservedEdge) -> Self {
        let facts::ObservedEdge { client, destination, requests, failed, first_seen, last_seen } = edge;
        Self { client: client.to_string(), destination, requests, failed, first_seen, last_seen }
    }
}

impl From<facts::PlaintextCaller> for PlaintextCaller {
    fn from(caller: facts::PlaintextCaller) -> Self {
        let facts::PlaintextCaller { server, port, address, dataplanes, requests, first_seen, last_seen } = caller;
        Self { address, dataplanes, server: server.to_string(), port, requests, first_seen, last_seen }
    }
}

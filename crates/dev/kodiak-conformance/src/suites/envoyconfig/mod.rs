//! `envoyconfig`: policies on top of a fixed mesh of two proxies, compared by the whole configuration of each.

pub(crate) mod callers;
mod normal;
mod recorded;

use std::fmt::Write as _;

use anyhow::Context as _;
use axum::{Router, http::Method};
use kodiak_kinds::{in_force, kinds};
use kodiak_model::{Place, Scope, yaml};
use kodiak_store::{Backend, Store, StoreConfig};
use kodiak_xds::names::Naming;
use serde_json::{Value, json};

use crate::{
    case::{Case, Outcome},
    suites::feed,
};

const ZONE: &str = "kuma-3";
const MESH: &str = "envoyconfig";
const PROXIES: [&str; 2] = ["demo-client", "test-server"];
const HAS_IPV6: bool = false;

/// User resources and their statuses at the start of a case.
const RESOURCES: &str = include_str!("mesh.yaml");
const KEPT: &str = include_str!("kept.yaml");

pub(crate) fn run(case: &Case) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run_async(case))
}

async fn run_async(case: &Case) -> anyhow::Result<Outcome> {
    let policies = documents(&case.text()?)?;
    let mut kinds = policies.iter().filter_map(|policy| policy["type"].as_str());
    if let Some(kind) = kinds.find(|kind| !in_force().contains(kind)) {
        return Ok(Outcome::Skipped(format!("{kind} is not in force yet")));
    }
    let router = mesh().await?;
    for policy in &policies {
        put(&router, policy).await?;
    }
    let mut text = String::new();
    for proxy in PROXIES {
        let Some(golden) = case.beside(&format!(".{proxy}.golden.json")) else { continue };
        let path = format!("/meshes/{MESH}/dataplanes/{proxy}/_config?shadow=true&include=diff");
        let (status, answer) = feed::send(&router, Method::GET, &path, String::new()).await?;
        anyhow::ensure!(status == 200, "{path}: {status}: {answer}");
        let differences = recorded::differences(serde_json::from_str(&golden)?, serde_json::from_str(&answer)?)?;
        if !differences.is_empty() {
            writeln!(text, "{proxy}\n{differences}")?;
        }
    }
    Ok(if text.is_empty() { Outcome::Passed } else { Outcome::Failed(text) })
}

/// A control plane in steady state.
async fn mesh() -> anyhow::Result<Router> {
    let store = Store::open(StoreConfig::new(Backend::Memory)).await?;
    let settings = kodiak_engine::EngineSettings::default();
    let engine = kodiak_engine::EngineSettings { zone: ZONE.into(), naming: Naming::Kuma, ..settings };
    let router = feed::router(store.clone(), Place::Zone { name: ZONE.to_owned() }, engine);
    for document in documents(RESOURCES)? {
        put(&router, &document).await?;
    }
    let insight = |name| json!({ "type": "DataplaneInsight", "mesh": MESH, "name": name, "metadata": metadata() });
    let insights = PROXIES.map(|name| insight(name).to_string());
    for kept in [KEPT, &insights.join("\n---\n")] {
        let unread = feed::load(&store, kept).await?;
        anyhow::ensure!(unread.is_none(), "the mesh of this suite cannot be read: {unread:?}");
    }
    Ok(router)
}

/// Node metadata of the recordings.
fn metadata() -> Value {
    json!({
        "features": [
            "feature-tcp-accesslog-via-named-pipe",
            "feature-otel-via-kuma-dp",
            "feature-strict-inbound-ports",
            "feature-reuse-port",
            "feature-embedded-dns",
        ],
        "workdir": "/tmp",
        "ipv6Enabled": HAS_IPV6,
        "dataplane.admin.port": "9901",
        "dataplane.admin.socketPath": "/tmp/kuma-envoy-admin.sock",
        "dataplane.dns.port": "15053",
        "dataplane.readinessReporter.port": "9902",
    })
}

fn documents(text: &str) -> anyhow::Result<Vec<Value>> {
    Ok(yaml::parse(text)?.into_iter().map(|document| document.value).collect())
}

async fn put(router: &Router, document: &Value) -> anyhow::Result<()> {
    let text = |field: &str| document[field].as_str().unwrap_or_default();
    let (kind, mesh, name) = (text("type"), text("mesh"), text("name"));
    let kind = kinds().by_name(kind).with_context(|| format!("kind {kind} is unsupported"))?;
    let path = match kind.scope {
        Scope::Global => format!("/{}/{name}", kind.path),
        Scope::Mesh => format!("/meshes/{mesh}/{}/{name}", kind.path),
    };
    let (status, answer) = feed::send(router, Method::PUT, &path, document.to_string()).await?;
    anyhow::ensure!(status < 300, "PUT {path}: {status}: {answer}");
    Ok(())
}

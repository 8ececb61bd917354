//! Monitoring assignments: the proxies that a Prometheus scrapes.

use std::collections::BTreeMap;

use kodiak_model::{Cancellation, Cancelled};
use kodiak_policies::mesh_metric::{self, ProxyMetrics, TlsMode};
use kodiak_rules::{Proxy, Shadow, subset};
use kodiak_world::World;
use serde::Serialize;

/// Kinds that assignments depend on.
pub const KINDS: &[&str] = &["Mesh", "Dataplane", "MeshGateway", "MeshMetric"];

/// Fields are those of Kuma's message of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MonitoringAssignment {
    pub mesh: String,
    pub service: String,
    pub targets: Vec<MonitoringTarget>,
    pub labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MonitoringTarget {
    /// Name of the Dataplane.
    pub name: String,
    pub scheme: &'static str,
    /// Host and port.
    pub address: String,
    pub metrics_path: String,
    pub labels: BTreeMap<String, String>,
}

/// One assignment for each Dataplane with an endpoint for this client, sorted by mesh and name.
pub fn assignments(
    world: &World,
    client_id: &str,
    cancellation: &Cancellation,
) -> Result<Vec<MonitoringAssignment>, Cancelled> {
    let mut all = Vec::new();
    for mesh in world.list("Mesh") {
        let mesh = &*mesh.key.name;
        if world.policies(&mesh_metric::KIND, mesh).next().is_none() {
            continue;
        }
        let policies = world.policy_index([&mesh_metric::KIND], mesh);
        for proxy in world.proxies(mesh) {
            cancellation.check()?;
            let matched = policies.matched_by(mesh_metric::KIND.name, proxy, Shadow::Ignored);
            let metrics = subset::single(&matched.proxy).and_then(|rule| ProxyMetrics::of(&rule.conf));
            all.extend(metrics.and_then(|metrics| assignment(proxy, &metrics, client_id)));
        }
    }
    Ok(all)
}

/// `None` for a proxy without an endpoint for this client, or without an address.
fn assignment(proxy: &Proxy, metrics: &ProxyMetrics, client_id: &str) -> Option<MonitoringAssignment> {
    let endpoint = metrics.endpoint_for(client_id)?;
    let networking = proxy.dataplane.networking.as_ref()?;
    // Prometheus is not behind the proxy, as other proxies are not.
    let address =
        [&networking.advertised_address, &networking.address].into_iter().find(|address| !address.is_empty())?;
    let target = MonitoringTarget {
        name: proxy.name.to_string(),
        scheme: match endpoint.tls {
            // With certificates of the mesh, the sidecar of Prometheus encrypts.
            TlsMode::Disabled | TlsMode::ActiveMTLSBackend => "http",
            TlsMode::ProvidedTLS => "https",
        },
        address: kodiak_xds::names::host_port(address, endpoint.port),
        metrics_path: endpoint.path.clone(),
        labels: BTreeMap::new(),
    };
    Some(MonitoringAssignment {
        mesh: proxy.mesh.to_string(),
        service: mesh_metric::service(&proxy.dataplane, &proxy.labels).to_owned(),
        targets: vec![target],
        labels: mesh_metric::metric_labels(&proxy.dataplane),
    })
}

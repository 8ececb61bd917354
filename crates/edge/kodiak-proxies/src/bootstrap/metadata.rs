//! Node metadata of the proxy, made from the bootstrap request.

use kodiak_envoy::{
    envoy::config::bootstrap::v3::Bootstrap,
    json::{JsonError, from_json},
};
use kodiak_xds::node::NodeMetadata;
use serde_json::json;

use super::request::BootstrapRequest;

/// All but the admin interface, which the sidecar process does not choose.
pub(super) fn of_request(request: &BootstrapRequest) -> Result<NodeMetadata, JsonError> {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let port = |port: Option<u16>| port.filter(|port| *port != 0).map(u32::from);
    // Same shape in request and metadata. Read as protobuf JSON, so that values nested too deeply are rejected here.
    let written: Bootstrap = from_json(&json!({ "node": { "metadata": {
        "version": request.version,
        "transparentProxy": request.dataplane_config,
        "otelEnvInventory": request.otel_env,
    } } }))?;
    let same = written.node.and_then(|node| node.metadata).unwrap_or_default();
    Ok(NodeMetadata {
        features: request.features.iter().cloned().collect(),
        workdir: text(&request.workdir),
        metrics_cert_path: text(&request.metrics_resources.cert_path),
        metrics_key_path: text(&request.metrics_resources.key_path),
        system_ca_path: text(&request.system_ca_path),
        ipv6_enabled: request.ipv6_enabled,
        spire_socket: text(&request.spire_resources.socket_path),
        resource: text(&request.dataplane_resource),
        dns_port: port(request.dns_port),
        readiness_port: port(request.readiness_port),
        probe_proxy: request.app_probe_proxy_enabled,
        dynamic_metadata: request.dynamic_metadata.clone(),
        ..NodeMetadata::read(&same)
    })
}

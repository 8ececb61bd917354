//! Everything that the first configuration of an Envoy is made from.

use std::collections::BTreeMap;

use kodiak_ads::Credential;
use kodiak_model::{ProxyKey, subscription::Version};
use kodiak_xds::input::AdminEndpoint;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub struct BootstrapFacts {
    /// `node.id` is its `<mesh>.<name>`.
    pub proxy: ProxyKey,
    /// `node.cluster`.
    pub cluster: String,
    pub metadata: NodeFacts,
    /// Where the proxy reaches the control plane: a name or an address without brackets.
    pub host: String,
    pub port: u16,
    /// PEM of whom it believes the control plane by. The authorities of the system when missing.
    pub ca: Option<String>,
    /// What it shows to the control plane.
    pub token: Credential,
    /// A file with the token that may be replaced while the proxy runs.
    pub token_path: Option<String>,
    /// Delta streams instead of state of the world.
    pub delta: bool,
    pub admin: AdminEndpoint,
    /// Names of our own resources as newer proxies expect them: `system_ads` and the like.
    pub unified_naming: bool,
    pub operating_system: String,
    /// What the proxy's machine lets it use; 0 when it did not say.
    pub max_heap_size_bytes: u64,
    pub is_gateway: bool,
}

/// `node.metadata`. Texts are empty when nothing was said.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeFacts {
    pub version: Option<Version>,
    pub features: Vec<String>,
    pub workdir: String,
    pub metrics_cert_path: String,
    pub metrics_key_path: String,
    pub system_ca_path: String,
    pub ipv6_enabled: bool,
    /// `spireAgent.socketPath`.
    pub spire_socket_path: String,
    /// `dataplane.resource`: the text that the proxy brought.
    pub resource: Option<String>,
    /// `dataplane.admin.port`: where the control plane finds the admin interface.
    pub admin_port: u32,
    /// `dataplane.dns.port`.
    pub dns_port: Option<u16>,
    /// `dataplane.readinessReporter.port`.
    pub readiness_port: Option<u16>,
    /// `dataplane.appProbeProxy.enabled`.
    pub app_probe_proxy_enabled: bool,
    /// `dataplane.proxyType`.
    pub proxy_type: String,
    pub dynamic_metadata: BTreeMap<String, String>,
    pub transparent_proxy: Option<Value>,
    /// `otelEnvInventory`.
    pub otel_env: Option<Value>,
}

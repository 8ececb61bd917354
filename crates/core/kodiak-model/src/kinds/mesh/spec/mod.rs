//! Spec of a Mesh.

mod conf;
mod constraints;
mod logging;
mod mesh_services;
mod metrics;
mod mtls;
mod period;
mod tracing;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::proto_json::is_default;

pub use conf::BackendConf;
pub use constraints::{MeshConstraints, ProxyConstraints, TagRule};
pub use logging::{FileLogging, Logging, LoggingBackend, TcpLogging};
pub use mesh_services::{MeshServices, MeshServicesMode};
pub use metrics::{Aggregate, EnvoyMetrics, Metrics, MetricsBackend, Prometheus, PrometheusTls, PrometheusTlsMode};
pub use mtls::{BuiltinCa, BuiltinCaCert, DpCert, Mtls, MtlsBackend, MtlsMode, ProvidedCa, RootChain, Rotation};
pub use period::parse_period;
pub use tracing::{DatadogTracing, Tracing, TracingBackend, ZipkinTracing};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Mesh {
    /// mTLS between proxies, and its CA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtls: Option<Mtls>,
    /// Trace backends. Prefer MeshTrace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Tracing>,
    /// Access log backends. Prefer MeshAccessLog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging: Option<Logging>,
    /// Metrics backends. Prefer MeshMetric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<Routing>,
    /// Constraints that proxies must meet to join the mesh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraints: Option<MeshConstraints>,
    /// Policy kinds that are not created for a new mesh; `*` for all.
    #[serde(skip_serializing_if = "is_default")]
    pub skip_creating_initial_policies: Vec<String>,
    /// Whether proxies use MeshServices. `meshServices: Everywhere` is short for `meshServices: {mode: Everywhere}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mesh_services: Option<MeshServices>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Networking {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outbound: Option<Outbound>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Outbound {
    /// Whether proxies pass through traffic to destinations outside the mesh. True by default. Prefer MeshPassthrough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passthrough: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Routing {
    /// Keep traffic in the zone while it has healthy endpoints. Prefer MeshLoadBalancingStrategy.
    #[serde(skip_serializing_if = "is_default")]
    pub locality_aware_load_balancing: bool,
    /// Send traffic that leaves the zone through the zone egress. Requires mTLS.
    #[serde(skip_serializing_if = "is_default")]
    pub zone_egress: bool,
    /// Deny access to external services without a permission.
    #[serde(skip_serializing_if = "is_default")]
    pub default_forbid_mesh_external_service_access: bool,
}

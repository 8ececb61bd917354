//! What users write.

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
    /// Encryption between proxies, and the certificate authority behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtls: Option<Mtls>,
    /// Where traces are sent. Prefer MeshTrace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Tracing>,
    /// Where access logs are sent. Prefer MeshAccessLog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging: Option<Logging>,
    /// How metrics are exposed. Prefer MeshMetric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<Routing>,
    /// Which proxies may be members of the mesh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraints: Option<MeshConstraints>,
    /// Kinds of policies that are not made for a new mesh; `*` for none at all.
    #[serde(skip_serializing_if = "is_default")]
    pub skip_creating_initial_policies: Vec<String>,
    /// Whether proxies see MeshServices. `meshServices: Everywhere` is short for `meshServices: {mode: Everywhere}`.
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
    /// Whether services may call what the mesh does not know. True by default. Prefer MeshPassthrough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passthrough: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Routing {
    /// Stay in the zone while it has healthy endpoints. Prefer MeshLoadBalancingStrategy.
    #[serde(skip_serializing_if = "is_default")]
    pub locality_aware_load_balancing: bool,
    /// Calls out of the zone go through the zone egress. Needs mTLS.
    #[serde(skip_serializing_if = "is_default")]
    pub zone_egress: bool,
    /// External services can be called only with a permission.
    #[serde(skip_serializing_if = "is_default")]
    pub default_forbid_mesh_external_service_access: bool,
}

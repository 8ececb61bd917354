//! Interface to the proxies that are connected to this control plane. `kodiak-cp` implements it.

use std::{future::Future, pin::Pin};

use bytes::Bytes;
use kodiak_model::{Cancellation, Cancelled, ProxyKey, ResourceKey, subscription::Version};
use kodiak_store::Snapshot;
use kodiak_traffic::Recorded;
use serde::Serialize;
use serde_json::Value;

pub type InspectFuture<T> = Pin<Box<dyn Future<Output = Result<T, InspectError>> + Send>>;

pub trait Proxies: Send + Sync {
    /// Configuration of a proxy. For an offline proxy, the configuration that it would get. May build a whole mesh: called
    /// on the pool.
    fn config(&self, proxy: &ProxyKey, ask: ConfigOptions, cancellation: &Cancellation)
    -> Result<Config, InspectError>;

    /// Changes of the proxies' configuration. Builds a whole mesh: called on the pool.
    fn diff(&self, between: ConfigDiff<'_>, cancellation: &Cancellation) -> Result<Value, InspectError>;

    /// Response of Envoy's admin interface.
    fn ask(&self, proxy: ProxyKey, question: AdminQuery) -> InspectFuture<Bytes>;

    /// `None` when it is not connected to this control plane.
    fn status(&self, proxy: &ProxyKey) -> Option<Status>;

    /// Observed traffic of a mesh, and whether this control plane observes traffic now.
    fn traffic(&self, _mesh: &str) -> (Recorded, bool) {
        (Recorded::default(), false)
    }

    /// Stored resources that this control plane ignores because they caused a panic.
    fn quarantined(&self) -> Vec<Quarantined> {
        Vec::new()
    }
}

/// Stored resource that is ignored after a panic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    pub key: ResourceKey,
    /// A newer revision is tried again.
    pub revision: u64,
    /// The part of the control plane that ignores it.
    pub task: &'static str,
    pub error: String,
}

/// Two snapshots of the store whose configuration of a mesh is compared.
#[derive(Clone, Copy)]
pub struct ConfigDiff<'a> {
    pub mesh: &'a str,
    pub before: &'a Snapshot,
    pub after: &'a Snapshot,
    /// Add the changes of each Envoy resource.
    pub full: bool,
}

/// Options of `_config`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConfigOptions {
    /// Include shadow policies.
    pub shadow: bool,
    /// Add the difference that shadow policies make.
    pub diff: bool,
}

/// Configuration of a proxy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Config {
    /// Resources by type URL and name, without private keys.
    pub xds: Value,
    /// JSON patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<Value>,
}

/// Requests to Envoy's admin interface that the API forwards; all others are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminQuery {
    ConfigDump { endpoints: bool },
    Stats { json: bool, used_only: bool },
    Clusters { json: bool },
}

impl AdminQuery {
    /// Path and query of the admin request.
    pub fn path(self) -> &'static str {
        match self {
            Self::ConfigDump { endpoints: false } => "/config_dump",
            Self::ConfigDump { endpoints: true } => "/config_dump?include_eds",
            Self::Stats { json: false, used_only: false } => "/stats",
            Self::Stats { json: false, used_only: true } => "/stats?usedonly",
            Self::Stats { json: true, used_only: false } => "/stats?format=json",
            Self::Stats { json: true, used_only: true } => "/stats?format=json&usedonly",
            Self::Clusters { json: false } => "/clusters",
            Self::Clusters { json: true } => "/clusters?format=json",
        }
    }

    pub fn is_json(self) -> bool {
        match self {
            Self::ConfigDump { .. } => true,
            Self::Stats { json, .. } | Self::Clusters { json } => json,
        }
    }
}

/// Failure of an inspection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InspectError {
    /// The proxy never connected, so its features are unknown.
    NeverConnected,
    /// The proxy is not connected to this control plane.
    NotConnected,
    /// The generated configuration failed validation.
    Faults(Vec<String>),
    /// Envoy's admin interface did not respond, or with an error. The text is shown to users: before the proxy has proven
    /// its identity, it says nothing of an address.
    Unreachable(String),
    /// Fault of the control plane.
    Broken(String),
    Cancelled,
}

impl From<Cancelled> for InspectError {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

/// Connection status of a proxy.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Instance ID of the control plane that holds the connection.
    pub control_plane_instance_id: String,
    pub protocol: &'static str,
    pub connect_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    pub types: Vec<TypeStatus>,
    /// Store revision of the desired configuration, and of the last one that was acknowledged in full.
    pub published: Option<u64>,
    pub settled: Option<u64>,
    pub bytes_sent: u64,
    /// Reason why the desired configuration was not published.
    pub faults: Vec<String>,
    #[serde(rename = "mTLS")]
    pub mtls: MtlsStep,
    /// Certificate in use, with mTLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateStatus>,
}

/// Validity of a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStatus {
    pub expiration_time: String,
    /// Human-readable: `4h 12m`.
    pub expires_in: String,
    /// Present when the renewal is overdue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// ACKs and NACKs of one resource type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TypeStatus {
    /// `cds`, `eds`, `lds`, `rds` or `sds`.
    #[serde(rename = "type")]
    pub short: &'static str,
    pub type_url: &'static str,
    pub sent: u64,
    pub acknowledged: u64,
    pub rejected: u64,
    /// The proxy runs an older version than the last one sent.
    pub rejecting: bool,
    /// Envoy's error of the last NACK.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// Progress of the mesh's mTLS rollout. Empty strings: no rollout.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MtlsStep {
    pub step: String,
    pub target: String,
    /// Proxies that the next step waits for, each with the reason. Truncated when there are many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<String>,
}

/// Implementation for an API without a proxy port: no proxy ever connected.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProxies;

impl Proxies for NoProxies {
    fn config(&self, _: &ProxyKey, _: ConfigOptions, _: &Cancellation) -> Result<Config, InspectError> {
        Err(InspectError::NeverConnected)
    }

    fn diff(&self, _: ConfigDiff<'_>, _: &Cancellation) -> Result<Value, InspectError> {
        Err(InspectError::NeverConnected)
    }

    fn ask(&self, _: ProxyKey, _: AdminQuery) -> InspectFuture<Bytes> {
        Box::pin(async { Err(InspectError::NeverConnected) })
    }

    fn status(&self, _: &ProxyKey) -> Option<Status> {
        None
    }
}

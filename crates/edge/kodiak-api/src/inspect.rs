//! What the API asks about proxies. The control plane that they are connected to answers.

use std::{future::Future, pin::Pin};

use bytes::Bytes;
use kodiak_model::{ProxyKey, ResourceKey, subscription::Version};
use kodiak_store::Snapshot;
use serde::Serialize;
use serde_json::Value;

pub type Asking<T> = Pin<Box<dyn Future<Output = Result<T, Trouble>> + Send>>;

pub trait Proxies: Send + Sync {
    /// What it has. For a proxy that is away: what it would get.
    fn config(&self, proxy: ProxyKey, ask: ConfigAsked) -> Asking<Config>;

    /// How the configuration of a mesh's proxies changes from one state of the store to another. With `full`, also how
    /// each Envoy resource changes.
    fn diff(&self, mesh: String, before: Snapshot, after: Snapshot, full: bool) -> Asking<Value>;

    /// What its Envoy says of itself.
    fn ask(&self, proxy: ProxyKey, question: Question) -> Asking<Bytes>;

    /// `None` when it is not connected to this control plane.
    fn status(&self, proxy: &ProxyKey) -> Option<Status>;

    /// Stored resources that this control plane ignores, because they made it panic.
    fn quarantined(&self) -> Vec<Quarantined> {
        Vec::new()
    }
}

/// A stored resource that is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    pub key: ResourceKey,
    /// A newer one is tried again.
    pub revision: u64,
    /// The part of the control plane that ignores it.
    pub task: &'static str,
    pub error: String,
}

/// How a configuration is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConfigAsked {
    /// With policies that are only tried out.
    pub shadow: bool,
    /// With what that changes.
    pub diff: bool,
}

/// What a proxy has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Config {
    /// Resources by type URL and name, without keys.
    pub xds: Value,
    /// A JSON patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<Value>,
}

/// What can be asked of Envoy's admin interface. Nothing else is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    ConfigDump { endpoints: bool },
    Stats { json: bool, used_only: bool },
    Clusters { json: bool },
}

impl Question {
    /// Path and query at the admin interface.
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

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The proxy was never connected, so nobody knows what it is able to.
    NeverConnected,
    /// What it should have is not fit to be sent.
    Faults(Vec<String>),
    /// It does not answer, or not as it should.
    Unreachable(String),
    /// It is our own fault.
    Broken(String),
}

/// How a connected proxy stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The control plane that holds the connection.
    pub control_plane_instance_id: String,
    pub protocol: &'static str,
    pub connect_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    pub types: Vec<TypeStatus>,
    /// The revision of what it should have, and of what it has last acknowledged in full.
    pub published: Option<u64>,
    pub settled: Option<u64>,
    pub bytes_sent: u64,
    /// Why what it should have by now was not sent.
    pub faults: Vec<String>,
    #[serde(rename = "mTLS")]
    pub mtls: MtlsStep,
    /// The certificate that it has, under mTLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateStatus>,
}

/// How long a certificate lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStatus {
    pub expiration_time: String,
    /// For people: `4h 12m`.
    pub expires_in: String,
    /// There when it should have been renewed by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// What became of the responses of one type.
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
    /// It runs on something older than what it was sent.
    pub rejecting: bool,
    /// What Envoy said when it last rejected a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// Where the mesh of a proxy stands on its way to or from mTLS. Empty texts: without.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MtlsStep {
    pub step: String,
    pub target: String,
    /// The proxies that the next step waits for, each with the reason; not all, if they are many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<String>,
}

/// For an API without a port for proxies: none was ever connected.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProxies;

impl Proxies for NoProxies {
    fn config(&self, _: ProxyKey, _: ConfigAsked) -> Asking<Config> {
        Box::pin(async { Err(Trouble::NeverConnected) })
    }

    fn diff(&self, _: String, _: Snapshot, _: Snapshot, _: bool) -> Asking<Value> {
        Box::pin(async { Err(Trouble::NeverConnected) })
    }

    fn ask(&self, _: ProxyKey, _: Question) -> Asking<Bytes> {
        Box::pin(async { Err(Trouble::NeverConnected) })
    }

    fn status(&self, _: &ProxyKey) -> Option<Status> {
        None
    }
}

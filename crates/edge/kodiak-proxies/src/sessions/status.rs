//! Status of a connected proxy, for inspection.

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_ads::Protocol;
use kodiak_model::{ProxyKey, subscription::Version};
use kodiak_xds_stream::TypeUrl;

#[derive(Debug, Clone, PartialEq)]
pub struct ProxyStatus {
    pub key: ProxyKey,
    pub protocol: Protocol,
    pub connected: Timestamp,
    /// Whether the proxy registered its Dataplane itself.
    pub from_metadata: bool,
    /// Versions of Envoy and of the sidecar process, as they report them.
    pub version: Option<Version>,
    pub types: [TypeStatus; TypeUrl::COUNT],
    /// Revision of the last published snapshot, and of the last one that it has acknowledged in full.
    pub published: Option<u64>,
    pub settled: Option<u64>,
    pub bytes_sent: u64,
    /// Why resources failed validation. It has older versions of them, or does not have them.
    pub faults: Vec<String>,
}

/// Counters of the responses of one resource type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeStatus {
    pub type_url: TypeUrl,
    pub sent: u64,
    pub acknowledged: u64,
    pub rejected: u64,
    /// Envoy's error in its last NACK.
    pub last_error: Option<Arc<str>>,
    /// It runs on an older version than the last one sent.
    pub rejecting: bool,
}

impl TypeStatus {
    pub(crate) fn new(type_url: TypeUrl) -> Self {
        Self { type_url, sent: 0, acknowledged: 0, rejected: 0, last_error: None, rejecting: false }
    }
}

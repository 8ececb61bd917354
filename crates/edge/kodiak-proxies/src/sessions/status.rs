//! What is known of a connected proxy, for inspection.

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
    /// Whether the proxy brought its Dataplane.
    pub from_metadata: bool,
    /// Of the proxy and of what runs it, as they say.
    pub version: Option<Version>,
    pub types: [TypeStatus; TypeUrl::COUNT],
    /// The revision of what it should have, and of what it has last acknowledged in full.
    pub published: Option<u64>,
    pub settled: Option<u64>,
    pub bytes_sent: u64,
    /// Why what it should have by now was not sent.
    pub faults: Vec<String>,
}

/// What became of the responses of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeStatus {
    pub type_url: TypeUrl,
    pub sent: u64,
    pub acknowledged: u64,
    pub rejected: u64,
    /// What the proxy said when it last rejected a response.
    pub last_error: Option<Arc<str>>,
    /// It runs on something older than what it was sent.
    pub rejecting: bool,
}

impl TypeStatus {
    pub(crate) fn new(type_url: TypeUrl) -> Self {
        Self { type_url, sent: 0, acknowledged: 0, rejected: 0, last_error: None, rejecting: false }
    }
}

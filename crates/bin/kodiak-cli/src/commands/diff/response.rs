//! Response of the control plane.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::documents::FileResource;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DiffResponse {
    /// In the order of the request: writes, then deletions.
    pub(super) changes: Vec<WriteEffect>,
    pub(super) proxies: Vec<ProxyDiff>,
    pub(super) unchanged: usize,
    pub(super) bytes: usize,
    pub(super) faults: Vec<FaultyProxy>,
    /// Number of proxies without details.
    #[serde(default)]
    pub(super) left_out: usize,
}

/// Effect of a write or a deletion on a stored resource.
#[derive(Deserialize)]
pub(super) struct WriteEffect {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) effect: String,
    #[serde(default)]
    pub(super) warnings: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct ProxyDiff {
    pub(super) name: String,
    pub(super) bytes: usize,
    /// By `added`, `removed` and `changed`.
    pub(super) counts: BTreeMap<String, usize>,
    #[serde(default)]
    pub(super) added: Vec<EnvoyResourceDiff>,
    #[serde(default)]
    pub(super) removed: Vec<EnvoyResourceDiff>,
    #[serde(default)]
    pub(super) changed: Vec<EnvoyResourceDiff>,
}

/// Envoy resource of a proxy.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EnvoyResourceDiff {
    #[serde(rename = "type")]
    pub(super) type_url: String,
    pub(super) name: String,
    pub(super) bytes: usize,
    #[serde(default)]
    pub(super) bytes_before: usize,
    #[serde(default)]
    pub(super) patch: Vec<Operation>,
}

#[derive(Deserialize)]
pub(super) struct Operation {
    pub(super) op: String,
    pub(super) path: String,
    #[serde(default)]
    pub(super) value: Value,
}

/// Proxy with resources that would stay at their last good version.
#[derive(Deserialize)]
pub(super) struct FaultyProxy {
    pub(super) name: String,
    pub(super) faults: Vec<String>,
}

impl DiffResponse {
    pub(super) fn read(value: &Value) -> anyhow::Result<Self> {
        use anyhow::Context as _;
        Self::deserialize(value).context("cannot parse the response of the control plane")
    }
}

/// Index of the document, and field in it, of `resources[2].spec.to[0]`.
pub(super) fn place<'a, 'p>(path: &'p str, resources: &[&'a FileResource]) -> Option<(&'a FileResource, &'p str)> {
    let (number, rest) = path.strip_prefix("resources[")?.split_once(']')?;
    let resource = resources.get(number.parse::<usize>().ok()?)?;
    Some((*resource, rest.trim_start_matches('.')))
}

//! What the control plane answers.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::documents::Resource;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    /// In the order of the request: what would be written, then what would be deleted.
    pub(super) changes: Vec<Change>,
    pub(super) proxies: Vec<Proxy>,
    pub(super) unchanged: usize,
    pub(super) bytes: usize,
    pub(super) faults: Vec<Faulty>,
    /// Of so many proxies only the numbers are told.
    #[serde(default)]
    pub(super) left_out: usize,
}

#[derive(Deserialize)]
pub(super) struct Change {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) effect: String,
    #[serde(default)]
    pub(super) warnings: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct Proxy {
    pub(super) name: String,
    pub(super) bytes: usize,
    /// By `added`, `removed` and `changed`.
    pub(super) counts: BTreeMap<String, usize>,
    #[serde(default)]
    pub(super) added: Vec<Held>,
    #[serde(default)]
    pub(super) removed: Vec<Held>,
    #[serde(default)]
    pub(super) changed: Vec<Held>,
}

/// A resource of a proxy.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Held {
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

/// One that would keep what it has.
#[derive(Deserialize)]
pub(super) struct Faulty {
    pub(super) name: String,
    pub(super) faults: Vec<String>,
}

impl Answer {
    pub(super) fn read(value: &Value) -> anyhow::Result<Self> {
        use anyhow::Context as _;
        Self::deserialize(value).context("the answer of the control plane is not what one says")
    }
}

/// The document and the field in it of `resources[2].spec.to[0]`.
pub(super) fn place<'a, 'p>(path: &'p str, resources: &[&'a Resource]) -> Option<(&'a Resource, &'p str)> {
    let (number, rest) = path.strip_prefix("resources[")?.split_once(']')?;
    let resource = resources.get(number.parse::<usize>().ok()?)?;
    Some((*resource, rest.trim_start_matches('.')))
}

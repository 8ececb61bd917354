//! Workload: the proxies of one application, found by their label `kuma.io/workload`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CheckCtx, Kind, Language, Problems, Spec, Status, names};

pub static KIND: Kind = Kind::plugin("Workload", "workloads", "wl", Language::of::<Workload>());

const NAME_MAX: usize = 253;

/// A name is all that it has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Workload {}

impl Spec for Workload {
    type Status = WorkloadStatus;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        names::check_length(ctx.display_name(), NAME_MAX, problems);
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadStatus {
    pub dataplane_proxies: DataplaneProxies,
}

impl Status for WorkloadStatus {
    const PRESENT: bool = true;
}

/// The proxies that carry the label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataplaneProxies {
    pub connected: u32,
    pub healthy: u32,
    pub total: u32,
}

#[cfg(test)]
mod tests {
    use super::WorkloadStatus;

    #[test]
    fn zero_proxies_are_written() {
        let fresh = serde_json::to_string(&WorkloadStatus::default()).unwrap();
        assert_eq!(fresh, r#"{"dataplaneProxies":{"connected":0,"healthy":0,"total":0}}"#);
    }
}

//! Status of a Workload.

use serde::{Deserialize, Serialize};

use crate::Status;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadStatus {
    pub dataplane_proxies: DataplaneProxies,
}

impl Status for WorkloadStatus {
    const PRESENT: bool = true;
}

/// Counts of the proxies that carry the label.
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
    fn zero_counts_are_serialized() {
        let fresh = serde_json::to_string(&WorkloadStatus::default()).unwrap();
        assert_eq!(fresh, r#"{"dataplaneProxies":{"connected":0,"healthy":0,"total":0}}"#);
    }
}

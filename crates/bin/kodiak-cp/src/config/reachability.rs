//! Settings of destinations that proxies may not call.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Reachability {
    /// Whether transparent proxies lose the destinations that no MeshTrafficPermission lets them call. The label
    /// `kodiak.io/reachability` of a Mesh or a Dataplane overrides it.
    pub mode: ReachabilityMode,
    /// Whether hostnames of these destinations still resolve, and the proxy answers calls to them with 403 and the
    /// reason.
    pub explain: bool,
}

impl Default for Reachability {
    fn default() -> Self {
        Self { mode: ReachabilityMode::default(), explain: true }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReachabilityMode {
    /// Proxies get all destinations.
    #[default]
    Off,
    /// Proxies get all destinations, and reports show which ones they would lose.
    Shadow,
    /// Proxies get the destinations that they may call.
    On,
}

impl From<ReachabilityMode> for kodiak_reachability::Mode {
    fn from(mode: ReachabilityMode) -> Self {
        match mode {
            ReachabilityMode::Off => Self::Off,
            ReachabilityMode::Shadow => Self::Shadow,
            ReachabilityMode::On => Self::On,
        }
    }
}

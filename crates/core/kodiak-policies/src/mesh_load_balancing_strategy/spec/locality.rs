//! Locality awareness: preferred endpoints and failover.

use kodiak_model::{Choice, IntOrString, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalityAwareness {
    /// Distributes traffic over all endpoints, regardless of locality.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Preferences within the zone of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_zone: Option<LocalZone>,
    /// Failover to other zones when the zone of the caller has too few healthy endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_zone: Option<CrossZone>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalZone {
    /// Prefers endpoints that have the caller's value of a tag, in order of the tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity_tags: Option<Vec<AffinityTag>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["key"]))]
pub struct AffinityTag {
    pub key: String,
    /// Share of the traffic, relative to the sum of all weights. Without weights the first tag gets 90%, the next 9%,
    /// and so on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CrossZone {
    /// Failover rules, in order of priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover: Option<Vec<Failover>>,
    /// Percentage of healthy endpoints below which traffic goes to the next priority too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover_threshold: Option<FailoverThreshold>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["to"]))]
pub struct Failover {
    /// Zones of the callers. All zones when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<FromZone>,
    pub to: ToZone,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["zones"]))]
pub struct FromZone {
    pub zones: Vec<String>,
}

words! {
    pub enum ToZoneType {
        None = "None",
        Only = "Only",
        Any = "Any",
        AnyExcept = "AnyExcept",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type"]))]
pub struct ToZone {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub zone_type: Option<Choice<ToZoneType>>,
    /// For Only and AnyExcept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zones: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["percentage"]))]
pub struct FailoverThreshold {
    /// A number, or a decimal in quotes. 50 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage: Option<IntOrString>,
}

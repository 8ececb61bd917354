//! What users write.

mod hash_policy;
mod locality;

use kodiak_model::{Choice, IntOrString, TargetRef, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use hash_policy::{Connection, Cookie, FilterState, HashPolicy, HashPolicyType, Header, QueryParameter};
pub use locality::{
    AffinityTag, CrossZone, Failover, FailoverThreshold, FromZone, LocalZone, LocalityAwareness, ToZone, ToZoneType,
};

use crate::from_to::Item;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshLoadBalancingStrategy {
    /// The proxies that choose. All of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// The destinations that these proxies call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<Item<Conf>>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// What is near is called first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locality_awareness: Option<LocalityAwareness>,
    /// How an endpoint is chosen among equals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancer>,
    /// What RingHash and Maglev make their hash of, in this order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash_policies: Option<Vec<HashPolicy>>,
}

words! {
    pub enum LoadBalancerType {
        RoundRobin = "RoundRobin",
        LeastRequest = "LeastRequest",
        RingHash = "RingHash",
        Random = "Random",
        Maglev = "Maglev",
    }
}

/// The type, and the field of that name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type"]))]
pub struct LoadBalancer {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub balancer_type: Option<Choice<LoadBalancerType>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_robin: Option<RoundRobin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_request: Option<LeastRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring_hash: Option<RingHash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random: Option<Random>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maglev: Option<Maglev>,
}

impl LoadBalancer {
    /// The older places of hash policies that are in use, by the names of their fields.
    pub fn hash_policies(&self) -> impl Iterator<Item = (&'static str, &[HashPolicy])> {
        let ring_hash = self.ring_hash.as_ref().and_then(|ring_hash| ring_hash.hash_policies.as_deref());
        let maglev = self.maglev.as_ref().and_then(|maglev| maglev.hash_policies.as_deref());
        [("ringHash", ring_hash), ("maglev", maglev)].into_iter().filter_map(|(name, list)| Some((name, list?)))
    }
}

/// One after the other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RoundRobin {}

/// A few are drawn, and the one with the fewest requests under way is taken.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LeastRequest {
    /// How many are drawn. 2 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2))]
    pub choice_count: Option<u32>,
    /// How much requests under way lower the weight of an endpoint: a number, or a decimal in quotes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_request_bias: Option<IntOrString>,
}

words! {
    pub enum HashFunction {
        XXHash = "XXHash",
        MurmurHash2 = "MurmurHash2",
    }
}

/// Requests with the same hash go to the same endpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RingHash {
    /// XXHash by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash_function: Option<Choice<HashFunction>>,
    /// A larger ring spreads requests more evenly. 1024 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 8_000_000))]
    pub min_ring_size: Option<u32>,
    /// 8000000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 8_000_000))]
    pub max_ring_size: Option<u32>,
    /// The older place of `hashPolicies`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash_policies: Option<Vec<HashPolicy>>,
}

/// Any of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Random {}

/// Requests with the same hash go to the same endpoint, by a table of fixed size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Maglev {
    /// A prime number. 65537 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 5_000_011))]
    pub table_size: Option<u32>,
    /// The older place of `hashPolicies`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash_policies: Option<Vec<HashPolicy>>,
}

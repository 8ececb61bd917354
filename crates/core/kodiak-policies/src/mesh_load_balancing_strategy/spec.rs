//! Spec of MeshLoadBalancingStrategy.

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
    /// The proxies that balance. All proxies of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// The destinations of these proxies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<Item<Conf>>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// Prefers endpoints that are close to the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locality_awareness: Option<LocalityAwareness>,
    /// Load balancing algorithm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancer>,
    /// Inputs of the hash of RingHash and Maglev, in this order.
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

/// The type, and the member of that name.
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
    /// Legacy hash policies that are set, with the names of their members.
    pub fn hash_policies(&self) -> impl Iterator<Item = (&'static str, &[HashPolicy])> {
        let ring_hash = self.ring_hash.as_ref().and_then(|ring_hash| ring_hash.hash_policies.as_deref());
        let maglev = self.maglev.as_ref().and_then(|maglev| maglev.hash_policies.as_deref());
        [("ringHash", ring_hash), ("maglev", maglev)].into_iter().filter_map(|(name, list)| Some((name, list?)))
    }
}

/// Selects endpoints in turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RoundRobin {}

/// Selects a few endpoints at random, and of these the one with the fewest active requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LeastRequest {
    /// Number of endpoints that are selected at random. 2 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2))]
    pub choice_count: Option<u32>,
    /// How much active requests lower the weight of an endpoint: a number, or a decimal in quotes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_request_bias: Option<IntOrString>,
}

words! {
    pub enum HashFunction {
        XXHash = "XXHash",
        MurmurHash2 = "MurmurHash2",
    }
}

/// Consistent hashing with a ring: requests with the same hash go to the same endpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RingHash {
    /// XXHash by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash_function: Option<Choice<HashFunction>>,
    /// A larger ring distributes requests more evenly. 1024 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 8_000_000))]
    pub min_ring_size: Option<u32>,
    /// 8000000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 8_000_000))]
    pub max_ring_size: Option<u32>,
    /// The legacy form of `hashPolicies`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash_policies: Option<Vec<HashPolicy>>,
}

/// Selects endpoints at random.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Random {}

/// Consistent hashing with a table of fixed size: requests with the same hash go to the same endpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Maglev {
    /// A prime number. 65537 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 5_000_011))]
    pub table_size: Option<u32>,
    /// The legacy form of `hashPolicies`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash_policies: Option<Vec<HashPolicy>>,
}

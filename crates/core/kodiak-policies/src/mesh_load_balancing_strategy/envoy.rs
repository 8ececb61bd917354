//! Load balancers of clusters.

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::cluster::v3::cluster::common_lb_config::{
    LocalityConfigSpecifier, LocalityWeightedLbConfig,
};
use kodiak_envoy::envoy::config::cluster::v3::cluster::{
    LbConfig, LbPolicy, LeastRequestLbConfig, MaglevLbConfig, RingHashLbConfig, ring_hash_lb_config,
};
use kodiak_envoy::envoy::config::core::v3::RuntimeDouble;
use kodiak_model::{Choice, IntOrString};

use super::endpoints::affinity_tags;
use super::{Conf, HashFunction, LeastRequest, LoadBalancer, LoadBalancerType, Maglev, RingHash};
use crate::target::Upstream;

/// Envoy's default.
const MIN_RING_SIZE: u32 = 1024;

pub(super) fn cluster(conf: &Conf, upstream: &mut Upstream) {
    let cluster = &mut upstream.cluster;
    if let Some(written) = &conf.load_balancer {
        balancer(written, cluster);
    }
    if !affinity_tags(conf).is_empty() {
        let weighted = LocalityConfigSpecifier::LocalityWeightedLbConfig(LocalityWeightedLbConfig {});
        cluster.common_lb_config.get_or_insert_default().locality_config_specifier = Some(weighted);
    }
}

fn balancer(written: &LoadBalancer, cluster: &mut Cluster) {
    let LoadBalancer { balancer_type, round_robin: _, least_request, ring_hash, random: _, maglev } = written;
    let Some(balancer_type) = balancer_type.as_ref().and_then(Choice::known) else { return };
    let (policy, config) = match balancer_type {
        LoadBalancerType::RoundRobin => (LbPolicy::RoundRobin, None),
        LoadBalancerType::Random => (LbPolicy::Random, None),
        LoadBalancerType::LeastRequest => (LbPolicy::LeastRequest, least_request.as_ref().map(least_request_config)),
        LoadBalancerType::RingHash => (LbPolicy::RingHash, ring_hash.as_ref().map(ring_hash_config)),
        LoadBalancerType::Maglev => (LbPolicy::Maglev, maglev.as_ref().map(maglev_config)),
    };
    cluster.set_lb_policy(policy);
    cluster.lb_config = config;
}

fn least_request_config(LeastRequest { choice_count, active_request_bias }: &LeastRequest) -> LbConfig {
    let bias = active_request_bias.as_ref().and_then(IntOrString::decimal);
    LbConfig::LeastRequestLbConfig(LeastRequestLbConfig {
        choice_count: *choice_count,
        active_request_bias: bias.map(|default_value| RuntimeDouble { default_value, ..RuntimeDouble::default() }),
        ..LeastRequestLbConfig::default()
    })
}

/// Envoy rejects a ring whose minimum size exceeds its maximum, also when the minimum is the default.
fn ring_hash_config(RingHash { hash_function, min_ring_size, max_ring_size, .. }: &RingHash) -> LbConfig {
    let function = match hash_function.as_ref().and_then(Choice::known) {
        Some(HashFunction::MurmurHash2) => ring_hash_lb_config::HashFunction::MurmurHash2,
        Some(HashFunction::XXHash) | None => ring_hash_lb_config::HashFunction::XxHash,
    };
    let least = match *max_ring_size {
        Some(largest) if min_ring_size.unwrap_or(MIN_RING_SIZE) > largest => Some(largest),
        _ => *min_ring_size,
    };
    LbConfig::RingHashLbConfig(RingHashLbConfig {
        hash_function: function.into(),
        minimum_ring_size: least.map(u64::from),
        maximum_ring_size: max_ring_size.map(u64::from),
    })
}

fn maglev_config(Maglev { table_size, .. }: &Maglev) -> LbConfig {
    LbConfig::MaglevLbConfig(MaglevLbConfig { table_size: table_size.map(|size| u64::from(prime_from(size))) })
}

/// Envoy accepts only prime table sizes, so the size is rounded up to the next prime.
fn prime_from(size: u32) -> u32 {
    let is_prime = |n: &u32| *n > 1 && (2..*n).take_while(|d| *d <= *n / *d).all(|d| !n.is_multiple_of(d));
    (size..=u32::MAX).find(is_prime).unwrap_or(size)
}

#[cfg(test)]
mod tests {
    use kodiak_envoy::envoy::config::cluster::v3::Cluster;

    use super::prime_from;
    use crate::mesh_load_balancing_strategy::LoadBalancing;
    use crate::samples::{self, cluster, upstream};

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let Cluster { lb_policy, lb_config, common_lb_config, .. } = cluster(&LoadBalancing, text).cluster;
        samples::check(&Cluster { lb_policy, lb_config, common_lb_config, ..Cluster::default() }, expected);
    }

    #[test]
    fn each_load_balancer_has_its_settings() {
        for (text, expected) in [
            ("loadBalancer: {type: RoundRobin}", "{}"),
            ("loadBalancer: {type: Random, maglev: {tableSize: 17}}", "lb_policy: RANDOM"),
            ("loadBalancer: {type: LeastRequest}", "lb_policy: LEAST_REQUEST"),
            (
                "loadBalancer: {type: LeastRequest, leastRequest: {choiceCount: 4, activeRequestBias: '1.3'}}",
                "
                lb_policy: LEAST_REQUEST
                least_request_lb_config: {choice_count: 4, active_request_bias: {default_value: 1.3}}
                ",
            ),
            (
                "loadBalancer: {type: RingHash, ringHash: {minRingSize: 100, maxRingSize: 10000}}",
                "{lb_policy: RING_HASH, ring_hash_lb_config: {minimum_ring_size: 100, maximum_ring_size: 10000}}",
            ),
            (
                "loadBalancer: {type: RingHash, ringHash: {hashFunction: MurmurHash2}}",
                "{lb_policy: RING_HASH, ring_hash_lb_config: {hash_function: MURMUR_HASH_2}}",
            ),
            (
                "loadBalancer: {type: Maglev, maglev: {tableSize: 17}}",
                "{lb_policy: MAGLEV, maglev_lb_config: {table_size: 17}}",
            ),
            ("hashPolicies: []", "{}"),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn minimum_ring_size_does_not_exceed_maximum() {
        let ring = "{lb_policy: RING_HASH, ring_hash_lb_config: {minimum_ring_size: 100, maximum_ring_size: 100}}";
        check("loadBalancer: {type: RingHash, ringHash: {maxRingSize: 100}}", ring);
        check("loadBalancer: {type: RingHash, ringHash: {minRingSize: 200, maxRingSize: 100}}", ring);
    }

    #[test]
    fn table_size_is_rounded_up_to_a_prime() {
        for (size, prime) in [(1, 2), (2, 2), (17, 17), (27, 29), (65_537, 65_537), (5_000_010, 5_000_011)] {
            assert_eq!(prime_from(size), prime);
        }
    }

    #[test]
    fn affinity_enables_locality_weights() {
        let tags = "localZone: {affinityTags: [{key: node}]}";
        check(&format!("localityAwareness: {{{tags}}}"), "common_lb_config: {locality_weighted_lb_config: {}}");
        check(&format!("localityAwareness: {{disabled: true, {tags}}}"), "{}");
        let cross_zone = cluster(&LoadBalancing, "localityAwareness: {crossZone: {failover: [{to: {type: Any}}]}}");
        assert_eq!(cross_zone, upstream(true));
    }
}

//! MeshLoadBalancingStrategy: load balancing over the endpoints of a destination.

mod check;
mod endpoints;
mod envoy;
mod hashes;
mod spec;

use kodiak_model::{
    CheckCtx, Kind, Language, LegacyNames, NoStatus, PolicyFacts, Problems, Spec, policy, policy::ConfShape, target_ref,
};

use crate::target::{Endpoints, Outbound, Upstream};
use crate::{Confs, Policy};

pub use spec::{
    AffinityTag, Conf, Connection, Cookie, CrossZone, Failover, FailoverThreshold, FilterState, FromZone, HashFunction,
    HashPolicy, HashPolicyType, Header, LeastRequest, LoadBalancer, LoadBalancerType, LocalZone, LocalityAwareness,
    Maglev, MeshLoadBalancingStrategy, QueryParameter, Random, RingHash, RoundRobin, ToZone, ToZoneType,
};

pub const POLICY: Option<&dyn Policy> = Some(&LoadBalancing);

pub static KIND: Kind = Kind::policy(
    "MeshLoadBalancingStrategy",
    "meshloadbalancingstrategies",
    "mlbs",
    PolicyFacts { to: true, from: false, rules: false, from_as_rules: false, conf: ConfShape::Default, order: 400 },
    Language::of::<MeshLoadBalancingStrategy>(),
)
.legacy_names(LegacyNames::Only(&["localityAwareness", "localZone"]));

/// Applies the policy to proxies.
struct LoadBalancing;

impl Policy for LoadBalancing {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn caller_tags(&self, conf: &policy::Conf) -> Vec<String> {
        endpoints::caller_tags(&conf.read())
    }

    fn outbound(&self, confs: &Confs, outbound: &mut Outbound<'_>) {
        hashes::outbound(confs, outbound);
    }

    fn cluster(&self, conf: &policy::Conf, cluster: &mut Upstream) {
        envoy::cluster(&conf.read(), cluster);
    }

    fn places(&self) -> bool {
        true
    }

    fn endpoints(&self, conf: &policy::Conf, endpoints: &mut Endpoints) {
        endpoints::arrange(&conf.read(), endpoints);
    }
}

impl Spec for MeshLoadBalancingStrategy {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (n, item) in self.to.iter().flatten().enumerate() {
            let Some(load_balancer) = &item.default.load_balancer else { continue };
            for (member, policies) in load_balancer.hash_policies() {
                warn_about_hash_policies(n, member, policies, &mut warnings);
            }
        }
        warnings.extend(target_ref::deprecations(self.target_ref.as_ref()));
        warnings
    }
}

/// Hash policies moved up one level, so that they can be set for a route too.
fn warn_about_hash_policies(item: usize, member: &str, policies: &[HashPolicy], warnings: &mut Vec<String>) {
    let conf = format!("spec.to[{item}].default");
    let list = format!("{conf}.loadBalancer.{member}.hashPolicies");
    warnings.push(format!("configuration '{list}' is deprecated, use '{conf}.hashPolicies' instead"));
    for (n, policy) in policies.iter().enumerate() {
        if policy.policy_type.as_ref().is_some_and(|one| one.is(HashPolicyType::SourceIP)) {
            warnings.push(format!("SourceIP type for '{list}[{n}].type' is deprecated, use Connection instead"));
        }
    }
}

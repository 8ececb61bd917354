//! Validation of MeshLoadBalancingStrategy.

mod hash_policies;
mod locality;

use kodiak_model::{FieldPath, IntOrString, Problems, TargetKind, TargetRef, TargetRules};

use super::{Conf, LeastRequest, LoadBalancer, LoadBalancerType, Maglev, MeshLoadBalancingStrategy, RingHash};
use crate::{from_to::Item, top_level};

const TO: &[TargetKind] =
    &[TargetKind::Mesh, TargetKind::MeshService, TargetKind::MeshMultiZoneService, TargetKind::MeshHTTPRoute];
const TO_OF_GATEWAY: &[TargetKind] = &[TargetKind::Mesh, TargetKind::MeshService, TargetKind::MeshMultiZoneService];

pub(super) fn check(spec: &MeshLoadBalancingStrategy, problems: &mut Problems) {
    let at = FieldPath::SPEC;
    let MeshLoadBalancingStrategy { target_ref, to } = spec;
    if let Some(target) = target_ref {
        let rules = TargetRules { kinds: top_level::PROXIES_AND_GATEWAYS, gateway_tags: true, inbounds: false };
        target.check(rules, &at.field("targetRef"), problems);
    }
    let at = at.field("to");
    let on_gateway = target_ref.as_ref().and_then(TargetRef::known_kind) == Some(TargetKind::MeshGateway);
    for (n, item) in to.iter().flatten().enumerate() {
        let at = at.index(n);
        let at_target = at.field("targetRef");
        if on_gateway {
            check_gateway_target(item, &at_target, problems);
        } else {
            item.target_ref.check(TargetRules::kinds(TO), &at_target, problems);
        }
        check_conf(item, &at.field("default"), problems);
    }
}

/// A gateway has one load balancer for all its outbound traffic.
fn check_gateway_target(item: &Item<Conf>, at: &FieldPath<'_>, problems: &mut Problems) {
    if item.default.load_balancer.is_some() {
        let message = "value 'MeshGateway' is not supported, only Mesh is allowed if loadBalancer is set";
        item.target_ref.check_or(TargetRules::kinds(&[TargetKind::Mesh]), Some(message), at, problems);
    } else {
        item.target_ref.check(TargetRules::kinds(TO_OF_GATEWAY), at, problems);
    }
}

fn check_conf(item: &Item<Conf>, at: &FieldPath<'_>, problems: &mut Problems) {
    let Conf { locality_awareness, load_balancer, hash_policies } = &item.default;
    hash_policies::check(hash_policies.as_deref(), &at.field("hashPolicies"), problems);
    let (at_locality, at_balancer) = (at.field("localityAwareness"), at.field("loadBalancer"));
    if item.target_ref.known_kind() == Some(TargetKind::MeshHTTPRoute) {
        const MESSAGE: &str =
            "field is not allowed when targetRef.kind is MeshHTTPRoute, only hashPolicies is supported";
        problems.require(load_balancer.is_none(), &at_balancer, MESSAGE);
        problems.require(locality_awareness.is_none(), &at_locality, MESSAGE);
        return;
    }
    if let Some(locality) = locality_awareness {
        locality::check(locality, &item.target_ref, &at_locality, problems);
    }
    if let Some(load_balancer) = load_balancer {
        check_load_balancer(load_balancer, &at_balancer, problems);
        if hash_policies.is_some() {
            for (member, _) in load_balancer.hash_policies() {
                let at = at_balancer.field(member);
                problems.add(&at.field("hashPolicies"), "hashPolicies already specified in the root level");
            }
        }
    }
}

/// Validates only the member that the type requires; it may be missing.
fn check_load_balancer(load_balancer: &LoadBalancer, at: &FieldPath<'_>, problems: &mut Problems) {
    let LoadBalancer { balancer_type, round_robin: _, least_request, ring_hash, random: _, maglev } = load_balancer;
    let Some(balancer_type) = balancer_type.as_ref().and_then(|one| one.check(at, "type", problems)) else { return };
    match balancer_type {
        LoadBalancerType::LeastRequest => {
            if let Some(LeastRequest { choice_count: _, active_request_bias }) = least_request {
                let at = at.field("leastRequest");
                check_bias(active_request_bias.as_ref(), &at.field("activeRequestBias"), problems);
            }
        }
        LoadBalancerType::RingHash => {
            if let Some(RingHash { hash_function, hash_policies, .. }) = ring_hash {
                let at = at.field("ringHash");
                if let Some(function) = hash_function {
                    function.check(&at, "hashFunction", problems);
                }
                hash_policies::check(hash_policies.as_deref(), &at.field("hashPolicies"), problems);
            }
        }
        LoadBalancerType::Maglev => {
            if let Some(Maglev { table_size: _, hash_policies }) = maglev {
                let at = at.field("maglev");
                hash_policies::check(hash_policies.as_deref(), &at.field("hashPolicies"), problems);
            }
        }
        LoadBalancerType::RoundRobin | LoadBalancerType::Random => (),
    }
}

fn check_bias(bias: Option<&IntOrString>, at: &FieldPath<'_>, problems: &mut Problems) {
    let Some(bias) = bias else { return };
    match bias.decimal() {
        None => problems.add(at, "string must be a valid number"),
        Some(number) => problems.require(number >= 0.0, at, "must be greater or equal then: 0"),
    }
}

//! Hash policies of routes.

use kodiak_envoy::envoy::config::route::v3::route_action;
use kodiak_envoy::envoy::config::route::v3::route_action::hash_policy::{self, PolicySpecifier};
use kodiak_model::Choice;

use super::{Conf, HashPolicy, HashPolicyType, LoadBalancer, LoadBalancerType};
use crate::Confs;
use crate::convert::{actions, duration};
use crate::target::{Carrier, Outbound};

pub(super) fn outbound(confs: &Confs, outbound: &mut Outbound<'_>) {
    let Carrier::Http(http) = &mut outbound.carrier else { return };
    for (name, action) in actions(&mut http.routes) {
        let Some(conf) = confs.of_route(name) else { continue };
        let hashed: Vec<_> = written(&conf.read()).iter().filter_map(policy).collect();
        if !hashed.is_empty() {
            action.hash_policy = hashed;
        }
    }
}

/// The legacy field is used when the new one is empty, and only that of the selected load balancer.
fn written(conf: &Conf) -> Vec<HashPolicy> {
    let older = |balancer: &LoadBalancer| {
        let LoadBalancer { balancer_type, ring_hash, maglev, .. } = balancer;
        match balancer_type.as_ref().and_then(Choice::known)? {
            LoadBalancerType::RingHash => ring_hash.as_ref()?.hash_policies.clone(),
            LoadBalancerType::Maglev => maglev.as_ref()?.hash_policies.clone(),
            LoadBalancerType::RoundRobin | LoadBalancerType::LeastRequest | LoadBalancerType::Random => None,
        }
    };
    let newer = conf.hash_policies.clone().filter(|list| !list.is_empty());
    newer.or_else(|| conf.load_balancer.as_ref().and_then(older)).unwrap_or_default()
}

/// `None` for a policy without effect.
fn policy(written: &HashPolicy) -> Option<route_action::HashPolicy> {
    let HashPolicy { policy_type, terminal, header, cookie, connection, query_parameter, filter_state } = written;
    let source_ip = || PolicySpecifier::ConnectionProperties(hash_policy::ConnectionProperties { source_ip: true });
    let specifier = match policy_type.as_ref().and_then(Choice::known)? {
        HashPolicyType::Header => PolicySpecifier::Header(hash_policy::Header {
            header_name: header.as_ref()?.name.clone(),
            ..hash_policy::Header::default()
        }),
        HashPolicyType::Cookie => {
            let cookie = cookie.as_ref()?;
            PolicySpecifier::Cookie(hash_policy::Cookie {
                name: cookie.name.clone(),
                ttl: cookie.ttl.and_then(duration),
                path: cookie.path.clone().unwrap_or_default(),
                ..hash_policy::Cookie::default()
            })
        }
        HashPolicyType::SourceIP => source_ip(),
        HashPolicyType::Connection => {
            connection.as_ref()?.source_ip.filter(|is_used| *is_used)?;
            source_ip()
        }
        HashPolicyType::QueryParameter => PolicySpecifier::QueryParameter(hash_policy::QueryParameter {
            name: query_parameter.as_ref()?.name.clone(),
        }),
        HashPolicyType::FilterState => {
            PolicySpecifier::FilterState(hash_policy::FilterState { key: filter_state.as_ref()?.key.clone() })
        }
    };
    Some(route_action::HashPolicy { terminal: terminal.unwrap_or_default(), policy_specifier: Some(specifier) })
}

#[cfg(test)]
mod tests {
    use kodiak_envoy::envoy::config::route::v3::{RouteAction, route};
    use kodiak_model::Protocol;

    use crate::mesh_load_balancing_strategy::LoadBalancing;
    use crate::samples::{self, as_http, conf, for_all, http, outbound, redirect, route, tcp};
    use crate::{Confs, target::Carrier};

    fn of_route(carrier: &Carrier, n: usize) -> RouteAction {
        match &as_http(carrier).routes[n].action {
            Some(route::Action::Route(RouteAction { hash_policy, .. })) => {
                RouteAction { hash_policy: hash_policy.clone(), ..RouteAction::default() }
            }
            _ => RouteAction::default(),
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let carrier = outbound(&LoadBalancing, &for_all(text), Protocol::Http, http(vec![route("")]));
        samples::check(&of_route(&carrier, 0), expected);
    }

    #[test]
    fn converts_all_hash_policies() {
        check(
            "
            hashPolicies:
            - {type: Header, header: {name: x-user}, terminal: true}
            - {type: Cookie, cookie: {name: session, ttl: 1h, path: /}}
            - {type: Connection, connection: {sourceIP: true}}
            - {type: Connection, connection: {sourceIP: false}}
            - {type: SourceIP, connection: {}}
            - {type: QueryParameter, queryParameter: {name: q}}
            - {type: FilterState, filterState: {key: k}}
            ",
            "
            hash_policy:
            - {header: {header_name: x-user}, terminal: true}
            - {cookie: {name: session, ttl: 3600s, path: /}}
            - {connection_properties: {source_ip: true}}
            - {connection_properties: {source_ip: true}}
            - {query_parameter: {name: q}}
            - {filter_state: {key: k}}
            ",
        );
    }

    #[test]
    fn legacy_hash_policies_apply_when_the_new_list_is_empty() {
        let of = |kind: &str, newer: &str| {
            let ring = "ringHash: {hashPolicies: [{type: Header, header: {name: of-ring}}]}";
            let maglev = "maglev: {hashPolicies: [{type: Header, header: {name: of-maglev}}]}";
            format!("{{loadBalancer: {{type: {kind}, {ring}, {maglev}}}, hashPolicies: [{newer}]}}")
        };
        let newer = "{type: Header, header: {name: newer}}";
        check(&of("RingHash", ""), "hash_policy: [{header: {header_name: of-ring}}]");
        check(&of("Maglev", ""), "hash_policy: [{header: {header_name: of-maglev}}]");
        check(&of("Random", ""), "{}");
        check(&of("Maglev", newer), "hash_policy: [{header: {header_name: newer}}]");
    }

    #[test]
    fn route_conf_overrides_destination_conf() {
        let mut confs = for_all("hashPolicies: [{type: Header, header: {name: whole}}]");
        confs.routes.insert("own".into(), conf("hashPolicies: [{type: Header, header: {name: own}}]"));
        let routes = vec![route("own"), route("other"), redirect("gone")];
        let carrier = outbound(&LoadBalancing, &confs, Protocol::Http, http(routes));
        samples::check(&of_route(&carrier, 0), "hash_policy: [{header: {header_name: own}}]");
        samples::check(&of_route(&carrier, 1), "hash_policy: [{header: {header_name: whole}}]");
        samples::check(&of_route(&carrier, 2), "{}");
        assert_eq!(outbound(&LoadBalancing, &confs, Protocol::Tcp, tcp()), tcp());
        assert_eq!(outbound(&LoadBalancing, &Confs::default(), Protocol::Http, http(vec![])), http(vec![]));
    }
}

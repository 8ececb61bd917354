//! Evaluates the part of Envoy's RBAC filters that permissions use.

use kodiak_envoy::envoy::config::listener::v3::filter;
use kodiak_envoy::envoy::config::rbac::v3::principal::Identifier;
use kodiak_envoy::envoy::config::rbac::v3::{Permission, Principal, Rbac, permission, rbac};
use kodiak_envoy::envoy::extensions::filters::http::rbac::v3::Rbac as HttpRbac;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_filter;
use kodiak_envoy::envoy::extensions::filters::network::rbac::v3::Rbac as NetworkRbac;
use kodiak_envoy::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
use kodiak_envoy::unpack;
use regex_lite::Regex;

use super::samples::MESH;
use crate::mesh_traffic_permission::{Action, Caller, Permissions};

type Filters = Vec<(Rbac, Option<Rbac>)>;

fn http(permissions: &Permissions) -> Filters {
    let read = |config| match config {
        Some(http_filter::ConfigType::TypedConfig(config)) => unpack::<HttpRbac>(&config).unwrap(),
        other => panic!("{other:?}"),
    };
    let filters = permissions.http_filters(MESH).into_iter().map(|filter| read(filter.config_type));
    filters.map(|filter| (filter.rules.unwrap(), filter.shadow_rules)).collect()
}

fn network(permissions: &Permissions) -> Filters {
    let read = |config| match config {
        Some(filter::ConfigType::TypedConfig(config)) => unpack::<NetworkRbac>(&config).unwrap(),
        other => panic!("{other:?}"),
    };
    let filters = permissions.network_filters(MESH, "inbound.").into_iter().map(|filter| read(filter.config_type));
    let filters = filters.inspect(|filter| assert_eq!(filter.stat_prefix, "inbound."));
    filters.map(|filter| (filter.rules.unwrap(), filter.shadow_rules)).collect()
}

pub(super) fn effect_of_http(permissions: &Permissions, caller: &Caller<'_>) -> Action {
    effect(http(permissions), caller)
}

pub(super) fn effect_of_network(permissions: &Permissions, caller: &Caller<'_>) -> Action {
    effect(network(permissions), caller)
}

/// All principals of the allowing filters.
pub(super) fn principals(permissions: &Permissions) -> Vec<Principal> {
    let filters = http(permissions);
    filters
        .into_iter()
        .flat_map(|(rules, _)| rules.policies.into_values().flat_map(|policy| policy.principals))
        .collect()
}

/// Evaluates the filters in order; each may record a shadow denial before it decides.
fn effect(filters: Filters, caller: &Caller<'_>) -> Action {
    let mut noted = false;
    for (rules, shadow_rules) in filters {
        noted |= shadow_rules.is_some_and(|shadow| !allows(&shadow, caller));
        if !allows(&rules, caller) {
            return Action::Deny;
        }
    }
    if noted { Action::AllowWithShadowDeny } else { Action::Allow }
}

fn allows(rules: &Rbac, caller: &Caller<'_>) -> bool {
    let matched = rules.policies.values().any(|policy| {
        assert!(!policy.permissions.is_empty() && !policy.principals.is_empty(), "Envoy refuses such a policy");
        policy.permissions.iter().any(|each| permits(each, caller))
            && policy.principals.iter().any(|each| is(each, caller))
    });
    matched == (rules.action() == rbac::Action::Allow)
}

fn permits(permission: &Permission, caller: &Caller<'_>) -> bool {
    match permission.rule.as_ref().unwrap() {
        permission::Rule::Any(any) => *any,
        permission::Rule::RequestedServerName(name) => {
            matches(name, &caller.sni.unwrap_or_default().to_ascii_lowercase())
        }
        other => panic!("{other:?}"),
    }
}

fn is(principal: &Principal, caller: &Caller<'_>) -> bool {
    match principal.identifier.as_ref().unwrap() {
        Identifier::Any(any) => *any,
        Identifier::AndIds(set) => !set.ids.is_empty() && set.ids.iter().all(|id| is(id, caller)),
        Identifier::OrIds(set) => set.ids.iter().any(|id| is(id, caller)),
        Identifier::NotId(id) => !is(id, caller),
        Identifier::Authenticated(name) => {
            let name = name.principal_name.as_ref().unwrap();
            caller.uris.iter().any(|uri| matches(name, uri))
        }
        other => panic!("{other:?}"),
    }
}

fn matches(matcher: &StringMatcher, text: &str) -> bool {
    match matcher.match_pattern.as_ref().unwrap() {
        MatchPattern::Exact(value) => text == value,
        MatchPattern::Prefix(value) => text.starts_with(value),
        MatchPattern::SafeRegex(matcher) => Regex::new(&format!("^(?:{})$", matcher.regex)).unwrap().is_match(text),
        other => panic!("{other:?}"),
    }
}

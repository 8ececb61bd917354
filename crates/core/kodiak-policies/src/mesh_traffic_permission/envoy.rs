//! The filters with which Envoy keeps to the permissions of an inbound.
//!
//! Callers are told apart by principals, for identities too. Envoy's matchers could name the policy of each match, but
//! their input joins all URIs of a certificate with commas: `spiffe://mesh/web,kuma://env/dev` is not exactly
//! `spiffe://mesh/web`. A principal looks at each URI alone.

use std::collections::BTreeMap;

use kodiak_envoy::envoy::config::listener::v3::{Filter, filter};
use kodiak_envoy::envoy::config::rbac::v3::principal::{Authenticated, Identifier, Set};
use kodiak_envoy::envoy::config::rbac::v3::rbac::Action as Effect;
use kodiak_envoy::envoy::config::rbac::v3::{Permission, Policy, Principal, Rbac, permission};
use kodiak_envoy::envoy::extensions::filters::http::rbac::v3::Rbac as HttpRbac;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{HttpFilter, http_filter};
use kodiak_envoy::envoy::extensions::filters::network::rbac::v3::Rbac as NetworkRbac;
use kodiak_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use kodiak_envoy::envoy::r#type::matcher::v3::{RegexMatcher, StringMatcher};
use kodiak_envoy::{any, stat_name};

use super::caller::tag_uri;
use super::permissions::{Form, Identified, Identity, Rules, Tagged};
use super::{Action, Permissions};
use crate::Entry;
use crate::order::{HttpStep, NetworkStep};
use crate::target::{Carrier, Inbound};

/// The name of the one policy that Envoy gets for `from`. Dashboards know it.
const FROM: &str = "MeshTrafficPermission";

/// Callers are known by their certificates, so where there are none everybody may call.
pub(super) fn inbound(entries: &[Entry], inbound: &mut Inbound<'_>) {
    let permissions = Permissions::of(entries);
    let stat_prefix = format!("{}.", stat_name(inbound.listener));
    for chain in inbound.chains.iter_mut().filter(|chain| chain.mtls) {
        inbound.inspects_tls |= permissions.needs_sni();
        match &mut chain.carrier {
            Carrier::Http(http) => {
                let filters = permissions.http_filters(inbound.mesh).into_iter();
                http.filters.extend(filters.map(|filter| (HttpStep::Permissions, filter)));
            }
            Carrier::Tcp(tcp) => {
                let filters = permissions.network_filters(inbound.mesh, &stat_prefix).into_iter();
                tcp.filters.extend(filters.map(|filter| (NetworkStep::Permissions, filter)));
            }
        }
    }
}

impl Permissions {
    /// For inbounds that speak HTTP: a call that is not allowed is answered with 403. They come first.
    pub fn http_filters(&self, mesh: &str) -> Vec<HttpFilter> {
        let filter = |Checkpoint { rules, shadow_rules }| {
            let config = HttpRbac { rules: Some(rules), shadow_rules, ..HttpRbac::default() };
            HttpFilter {
                name: "envoy.filters.http.rbac".to_owned(),
                config_type: Some(http_filter::ConfigType::TypedConfig(any(&config))),
                ..HttpFilter::default()
            }
        };
        self.checkpoints(mesh).into_iter().map(filter).collect()
    }

    /// For all other inbounds: a connection that is not allowed is closed when it sends its first byte. They come first.
    pub fn network_filters(&self, mesh: &str, stat_prefix: &str) -> Vec<Filter> {
        let filter = |Checkpoint { rules, shadow_rules }| {
            let stat_prefix = stat_prefix.to_owned();
            let config = NetworkRbac { rules: Some(rules), shadow_rules, stat_prefix, ..NetworkRbac::default() };
            Filter {
                name: "envoy.filters.network.rbac".to_owned(),
                config_type: Some(filter::ConfigType::TypedConfig(any(&config))),
            }
        };
        self.checkpoints(mesh).into_iter().map(filter).collect()
    }

    /// Whether the listener must find out which server a caller asks for, by the TLS inspector.
    pub fn needs_sni(&self) -> bool {
        match &self.form {
            Form::From(_) => false,
            Form::Rules(Rules { deny, shadow, allow }) => {
                [deny, shadow, allow].into_iter().flatten().any(|one| one.sni.is_some())
            }
        }
    }

    fn checkpoints(&self, mesh: &str) -> Vec<Checkpoint> {
        match &self.form {
            Form::From(items) => vec![from(items, mesh)],
            Form::Rules(lists) => rules(lists),
        }
    }
}

/// One filter, for HTTP or not.
struct Checkpoint {
    rules: Rbac,
    shadow_rules: Option<Rbac>,
}

fn from(items: &[Tagged], mesh: &str) -> Checkpoint {
    let policies = |counts: &dyn Fn(Action) -> bool| {
        let runs: Vec<&[Tagged]> = items.chunk_by(|a, b| counts(a.action) == counts(b.action)).collect();
        let principals = last_match(&runs, &|run| run.first().is_some_and(|item| counts(item.action)), mesh);
        if principals.is_empty() {
            return BTreeMap::new();
        }
        let policy = Policy { permissions: vec![any_server()], principals, ..Policy::default() };
        BTreeMap::from([(FROM.to_owned(), policy)])
    };
    let shadow = policies(&|action| action == Action::AllowWithShadowDeny);
    Checkpoint {
        rules: rbac(Effect::Allow, policies(&|action| action != Action::Deny)),
        shadow_rules: (!shadow.is_empty()).then(|| rbac(Effect::Deny, shadow)),
    }
}

/// Any of these is a caller whose last match is in a run that counts.
///
/// Halves are put together: what the first one lets through, the second one may take back. So each item stands here at
/// most once for each halving, and no principal is nested deeper than that: Envoy's parser has a limit.
fn last_match(runs: &[&[Tagged]], counts: &dyn Fn(&[Tagged]) -> bool, mesh: &str) -> Vec<Principal> {
    let principals = |run: &[Tagged]| run.iter().map(|item| tags(&item.tags, mesh)).collect::<Vec<_>>();
    match runs {
        [run] if counts(run) => principals(run),
        [] | [_] => Vec::new(),
        _ => {
            let (earlier, later) = runs.split_at(runs.len() / 2);
            let mut found = last_match(earlier, counts, mesh);
            let taken_back: Vec<_> = later.iter().filter(|run| !counts(run)).flat_map(|run| principals(run)).collect();
            if !found.is_empty() && !taken_back.is_empty() {
                found = vec![all_of(vec![one_of(found), not(one_of(taken_back))])];
            }
            found.extend(last_match(later, counts, mesh));
            found
        }
    }
}

/// Denials have a filter of their own, so that what Envoy says of a refused call names the policy.
fn rules(Rules { deny, shadow, allow }: &Rules) -> Vec<Checkpoint> {
    let mut checkpoints = Vec::new();
    let allowed = policies(shadow.iter().chain(allow));
    if !deny.is_empty() && !allowed.is_empty() {
        checkpoints.push(Checkpoint { rules: rbac(Effect::Deny, policies(deny)), shadow_rules: None });
    }
    let shadow_rules = (!shadow.is_empty()).then(|| rbac(Effect::Deny, policies(shadow)));
    checkpoints.push(Checkpoint { rules: rbac(Effect::Allow, allowed), shadow_rules });
    checkpoints
}

/// One for each policy and each server that it names.
fn policies<'a>(list: impl IntoIterator<Item = &'a Identified>) -> BTreeMap<String, Policy> {
    let mut policies: BTreeMap<String, Policy> = BTreeMap::new();
    for Identified { policy, identity, sni } in list {
        let (name, permission) = match sni {
            None => (policy.to_string(), any_server()),
            Some(sni) => (format!("{policy} for {sni}"), server(sni)),
        };
        let entry = policies.entry(name).or_default();
        entry.permissions = vec![permission];
        entry.principals.push(match identity {
            None => principal(Identifier::Any(true)),
            Some(Identity::Exact(value)) => uri(MatchPattern::Exact(value.clone())),
            Some(Identity::Prefix(value)) => uri(MatchPattern::Prefix(value.clone())),
        });
    }
    policies
}

fn rbac(effect: Effect, policies: BTreeMap<String, Policy>) -> Rbac {
    Rbac { action: effect.into(), policies, ..Rbac::default() }
}

fn any_server() -> Permission {
    Permission { rule: Some(permission::Rule::Any(true)) }
}

fn server(sni: &str) -> Permission {
    let exact = StringMatcher { match_pattern: Some(MatchPattern::Exact(sni.to_owned())), ..StringMatcher::default() };
    Permission { rule: Some(permission::Rule::RequestedServerName(exact)) }
}

/// Callers that have all of these tags; everybody when there are none.
fn tags(tags: &BTreeMap<String, String>, mesh: &str) -> Principal {
    let tag = |(key, value): (&String, &String)| match value.as_str() {
        "*" => {
            let regex = format!("{}[^/]+", regex_lite::escape(&tag_uri(mesh, key, "")));
            uri(MatchPattern::SafeRegex(RegexMatcher { regex, ..RegexMatcher::default() }))
        }
        value => uri(MatchPattern::Exact(tag_uri(mesh, key, value))),
    };
    let ids: Vec<Principal> = tags.iter().map(tag).collect();
    if ids.is_empty() { principal(Identifier::Any(true)) } else { all_of(ids) }
}

/// Callers of whose URIs one matches.
fn uri(pattern: MatchPattern) -> Principal {
    let matcher = StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() };
    principal(Identifier::Authenticated(Authenticated { principal_name: Some(matcher) }))
}

fn all_of(ids: Vec<Principal>) -> Principal {
    only(ids).unwrap_or_else(|ids| principal(Identifier::AndIds(Set { ids })))
}

fn one_of(ids: Vec<Principal>) -> Principal {
    only(ids).unwrap_or_else(|ids| principal(Identifier::OrIds(Set { ids })))
}

fn only(ids: Vec<Principal>) -> Result<Principal, Vec<Principal>> {
    <[Principal; 1]>::try_from(ids).map(|[id]| id)
}

fn not(id: Principal) -> Principal {
    principal(Identifier::NotId(Box::new(id)))
}

fn principal(identifier: Identifier) -> Principal {
    Principal { identifier: Some(identifier) }
}

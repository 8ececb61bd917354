//! Generates the RBAC filters that enforce the permissions of an inbound.
//!
//! Callers are matched by principals, for SPIFFE IDs too. Envoy's matchers could name the policy of each match, but
//! their input joins all URIs of a certificate with commas: `spiffe://mesh/web,kuma://env/dev` is not exactly
//! `spiffe://mesh/web`. A principal matches each URI separately.

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

use kodiak_model::spiffe;

use super::permissions::{Form, Identified, Identity, Rules, Tagged};
use super::{Action, Permissions};
use crate::Entry;
use crate::caller_uris;
use crate::order::{HttpStep, NetworkStep};
use crate::target::{Carrier, Inbound};

/// Name of the single RBAC policy for `from`. Dashboards depend on it.
const FROM: &str = "MeshTrafficPermission";

/// Callers are identified by their certificates, so without mTLS all callers are allowed.
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
    /// For HTTP inbounds: responds to denied requests with 403. They come first.
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

    /// For all other inbounds: closes a denied connection when it sends its first byte. They come first.
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

    /// Whether the listener needs the TLS inspector, to match on SNI.
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

/// One RBAC filter, for HTTP or for connections.
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

/// Principals that together match the callers whose last matching item is in a run that `counts` accepts.
///
/// The list is split in halves: the second half overrides the first. So each item occurs at most once per split, and
/// principals nest no deeper than the number of splits: Envoy's parser limits nesting.
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

/// Denials have their own filter, so that Envoy's response details name the policy.
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

/// One for each policy and each SNI that it names.
fn policies<'a>(list: impl IntoIterator<Item = &'a Identified>) -> BTreeMap<String, Policy> {
    let mut policies: BTreeMap<String, Policy> = BTreeMap::new();
    for Identified { policy, identity, sni } in list {
        let (name, permission) = match sni {
            None => (policy.to_string(), any_server()),
            Some(sni) => (format!("{policy} for {sni}"), server(sni)),
        };
        let entry = policies.entry(name).or_default();
        entry.permissions = vec![permission];
        match identity {
            None => entry.principals.push(principal(Identifier::Any(true))),
            Some(Identity::Exact(value)) => entry.principals.push(uri(MatchPattern::Exact(value.clone()))),
            Some(Identity::Prefix(value)) => entry
                .principals
                .extend([uri(MatchPattern::Exact(value.clone())), uri(MatchPattern::Prefix(spiffe::below(value)))]),
        }
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

/// Callers that have all of these tags; all callers when there are none.
fn tags(tags: &BTreeMap<String, String>, mesh: &str) -> Principal {
    let tag = |(key, value): (&String, &String)| match value.as_str() {
        "*" => {
            let regex = format!("{}[^/]+", regex_lite::escape(&caller_uris::of_tag(mesh, key, "")));
            uri(MatchPattern::SafeRegex(RegexMatcher { regex, ..RegexMatcher::default() }))
        }
        value => uri(MatchPattern::Exact(caller_uris::of_tag(mesh, key, value))),
    };
    let ids: Vec<Principal> = tags.iter().map(tag).collect();
    if ids.is_empty() { principal(Identifier::Any(true)) } else { all_of(ids) }
}

/// Callers with a matching URI SAN.
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

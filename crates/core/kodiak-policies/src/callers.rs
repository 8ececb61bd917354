//! Routes that depend on the caller, for policies whose `rules` have matches.
//!
//! A network filter stores the URIs and SNI of the caller's connection in the filter state; routes match on them.
//! Routes with more specific matches come first, so that each caller gets the most specific conf.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use kodiak_envoy::any;
use kodiak_envoy::envoy::config::core::v3::{
    DataSource, SubstitutionFormatString, data_source, substitution_format_string,
};
use kodiak_envoy::envoy::config::listener::v3::{Filter, filter};
use kodiak_envoy::envoy::config::route::v3::{Route, route};
use kodiak_envoy::envoy::extensions::filters::common::set_filter_state::v3::{FilterStateValue, filter_state_value};
use kodiak_envoy::envoy::extensions::filters::network::set_filter_state::v3::Config;
use kodiak_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use kodiak_envoy::envoy::r#type::matcher::v3::{FilterStateMatcher, RegexMatcher, StringMatcher, filter_state_matcher};
use kodiak_model::policy::{self, Conf};
use kodiak_model::source_match::{Match, SpiffeIdMatchType};
use kodiak_model::spiffe;

use crate::caller_uris;
use crate::order::NetworkStep;
use crate::target::Http;
use crate::{Entry, Source};

/// Names of a policy's entries in the filter state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys {
    pub(crate) spiffe_id: &'static str,
    pub(crate) sni: &'static str,
}

/// More specific callers are greater.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Caller {
    identity: Option<Identity>,
    sni: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    /// A longer prefix is greater: its length comes first.
    Prefix(usize, String),
    Exact(String),
}

/// A set of callers and their merged conf.
pub(crate) struct Group {
    caller: Caller,
    pub(crate) conf: Conf,
}

/// The sets of callers that entries distinguish, most specific first. For any two groups there is a group for their
/// intersection, so that the first group that matches a caller is the most specific.
pub(crate) fn groups(entries: &[Entry], everybody: &Conf) -> Vec<Group> {
    let mut rules = Vec::new();
    for entry in entries {
        let Source::Matches(matches) = &entry.source else { continue };
        rules.extend(matches.iter().map(|one| (Caller::of(one), &entry.conf)));
    }
    rules.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut callers: BTreeSet<Reverse<Caller>> = BTreeSet::new();
    for (one, _) in &rules {
        callers.extend(rules.iter().filter_map(|(other, _)| one.and(other)).map(Reverse));
    }
    let said = |caller: &Caller| {
        let confs = rules.iter().filter(|(rule, _)| rule.and(caller).as_ref() == Some(caller)).map(|(_, conf)| *conf);
        policy::merge(std::iter::once(everybody).chain(confs))
    };
    callers.into_iter().map(|Reverse(caller)| Group { conf: said(&caller), caller }).collect()
}

pub(crate) fn need_sni(groups: &[Group]) -> bool {
    groups.iter().any(|group| group.caller.sni.is_some())
}

/// Adds a copy of each route for each of the groups, which `change` changes.
pub(crate) fn add_routes(groups: &[Group], keys: Keys, http: &mut Http, change: impl Fn(&Group, &mut Route)) {
    if groups.is_empty() {
        return;
    }
    http.network_filters.push((NetworkStep::Caller, note(groups, keys)));
    for original in std::mem::take(&mut http.routes) {
        http.routes.extend(groups.iter().filter_map(|group| group.route(&original, keys, &change)));
        http.routes.push(original);
    }
}

impl Group {
    /// `None` for a route that does not forward to a cluster.
    fn route(&self, original: &Route, keys: Keys, change: impl Fn(&Self, &mut Route)) -> Option<Route> {
        let Caller { identity, sni } = &self.caller;
        let Some(route::Action::Route(_)) = &original.action else { return None };
        let mut copy = original.clone();
        change(self, &mut copy);
        let identity = identity.as_ref().map(|identity| asks(keys.spiffe_id, identity.pattern()));
        let sni = sni.as_ref().map(|sni| asks(keys.sni, MatchPattern::Exact(sni.clone())));
        copy.r#match.get_or_insert_default().filter_state.extend(identity.into_iter().chain(sni));
        Some(copy)
    }
}

impl Caller {
    fn of(one: &Match) -> Self {
        let identity = one.spiffe_id.as_ref().map(|id| {
            let value = id.value.clone().unwrap_or_default();
            if id.match_type.as_ref().is_some_and(|one| one.is(SpiffeIdMatchType::Prefix)) {
                Identity::Prefix(value.len(), value)
            } else {
                Identity::Exact(value)
            }
        });
        Self { identity, sni: one.sni.as_ref().and_then(|sni| sni.value.clone()) }
    }

    /// Intersection of two sets of callers. `None` when it is empty.
    fn and(&self, other: &Self) -> Option<Self> {
        let (wide, narrow) = if self.identity <= other.identity { (self, other) } else { (other, self) };
        let identity = match (&wide.identity, &narrow.identity) {
            (Some(wide), Some(narrow)) if !wide.includes(narrow) => return None,
            (_, narrow) => narrow.clone(),
        };
        let sni = match (&self.sni, &other.sni) {
            (Some(one), Some(other)) if one != other => return None,
            (one, other) => one.clone().or_else(|| other.clone()),
        };
        Some(Self { identity, sni })
    }
}

impl Identity {
    fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Prefix(_, prefix), Self::Prefix(_, value) | Self::Exact(value)) => spiffe::has_prefix(value, prefix),
            (Self::Exact(one), Self::Exact(other)) => one == other,
            (Self::Exact(_), Self::Prefix(..)) => false,
        }
    }

    fn pattern(&self) -> MatchPattern {
        let regex = match self {
            Self::Prefix(_, value) => caller_uris::prefix(value),
            Self::Exact(value) => caller_uris::exact(value),
        };
        MatchPattern::SafeRegex(RegexMatcher { regex, ..RegexMatcher::default() })
    }
}

fn asks(key: &str, pattern: MatchPattern) -> FilterStateMatcher {
    let matcher = StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() };
    FilterStateMatcher { key: key.to_owned(), matcher: Some(filter_state_matcher::Matcher::StringMatch(matcher)) }
}

fn note(groups: &[Group], keys: Keys) -> Filter {
    let identity = groups.iter().any(|group| group.caller.identity.is_some());
    let noted = [
        identity.then(|| noted(keys.spiffe_id, "%DOWNSTREAM_PEER_URI_SAN%")),
        need_sni(groups).then(|| noted(keys.sni, "%REQUESTED_SERVER_NAME%")),
    ];
    let config = Config { on_downstream_tls_handshake: noted.into_iter().flatten().collect(), ..Config::default() };
    Filter {
        name: "envoy.filters.network.set_filter_state".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(any(&config))),
    }
}

fn noted(key: &str, format: &str) -> FilterStateValue {
    let text = DataSource {
        specifier: Some(data_source::Specifier::InlineString(format.to_owned())),
        ..DataSource::default()
    };
    let format = SubstitutionFormatString {
        omit_empty_values: true,
        format: Some(substitution_format_string::Format::TextFormatSource(text)),
        ..SubstitutionFormatString::default()
    };
    FilterStateValue {
        key: Some(filter_state_value::Key::ObjectKey(key.to_owned())),
        factory_key: "envoy.string".to_owned(),
        value: Some(filter_state_value::Value::FormatString(format)),
        skip_if_empty: true,
        ..FilterStateValue::default()
    }
}

#[cfg(test)]
mod tests;

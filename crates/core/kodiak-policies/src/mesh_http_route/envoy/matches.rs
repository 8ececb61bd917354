//! Converts matches to Envoy's route matches, and orders them by specificity.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use kodiak_envoy::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use kodiak_envoy::envoy::config::route::v3::query_parameter_matcher::QueryParameterMatchSpecifier;
use kodiak_envoy::envoy::config::route::v3::route_match::PathSpecifier;
use kodiak_envoy::envoy::config::route::v3::{HeaderMatcher, QueryParameterMatcher, RouteMatch};
use kodiak_envoy::envoy::r#type::matcher::v3::StringMatcher;
use kodiak_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use kodiak_model::Choice;

use crate::header::{HeaderMatch, HeaderMatchType};
use crate::mesh_http_route::{Match, PathMatch, PathMatchType, QueryParamsMatch, QueryParamsMatchType};

/// More specific matches come first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    path: PathRank,
    any_method: bool,
    headers: Reverse<usize>,
    query_params: Reverse<usize>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PathRank {
    Exact,
    /// By length.
    Prefix(Reverse<usize>),
    Regex(Reverse<usize>),
    Any,
}

pub(super) fn rank(one: &Match) -> Rank {
    let Match { path, method, query_params, headers } = one;
    let path = match path.as_ref().and_then(|path| Some((path_type(path)?, Reverse(path.value.len())))) {
        Some((PathMatchType::Exact, _)) => PathRank::Exact,
        Some((PathMatchType::PathPrefix, length)) => PathRank::Prefix(length),
        Some((PathMatchType::RegularExpression, length)) => PathRank::Regex(length),
        None => PathRank::Any,
    };
    Rank {
        path,
        any_method: method.is_none(),
        headers: Reverse(headers.iter().flatten().count()),
        query_params: Reverse(query_params.iter().flatten().count()),
    }
}

/// Whether it matches every request, like the last route of every destination.
pub(super) fn is_catch_all(one: &Match) -> bool {
    let Match { path, method, query_params, headers } = one;
    let is_root = |path: &PathMatch| path_type(path) == Some(PathMatchType::PathPrefix) && path.value == "/";
    path.as_ref().is_some_and(is_root)
        && method.is_none()
        && query_params.iter().flatten().count() == 0
        && headers.iter().flatten().count() == 0
}

/// Route matches that together match the requests of `one`. A prefix needs two: `/a` itself, and paths below `/a/`.
pub(super) fn of(one: &Match) -> Vec<RouteMatch> {
    let Match { path, method, query_params, headers } = one;
    let method = method.as_ref().map(|method| HeaderMatcher {
        name: ":method".to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(exact(method.as_str()))),
        ..HeaderMatcher::default()
    });
    let headers = first_of_each(headers.iter().flatten(), |header| &header.name);
    let query_params = first_of_each(query_params.iter().flatten(), |param| &param.name);
    let rest = RouteMatch {
        headers: method.into_iter().chain(headers.into_iter().map(header)).collect(),
        query_parameters: query_params.into_iter().map(query_param).collect(),
        ..RouteMatch::default()
    };
    let with = |path| RouteMatch { path_specifier: Some(path), ..rest.clone() };
    paths(path.as_ref()).into_iter().map(with).collect()
}

fn paths(path: Option<&PathMatch>) -> Vec<PathSpecifier> {
    let Some(path) = path else { return vec![PathSpecifier::Prefix("/".to_owned())] };
    let value = path.value.clone();
    match path_type(path) {
        Some(PathMatchType::Exact) => vec![PathSpecifier::Path(value)],
        Some(PathMatchType::PathPrefix) if value == "/" => vec![PathSpecifier::Prefix(value)],
        Some(PathMatchType::PathPrefix) => {
            let below = PathSpecifier::Prefix(format!("{value}/"));
            vec![PathSpecifier::Path(value), below]
        }
        Some(PathMatchType::RegularExpression) => vec![PathSpecifier::SafeRegex(crate::regex::matcher(&value))],
        None => Vec::new(),
    }
}

pub(super) fn path_type(path: &PathMatch) -> Option<PathMatchType> {
    path.match_type.as_ref().and_then(Choice::known)
}

/// Later items with the same name have no effect.
pub(super) fn first_of_each<'a, T>(
    items: impl Iterator<Item = &'a T>,
    name: impl Fn(&'a T) -> &'a String,
) -> Vec<&'a T> {
    let mut seen = BTreeSet::new();
    items.filter(|item| seen.insert(name(item))).collect()
}

fn header(written: &HeaderMatch) -> HeaderMatcher {
    let HeaderMatch { match_type, name, value } = written;
    let specifier = match match_type.as_ref().and_then(Choice::known).unwrap_or(HeaderMatchType::Exact) {
        HeaderMatchType::Exact => HeaderMatchSpecifier::StringMatch(exact(value)),
        HeaderMatchType::RegularExpression => HeaderMatchSpecifier::StringMatch(matching(value)),
        HeaderMatchType::Absent => HeaderMatchSpecifier::PresentMatch(false),
        HeaderMatchType::Prefix if !value.is_empty() => {
            HeaderMatchSpecifier::StringMatch(text(MatchPattern::Prefix(value.clone())))
        }
        HeaderMatchType::Present | HeaderMatchType::Prefix => HeaderMatchSpecifier::PresentMatch(true),
    };
    HeaderMatcher { name: name.clone(), header_match_specifier: Some(specifier), ..HeaderMatcher::default() }
}

fn query_param(written: &QueryParamsMatch) -> QueryParameterMatcher {
    let QueryParamsMatch { match_type, name, value } = written;
    let matcher = match match_type.as_ref().and_then(Choice::known).unwrap_or(QueryParamsMatchType::Exact) {
        QueryParamsMatchType::Exact => exact(value),
        QueryParamsMatchType::RegularExpression => matching(value),
    };
    let specifier = Some(QueryParameterMatchSpecifier::StringMatch(matcher));
    QueryParameterMatcher { name: name.clone(), query_parameter_match_specifier: specifier }
}

fn exact(value: &str) -> StringMatcher {
    text(MatchPattern::Exact(value.to_owned()))
}

/// Matches the whole text. Envoy rejects an empty expression, which would match only the empty text.
fn matching(value: &str) -> StringMatcher {
    if value.is_empty() { exact("") } else { text(MatchPattern::SafeRegex(crate::regex::matcher(value))) }
}

fn text(pattern: MatchPattern) -> StringMatcher {
    StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() }
}

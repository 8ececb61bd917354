//! Route matches.

use kodiak_envoy::envoy::config::route::v3::query_parameter_matcher::QueryParameterMatchSpecifier;
use kodiak_envoy::envoy::config::route::v3::route_match::PathSpecifier;
use kodiak_envoy::envoy::config::route::v3::{QueryParameterMatcher, RouteMatch};

use super::rbac::Seen;
use super::refusal::{Refusal, refuse_if};
use super::request::Request;
use super::{header_match, strings};

pub(super) fn matches(route: &RouteMatch, request: &Request, seen: Seen<'_>) -> Result<bool, Refusal> {
    refuse_if(route.runtime_fraction.is_some(), "routes for a share of requests")?;
    refuse_if(!route.cookies.is_empty(), "routes by cookies")?;
    let other = route.tls_context.is_some() || !route.dynamic_metadata.is_empty() || !route.filter_state.is_empty();
    refuse_if(other, "routes by TLS, metadata or filter state")?;
    if matched_path(route, request)?.is_none() {
        return Ok(false);
    }
    if route.grpc.is_some() {
        let content = request.value("content-type")?.unwrap_or_default();
        if content != "application/grpc" && !content.starts_with("application/grpc+") {
            return Ok(false);
        }
    }
    for matcher in &route.headers {
        if !header_match::matches(matcher, &request.values(&matcher.name, seen.scheme())?)? {
            return Ok(false);
        }
    }
    for matcher in &route.query_parameters {
        if !parameter(matcher, request.query())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Length of the matched prefix of the path, which a prefix rewrite replaces.
pub(super) fn matched_path(route: &RouteMatch, request: &Request) -> Result<Option<usize>, Refusal> {
    let ignore_case = route.case_sensitive == Some(false);
    let fold = |text: &str| if ignore_case { text.to_ascii_lowercase() } else { text.to_owned() };
    let path = request.path_without_query();
    let starts = |prefix: &str| fold(path).starts_with(&fold(prefix));
    match &route.path_specifier {
        Some(PathSpecifier::Prefix(prefix)) => Ok(starts(prefix).then_some(prefix.len())),
        Some(PathSpecifier::Path(exact)) => Ok((fold(path) == fold(exact)).then_some(path.len())),
        Some(PathSpecifier::SafeRegex(regex)) => Ok(strings::matches_whole(regex, path)?.then_some(path.len())),
        Some(PathSpecifier::PathSeparatedPrefix(prefix)) => {
            let ends = path.get(prefix.len()..).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            Ok((starts(prefix) && ends).then_some(prefix.len()))
        }
        Some(PathSpecifier::ConnectMatcher(_) | PathSpecifier::PathMatchPolicy(_)) | None => {
            Err(Refusal::unsupported(format!("the path match {:?}", route.path_specifier)))
        }
    }
}

/// Values are compared without decoding; the first of several is used.
fn parameter(matcher: &QueryParameterMatcher, query: &str) -> Result<bool, Refusal> {
    let parameters = query.trim_start_matches('?').split('&').filter(|parameter| !parameter.is_empty());
    let pairs = parameters.map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")));
    let found = pairs.filter(|(name, _)| *name == matcher.name).map(|(_, value)| value).next();
    match &matcher.query_parameter_match_specifier {
        Some(QueryParameterMatchSpecifier::PresentMatch(wanted)) => Ok(found.is_some() == *wanted),
        Some(QueryParameterMatchSpecifier::StringMatch(matcher)) => {
            found.map_or(Ok(false), |value| strings::matches(matcher, value))
        }
        None => Ok(found.is_some()),
    }
}

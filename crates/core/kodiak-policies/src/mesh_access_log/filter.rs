//! Filters: which requests a logger logs.

use kodiak_envoy::any;
use kodiak_envoy::envoy::config::accesslog::v3::access_log_filter::FilterSpecifier;
use kodiak_envoy::envoy::config::accesslog::v3::{AccessLogFilter, ExtensionFilter, MetadataFilter, extension_filter};
use kodiak_envoy::envoy::extensions::access_loggers::filters::cel::v3::ExpressionFilter;
use kodiak_envoy::envoy::r#type::matcher::v3::metadata_matcher::{PathSegment, path_segment};
use kodiak_envoy::envoy::r#type::matcher::v3::value_matcher::{MatchPattern, NullMatch};
use kodiak_envoy::envoy::r#type::matcher::v3::{MetadataMatcher, ValueMatcher};
use kodiak_model::source_match::{Match, SpiffeIdMatchType};

/// Requests of callers that one of the matches matches. `Some(None)` for all callers, `None` for no caller.
#[expect(clippy::option_option, reason = "no filter and no logger are different")]
pub(super) fn of_callers(matches: &[Match], mtls: bool) -> Option<Option<AccessLogFilter>> {
    if matches.is_empty() {
        return Some(None);
    }
    // Without mTLS no caller has an identity.
    let possible = matches.iter().filter(|one| mtls || one.spiffe_id.is_none());
    let terms: Vec<String> = possible.map(caller).collect();
    match terms.as_slice() {
        [] => None,
        terms if terms.iter().any(String::is_empty) => Some(None),
        [term] => Some(Some(expression(term.clone()))),
        terms => {
            let terms: Vec<_> = terms.iter().map(|term| format!("({term})")).collect();
            Some(Some(expression(terms.join(" || "))))
        }
    }
}

/// Empty if it matches all callers.
fn caller(one: &Match) -> String {
    const IDENTITY: &str = "connection.uri_san_peer_certificate";
    let identity = one.spiffe_id.as_ref().map(|id| {
        let value = id.value.as_deref().unwrap_or_default();
        if id.match_type.as_ref().is_some_and(|one| one.is(SpiffeIdMatchType::Prefix)) {
            // `spiffe://mesh/web` is no prefix of `spiffe://mesh/web-2`.
            let below = quoted(&format!("{}/", value.trim_end_matches('/')));
            format!("({IDENTITY} == {} || {IDENTITY}.startsWith({below}))", quoted(value.trim_end_matches('/')))
        } else {
            format!("{IDENTITY} == {}", quoted(value))
        }
    });
    let sni = one.sni.as_ref().map(|sni| {
        let value = sni.value.as_deref().unwrap_or_default();
        format!("connection.requested_server_name == {}", quoted(value))
    });
    identity.into_iter().chain(sni).collect::<Vec<_>>().join(" && ")
}

/// Requests that a route with this name routes.
pub(super) fn route(name: &str) -> AccessLogFilter {
    expression(format!("xds.route_name == {}", quoted(name)))
}

/// Requests that none of these routes routes, and those without a route.
pub(super) fn other_routes<'a>(names: impl Iterator<Item = &'a &'a str>) -> AccessLogFilter {
    let names: Vec<_> = names.map(|name| quoted(name)).collect();
    expression(format!("!has(xds.route_name) || !(xds.route_name in [{}])", names.join(", ")))
}

/// Requests whose route has no logs of its own, as Kuma marks them. All of them, if no route has.
pub(super) fn no_route_of_its_own() -> AccessLogFilter {
    let segment = PathSegment { segment: Some(path_segment::Segment::Key("route_kri".to_owned())) };
    let matcher = MetadataMatcher {
        filter: "kuma.routes".to_owned(),
        path: vec![segment],
        value: Some(ValueMatcher { match_pattern: Some(MatchPattern::NullMatch(NullMatch::default())) }),
        ..MetadataMatcher::default()
    };
    let filter = MetadataFilter { matcher: Some(matcher), match_if_key_not_found: Some(true) };
    AccessLogFilter { filter_specifier: Some(FilterSpecifier::MetadataFilter(filter)) }
}

fn expression(expression: String) -> AccessLogFilter {
    let config = any(&ExpressionFilter { expression, ..ExpressionFilter::default() });
    let filter = ExtensionFilter {
        name: "envoy.access_loggers.extension_filters.cel".to_owned(),
        config_type: Some(extension_filter::ConfigType::TypedConfig(config)),
    };
    AccessLogFilter { filter_specifier: Some(FilterSpecifier::ExtensionFilter(filter)) }
}

/// A string of CEL.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

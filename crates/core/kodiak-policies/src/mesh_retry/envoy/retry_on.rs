//! Converts retry conditions to Envoy's.

use kodiak_envoy::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use kodiak_envoy::envoy::config::route::v3::{HeaderMatcher, RetryPolicy};
use kodiak_envoy::envoy::r#type::matcher::v3::StringMatcher;
use kodiak_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use kodiak_model::Choice;

use crate::header::{HeaderMatch, HeaderMatchType};
use crate::mesh_retry::GrpcRetryOn;

const HTTP: &str = "gateway-error,connect-failure,refused-stream";
const GRPC: &str = "cancelled,connect-failure,gateway-error,refused-stream,reset,resource-exhausted,unavailable";

/// Statuses, headers and methods have their own fields. Envoy evaluates statuses and headers only with the matching
/// condition. Only the other conditions of `retryOn` replace the default ones: a policy that lists statuses adds them.
pub(super) fn http(
    mut policy: RetryPolicy,
    retry_on: &[String],
    response_headers: &[HeaderMatch],
    request_headers: &[HeaderMatch],
) -> RetryPolicy {
    let mut conditions: Vec<&str> = Vec::new();
    for written in retry_on {
        if let Some(method) = written.strip_prefix("HttpMethod") {
            let exact = MatchPattern::Exact(method.to_ascii_uppercase());
            policy.retriable_request_headers.push(text(":method", exact));
        } else if let Ok(status) = written.parse() {
            policy.retriable_status_codes.push(status);
        } else {
            conditions.extend(condition(written));
        }
    }
    policy.retriable_request_headers.extend(request_headers.iter().map(header));
    policy.retriable_headers = response_headers.iter().map(header).collect();
    if conditions.is_empty() {
        conditions.push(HTTP);
    }
    if !policy.retriable_status_codes.is_empty() {
        conditions.push("retriable-status-codes");
    }
    if !policy.retriable_headers.is_empty() {
        conditions.push("retriable-headers");
    }
    policy.retry_on = conditions.join(",");
    policy
}

/// `None` for conditions that validation rejects.
fn condition(written: &str) -> Option<&'static str> {
    Some(match written {
        "5xx" => "5xx",
        "GatewayError" => "gateway-error",
        "Reset" => "reset",
        "Retriable4xx" => "retriable-4xx",
        "ConnectFailure" => "connect-failure",
        "EnvoyRatelimited" => "envoy-ratelimited",
        "RefusedStream" => "refused-stream",
        "Http3PostConnectFailure" => "http3-post-connect-failure",
        _ => return None,
    })
}

pub(super) fn grpc(retry_on: &[Choice<GrpcRetryOn>]) -> String {
    let status = |status: GrpcRetryOn| match status {
        GrpcRetryOn::Canceled => "cancelled",
        GrpcRetryOn::DeadlineExceeded => "deadline-exceeded",
        GrpcRetryOn::Internal => "internal",
        GrpcRetryOn::ResourceExhausted => "resource-exhausted",
        GrpcRetryOn::Unavailable => "unavailable",
    };
    let statuses: Vec<_> = retry_on.iter().filter_map(Choice::known).map(status).collect();
    if statuses.is_empty() { GRPC.to_owned() } else { statuses.join(",") }
}

fn header(HeaderMatch { match_type, name, value }: &HeaderMatch) -> HeaderMatcher {
    let value = value.clone();
    match match_type.as_ref().and_then(Choice::known) {
        Some(HeaderMatchType::Present) => matcher(name, HeaderMatchSpecifier::PresentMatch(true)),
        Some(HeaderMatchType::Absent) => matcher(name, HeaderMatchSpecifier::PresentMatch(false)),
        Some(HeaderMatchType::RegularExpression) => text(name, MatchPattern::SafeRegex(crate::regex::matcher(&value))),
        // Envoy rejects an empty prefix, which matches every value.
        Some(HeaderMatchType::Prefix) if value.is_empty() => matcher(name, HeaderMatchSpecifier::PresentMatch(true)),
        Some(HeaderMatchType::Prefix) => text(name, MatchPattern::Prefix(value)),
        Some(HeaderMatchType::Exact) | None => text(name, MatchPattern::Exact(value)),
    }
}

fn text(name: &str, pattern: MatchPattern) -> HeaderMatcher {
    let pattern = StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() };
    matcher(name, HeaderMatchSpecifier::StringMatch(pattern))
}

fn matcher(name: &str, specifier: HeaderMatchSpecifier) -> HeaderMatcher {
    HeaderMatcher { name: name.to_owned(), header_match_specifier: Some(specifier), ..HeaderMatcher::default() }
}

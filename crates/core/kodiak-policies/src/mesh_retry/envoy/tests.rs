//! Retry policies and back-off.

use kodiak_envoy::envoy::config::route::v3::{RetryPolicy, route};
use kodiak_model::Protocol;

use crate::mesh_retry::Retries;
use crate::samples::{self, as_http, as_tcp, conf, for_all, http, outbound, redirect, route, tcp};
use crate::{Confs, target::Carrier};

fn of_route(carrier: &Carrier, n: usize) -> Option<RetryPolicy> {
    match &as_http(carrier).routes[n].action {
        Some(route::Action::Route(action)) => action.retry_policy.clone(),
        _ => None,
    }
}

fn retries(protocol: Protocol, text: &str) -> Option<RetryPolicy> {
    of_route(&outbound(&Retries, &for_all(text), protocol, http(vec![route("")])), 0)
}

#[track_caller]
fn check(protocol: Protocol, text: &str, expected: &str) {
    samples::check(&retries(protocol, text).unwrap(), expected);
}

#[test]
fn num_retries_alone_uses_default_conditions() {
    check(
        Protocol::Http,
        "http: {numRetries: 2, perTryTimeout: 16s}",
        "{retry_on: 'gateway-error,connect-failure,refused-stream', num_retries: 2, per_try_timeout: 16s}",
    );
    check(
        Protocol::Grpc,
        "grpc: {numRetries: 2}",
        "
        retry_on: cancelled,connect-failure,gateway-error,refused-stream,reset,resource-exhausted,unavailable
        num_retries: 2
        ",
    );
}

#[test]
fn confs_of_other_protocols_are_ignored() {
    for (protocol, text) in [
        (Protocol::Http, "grpc: {numRetries: 2}"),
        (Protocol::Grpc, "http: {numRetries: 2}"),
        (Protocol::Http2, "{http: {numRetries: 2}, grpc: {numRetries: 2}}"),
        (Protocol::Http, "http: {numRetries: 0, retryOn: [5xx]}"),
    ] {
        assert_eq!(retries(protocol, text), None, "{text}");
    }
}

#[test]
fn back_off_grows_to_the_maximum() {
    check(
        Protocol::Http,
        "http: {retryOn: [5xx], backOff: {baseInterval: 3s, maxInterval: 4m}}",
        "{retry_on: 5xx, retry_back_off: {base_interval: 3s, max_interval: 240s}}",
    );
    check(
        Protocol::Http,
        "http: {retryOn: [5xx], backOff: {maxInterval: 1s}}",
        "{retry_on: 5xx, retry_back_off: {base_interval: 0.025s, max_interval: 1s}}",
    );
    check(
        Protocol::Http,
        "http: {retryOn: [5xx], backOff: {baseInterval: 3s, maxInterval: 1s}}",
        "{retry_on: 5xx, retry_back_off: {base_interval: 3s, max_interval: 3s}}",
    );
    check(Protocol::Http, "http: {retryOn: [5xx], backOff: {baseInterval: 0s}}", "retry_on: 5xx");
}

#[test]
fn rate_limited_back_off_reads_response_headers() {
    let headers = "[{name: retry-after, format: Seconds}, {name: x-reset, format: UnixTimestamp}]";
    check(
        Protocol::Grpc,
        &format!("grpc: {{retryOn: [Internal], rateLimitedBackOff: {{resetHeaders: {headers}}}}}"),
        "
        retry_on: internal
        rate_limited_retry_back_off:
          max_interval: 300s
          reset_headers: [{name: retry-after}, {name: x-reset, format: UNIX_TIMESTAMP}]
        ",
    );
    check(Protocol::Grpc, "grpc: {retryOn: [Internal], rateLimitedBackOff: {resetHeaders: []}}", "retry_on: internal");
}

#[test]
fn status_codes_and_methods_are_added_to_the_default_conditions() {
    check(
        Protocol::Http,
        "http: {retryOn: ['503']}",
        "{retry_on: 'gateway-error,connect-failure,refused-stream,retriable-status-codes', retriable_status_codes: [503]}",
    );
    check(
        Protocol::Http,
        "http: {retryOn: [HttpMethodGet]}",
        "
        retry_on: gateway-error,connect-failure,refused-stream
        retriable_request_headers: [{name: ':method', string_match: {exact: GET}}]
        ",
    );
}

#[test]
fn conditions_are_converted_to_envoys() {
    check(
        Protocol::Http,
        "
        http:
          retryOn:
          - 5xx
          - GatewayError
          - Reset
          - Retriable4xx
          - ConnectFailure
          - EnvoyRatelimited
          - RefusedStream
          - Http3PostConnectFailure
          - '429'
          - HttpMethodGet
        ",
        "
        retry_on: 5xx,gateway-error,reset,retriable-4xx,connect-failure,envoy-ratelimited,refused-stream,http3-post-connect-failure,retriable-status-codes
        retriable_status_codes: [429]
        retriable_request_headers: [{name: ':method', string_match: {exact: GET}}]
        ",
    );
    check(
        Protocol::Grpc,
        "grpc: {retryOn: [Canceled, DeadlineExceeded, Internal, ResourceExhausted, Unavailable]}",
        "retry_on: cancelled,deadline-exceeded,internal,resource-exhausted,unavailable",
    );
}

#[test]
fn methods_and_headers_narrow_default_conditions() {
    check(
        Protocol::Http,
        "
        http:
          retryOn: [HttpMethodPut]
          retriableRequestHeaders:
          - {name: x-a, value: v}
          - {name: x-b, type: Prefix, value: v}
          - {name: x-c, type: Prefix}
          - {name: x-d, type: RegularExpression, value: v+}
          - {name: x-e, type: Present}
          - {name: x-f, type: Absent}
        ",
        "
        retry_on: gateway-error,connect-failure,refused-stream
        retriable_request_headers:
        - {name: ':method', string_match: {exact: PUT}}
        - {name: x-a, string_match: {exact: v}}
        - {name: x-b, string_match: {prefix: v}}
        - {name: x-c, present_match: true}
        - {name: x-d, string_match: {safe_regex: {regex: v+}}}
        - {name: x-e, present_match: true}
        - {name: x-f, present_match: false}
        ",
    );
}

#[test]
fn response_headers_add_a_condition() {
    check(
        Protocol::Http,
        "http: {retryOn: [5xx], retriableResponseHeaders: [{name: x-again, type: Present}]}",
        "{retry_on: '5xx,retriable-headers', retriable_headers: [{name: x-again, present_match: true}]}",
    );
}

#[test]
fn host_selection_avoids_endpoints() {
    check(
        Protocol::Http,
        "
        http:
          retryOn: [5xx]
          hostSelectionMaxAttempts: 3
          hostSelection:
          - {predicate: OmitPreviousHosts}
          - {predicate: OmitHostsWithTags, tags: {env: dev}}
          - {predicate: OmitPreviousPriorities}
        ",
        r#"
        retry_on: 5xx
        host_selection_retry_max_attempts: 3
        retry_host_predicate:
        - name: envoy.retry_host_predicates.previous_hosts
          typed_config:
            "@type": type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate
        - name: envoy.retry_host_predicates.omit_host_metadata
          typed_config:
            "@type": type.googleapis.com/envoy.extensions.retry.host.omit_host_metadata.v3.OmitHostMetadataConfig
            metadata_match: {filter_metadata: {envoy.lb: {env: dev}}}
        retry_priority:
          name: envoy.retry_priorities.previous_priorities
          typed_config:
            "@type": type.googleapis.com/envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig
            update_frequency: 2
        "#,
    );
}

#[test]
fn route_conf_overrides_destination_conf() {
    let mut confs = for_all("http: {numRetries: 5}");
    confs.routes.insert("once".into(), conf("http: {numRetries: 1}"));
    confs.routes.insert("never".into(), conf("http: {numRetries: 0}"));
    let routes = ["once", "never", "other"].map(route).into_iter().chain([redirect("gone")]).collect();
    let carrier = outbound(&Retries, &confs, Protocol::Http, http(routes));
    let numbers: Vec<_> = (0..4).map(|n| of_route(&carrier, n).and_then(|policy| policy.num_retries)).collect();
    assert_eq!(numbers, [Some(1), None, Some(5), None]);
}

#[test]
fn tcp_connections_are_retried() {
    let attempts = |confs: &Confs| as_tcp(&outbound(&Retries, confs, Protocol::Tcp, tcp())).proxy.max_connect_attempts;
    assert_eq!(attempts(&for_all("tcp: {maxConnectAttempt: 5}")), Some(5));
    assert_eq!(attempts(&for_all("http: {numRetries: 5}")), None);
    assert_eq!(attempts(&Confs::default()), None);
}

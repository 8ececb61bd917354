//! Routes. Most behaviour is compared with Envoy itself; these tests cover the rest, which is not observable from
//! outside.

use std::time::Duration;

use super::*;
use crate::simulate::Mirror;

fn send(routes: &str, request: &Request) -> Result<Sent, Refusal> {
    http("", routes).outbound("10.0.0.1", 80, request, &plain())
}

#[test]
fn timeout_retry_and_mirrors_are_shown() {
    let routes = "
- name: shown
  match: {prefix: /}
  route:
    cluster: a
    timeout: 2.5s
    retry_policy: {retry_on: 5xx, num_retries: 3}
    request_mirror_policies:
    - {cluster: b}
    - {cluster: c, runtime_fraction: {default_value: {numerator: 25}}}
    - {cluster: d, runtime_fraction: {default_value: {numerator: 25, denominator: TEN_THOUSAND}}}
";
    let sent = send(routes, &get("/")).unwrap();
    assert_eq!(sent.route.as_ref().unwrap().name, "shown");
    let http = forwarded(Ok(sent)).http.unwrap();
    assert_eq!(http.timeout, Duration::from_millis(2500));
    assert_eq!(http.retry.unwrap().num_retries, Some(3));
    let mirror = |cluster: &str, per_million| Mirror { cluster: cluster.to_owned(), per_million };
    assert_eq!(http.mirrors, [mirror("b", 1_000_000), mirror("c", 250_000), mirror("d", 2_500)]);
    let silent = forwarded(send("- {match: {prefix: /}, route: {cluster: a}}", &get("/"))).http.unwrap();
    assert_eq!((silent.timeout, silent.retry), (Duration::from_secs(15), None));
}

#[test]
fn dice_select_by_weight() {
    let routes = "
- match: {prefix: /}
  route: {weighted_clusters: {clusters: [{name: a, weight: 1}, {name: none, weight: 0}, {name: b, weight: 2}]}}
";
    let chosen: Vec<String> = (0..6).map(|dice| forwarded(send(routes, &get("/").dice(dice))).cluster).collect();
    assert_eq!(chosen, ["a", "b", "b", "a", "b", "b"]);
}

#[test]
fn direct_responses_are_returned() {
    let routes = "- {match: {prefix: /}, direct_response: {status: 418, body: {inline_string: teapot}}}";
    let answer = send(routes, &get("/")).unwrap().answer;
    assert_eq!(answer, Answer::Responded { status: 418, body: "teapot".to_owned() });
    assert_eq!(send("", &get("/")), Err(Refusal::NoRoute));
    let bytes = http("", routes).outbound("10.0.0.1", 80, &Request::bytes(), &plain());
    assert_eq!(bytes, Err(Refusal::NotHttp { listener: "http".to_owned() }));
}

#[test]
fn unsupported_settings_that_change_the_result_are_reported() {
    let cases = [
        ("- {match: {prefix: /, cookies: [{name: a, string_match: {exact: b}}]}, route: {cluster: a}}", "cookies"),
        ("- {match: {prefix: /, runtime_fraction: {}}, route: {cluster: a}}", "a share of requests"),
        ("- {match: {connect_matcher: {}}, route: {cluster: a}}", "the path match"),
        ("- {match: {safe_regex: {regex: '\\C'}}, route: {cluster: a}}", "the regular expression"),
        ("- {match: {prefix: /}, non_forwarding_action: {}}", "the action of route"),
        (
            "- {match: {prefix: /}, route: {cluster: a}, request_headers_to_add: \
             [{header: {key: x, value: '%PROTOCOL%'}}]}",
            "the format of header x",
        ),
        (
            "- {match: {prefix: /}, route: {cluster: a}, typed_per_filter_config: \
             {rbac: {\"@type\": TYPE.filters.http.rbac.v3.RBACPerRoute}}}",
            "settings of a route for rbac",
        ),
    ];
    for (route, what) in cases {
        unsupported(send(route, &get("/")), what);
    }
    let script = r#"- {name: script, typed_config: {"@type": TYPE.filters.http.lua.v3.Lua}}"#;
    let proxy = http(script, "- {match: {prefix: /}, route: {cluster: a}}");
    unsupported(proxy.outbound("10.0.0.1", 80, &get("/"), &plain()), "the HTTP filter script");
    let twice = get("/").header("accept", "a").header("accept", "b");
    let by_header = "- {match: {prefix: /, headers: [{name: accept, string_match: {exact: a}}]}, route: {cluster: a}}";
    unsupported(send(by_header, &twice), "accept are joined");
}

#[test]
fn neutral_filters_are_skipped() {
    let filters = r#"
- {name: stats, typed_config: {"@type": TYPE.filters.http.grpc_stats.v3.FilterConfig}}
- {name: limit, typed_config: {"@type": TYPE.filters.http.local_ratelimit.v3.LocalRateLimit, stat_prefix: x}}
- {name: fault, typed_config: {"@type": TYPE.filters.http.fault.v3.HTTPFault}}
- {name: off, disabled: true, typed_config: {"@type": TYPE.filters.http.lua.v3.Lua}}
"#;
    let proxy = http(filters, "- {match: {prefix: /, grpc: {}}, route: {cluster: a}}");
    let grpc = get("/").header("content-type", "application/grpc+proto");
    assert_eq!(forwarded(proxy.outbound("10.0.0.1", 80, &grpc, &plain())).cluster, "a");
    assert_eq!(proxy.outbound("10.0.0.1", 80, &get("/"), &plain()), Err(Refusal::NoRoute));
}

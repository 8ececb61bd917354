//! Every caller gets the timeouts of the most specific rules.

use kodiak_envoy::envoy::config::route::v3::{Route, RouteAction, route};
use proptest::prelude::*;
use proptest::{collection::vec, option, sample::select};
use serde_json::json;

use super::{Entry, FilterStateMatcher, MatchPattern, NetworkStep, filter_state_matcher};
use crate::mesh_timeout::POLICY;
use crate::samples::{as_http, check, from, http, inbound, redirect, rule, tcp};

fn request(timeout: &str) -> String {
    format!("http: {{requestTimeout: {timeout}}}")
}

fn prefix(value: &str) -> String {
    format!("[{{spiffeID: {{type: Prefix, value: '{value}'}}}}]")
}

fn exact(value: &str) -> String {
    format!("[{{spiffeID: {{type: Exact, value: '{value}'}}}}]")
}

fn seconds(route: &Route) -> (i64, i64) {
    let Some(route::Action::Route(RouteAction { timeout, idle_timeout, .. })) = &route.action else { panic!() };
    (timeout.as_ref().unwrap().seconds, idle_timeout.as_ref().unwrap().seconds)
}

/// Evaluates routes for a caller's URIs and SNI: the first match wins.
fn first(routes: &[Route], uris: &str, sni: &str) -> (i64, i64) {
    let is = |asked: &FilterStateMatcher| {
        let Some(filter_state_matcher::Matcher::StringMatch(matcher)) = &asked.matcher else { panic!() };
        let text = if asked.key.ends_with(".spiffe_id") { uris } else { sni };
        match matcher.match_pattern.as_ref().unwrap() {
            MatchPattern::Exact(value) => value == text,
            MatchPattern::SafeRegex(regex) => {
                regex_lite::Regex::new(&format!("^(?:{})$", regex.regex)).unwrap().is_match(text)
            }
            other => panic!("{other:?}"),
        }
    };
    let found = routes.iter().find(|route| route.r#match.as_ref().unwrap().filter_state.iter().all(is));
    seconds(found.unwrap())
}

#[test]
fn routes_match_on_the_callers_filter_state() {
    let entries = [
        from("http: {streamIdleTimeout: 9s}"),
        rule(
            "[{spiffeID: {type: Prefix, value: 'spiffe://a.b/x'}, sni: {type: Exact, value: x.mesh}}]",
            &request("3s"),
        ),
    ];
    let served = inbound(POLICY.unwrap(), &entries, &http(vec![redirect("gone"), crate::samples::route("here")]));
    assert!(served.inspects_tls);
    let plain = as_http(&served.chains[0].carrier);
    assert!(plain.network_filters.is_empty());
    assert_eq!(plain.routes.len(), 2);
    let mtls = as_http(&served.chains[1].carrier);
    let names: Vec<_> = mtls.routes.iter().map(|route| route.name.as_str()).collect();
    assert_eq!(names, ["gone", "here", "here"]);
    check(
        &mtls.routes[1],
        r"
        name: here
        match:
          prefix: /
          filter_state:
          - {key: kuma.mesh_timeout.match.spiffe_id, string_match: {safe_regex: {regex: '(.*,)?spiffe://a\.b/x([/,].*)?'}}}
          - {key: kuma.mesh_timeout.match.sni, string_match: {exact: x.mesh}}
        route: {cluster: backend, timeout: 3s, idle_timeout: 9s}
        ",
    );
    assert_eq!(seconds(&mtls.routes[2]), (15, 9));
    let [(NetworkStep::Caller, filter)] = mtls.network_filters.as_slice() else { panic!() };
    check(
        filter,
        r#"
        name: envoy.filters.network.set_filter_state
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.set_filter_state.v3.Config
          on_downstream_tls_handshake:
          - object_key: kuma.mesh_timeout.match.spiffe_id
            factory_key: envoy.string
            skip_if_empty: true
            format_string: {omit_empty_values: true, text_format_source: {inline_string: "%DOWNSTREAM_PEER_URI_SAN%"}}
          - object_key: kuma.mesh_timeout.match.sni
            factory_key: envoy.string
            skip_if_empty: true
            format_string: {omit_empty_values: true, text_format_source: {inline_string: "%REQUESTED_SERVER_NAME%"}}
        "#,
    );
}

#[test]
fn most_specific_rule_wins_and_others_fill_gaps() {
    let asked = "[{sni: {type: Exact, value: x.mesh}}]";
    let entries = [
        rule(&exact("spiffe://m/ns/web"), &request("1s")),
        rule(&prefix("spiffe://m/ns"), "http: {requestTimeout: 2s, streamIdleTimeout: 20s}"),
        rule(&prefix("spiffe://m"), "http: {requestTimeout: 3s, streamIdleTimeout: 30s}"),
        rule(asked, "http: {requestTimeout: 4s, streamIdleTimeout: 40s}"),
        rule("[]", &request("5s")),
    ];
    let served = inbound(POLICY.unwrap(), &entries, &http(vec![crate::samples::route("")]));
    let routes = &as_http(&served.chains[1].carrier).routes;
    for (uris, sni, expected) in [
        ("spiffe://m/ns/web", "", (1, 20)),
        ("spiffe://m/ns/web,kuma://env/dev", "", (1, 20)),
        ("kuma://env/dev,spiffe://m/ns/web", "x.mesh", (1, 20)),
        ("spiffe://m/ns/web2", "", (2, 20)),
        ("spiffe://m/other", "x.mesh", (3, 30)),
        ("spiffe://n/other", "x.mesh", (4, 40)),
        ("spiffe://n/other", "y.mesh", (5, 1800)),
    ] {
        assert_eq!(first(routes, uris, sni), expected, "{uris} {sni}");
    }
}

#[test]
fn later_rule_wins_for_the_same_callers() {
    let entries = [rule(&exact("spiffe://m/a"), &request("1s")), rule(&exact("spiffe://m/a"), &request("2s"))];
    let served = inbound(POLICY.unwrap(), &entries, &http(vec![crate::samples::route("")]));
    let routes = &as_http(&served.chains[1].carrier).routes;
    assert_eq!(routes.len(), 2);
    assert_eq!(seconds(&routes[0]), (2, 1800));
    assert!(!served.inspects_tls);
}

#[test]
fn tcp_inbounds_ignore_rules_for_some_callers() {
    let served = inbound(POLICY.unwrap(), &[rule(&exact("spiffe://m/a"), &request("1s"))], &tcp());
    assert!(served.chains.iter().all(|chain| chain.carrier == tcp()));
}

/// A rule: SPIFFE ID and whether it is a prefix, SNI, and the two timeouts in seconds.
type Rule = (Option<(&'static str, bool)>, Option<&'static str>, Option<u8>, Option<u8>);

const IDS: &[&str] = &["spiffe://m", "spiffe://m/a", "spiffe://m/a/b", "spiffe://n/a"];
const NAMES: &[&str] = &["x.mesh", "y.mesh"];

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let seconds = || option::of(1..100_u8);
    let rule = (option::of((select(IDS), any::<bool>())), option::of(select(NAMES)), seconds(), seconds());
    vec(rule.prop_filter("asks for something", |(id, sni, ..)| id.is_some() || sni.is_some()), 0..6)
}

fn entry((id, sni, request, idle): &Rule) -> Entry {
    let kind = |is_prefix| if is_prefix { "Prefix" } else { "Exact" };
    let mut one = json!({});
    if let Some((value, is_prefix)) = *id {
        one["spiffeID"] = json!({ "type": kind(is_prefix), "value": value });
    }
    if let Some(value) = sni {
        one["sni"] = json!({ "type": "Exact", "value": value });
    }
    let mut http = json!({});
    for (field, seconds) in [("requestTimeout", request), ("streamIdleTimeout", idle)] {
        if let Some(seconds) = seconds {
            http[field] = json!(format!("{seconds}s"));
        }
    }
    rule(&json!([one]).to_string(), &json!({ "http": http }).to_string())
}

/// Every matching rule overrides less specific ones.
fn by_definition(rules: &[Rule], uri: &str, sni: &str) -> (i64, i64) {
    let matches = |(id, name, ..): &&Rule| {
        id.is_none_or(|(value, is_prefix)| if is_prefix { uri.starts_with(value) } else { uri == value })
            && name.is_none_or(|name| name == sni)
    };
    let mut in_force: Vec<_> = rules.iter().filter(matches).collect();
    in_force.sort_by_key(|(id, name, ..)| {
        (id.is_some(), id.is_some_and(|(_, is_prefix)| !is_prefix), id.map(|(value, _)| value.len()), name.is_some())
    });
    let last = |said: &dyn Fn(&Rule) -> Option<u8>| in_force.iter().rev().find_map(|rule| said(rule)).map(i64::from);
    (last(&|rule| rule.2).unwrap_or(15), last(&|rule| rule.3).unwrap_or(1800))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn first_matching_route_equals_the_definition(rules in rules()) {
        let entries: Vec<Entry> = rules.iter().map(entry).collect();
        let served = inbound(POLICY.unwrap(), &entries, &http(vec![crate::samples::route("")]));
        let routes = &as_http(&served.chains[1].carrier).routes;
        for uri in IDS.iter().chain(&["spiffe://m/a/b/c", "spiffe://o"]) {
            for sni in NAMES.iter().chain(&[""]) {
                prop_assert_eq!(first(routes, uri, sni), by_definition(&rules, uri, sni), "{} {}", uri, sni);
            }
        }
    }
}

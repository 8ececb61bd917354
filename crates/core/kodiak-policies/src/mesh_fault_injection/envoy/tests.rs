//! Faults of inbounds: filters, and the callers that they apply to.

use kodiak_envoy::envoy::extensions::common::matching::v3::ExtensionWithMatcher;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{HttpFilter, http_filter};
use kodiak_envoy::unpack;
use kodiak_envoy::xds::r#type::matcher::v3::matcher::matcher_list::predicate::MatchType;
use kodiak_envoy::xds::r#type::matcher::v3::matcher::matcher_list::predicate::single_predicate::Matcher as Matched;
use kodiak_envoy::xds::r#type::matcher::v3::matcher::{MatcherType, matcher_list::Predicate};
use kodiak_envoy::xds::r#type::matcher::v3::string_matcher::MatchPattern;
use kodiak_model::TargetRef;

use super::{FILTER, HttpFault, HttpStep};
use crate::mesh_fault_injection::FaultInjections;
use crate::samples::{as_http, check, conf, from, http, inbound, route, rule, tcp, value};
use crate::target::Inbound;
use crate::{Entry, Source};

const WEB: &str = "[{spiffeID: {type: Exact, value: 'spiffe://default/web'}}]";

/// Aborts all requests with this status.
fn abort(status: u32) -> String {
    format!("http: [{{abort: {{httpStatus: {status}, percentage: 100}}}}]")
}

/// An item of `from` for callers with tags.
fn from_target(target: &str, text: &str) -> Entry {
    let target: TargetRef = serde_json::from_value(value(target)).unwrap();
    Entry { policy: "from".into(), source: Source::From(target), conf: conf(text) }
}

fn served(entries: &[Entry]) -> Inbound<'static> {
    inbound(&FaultInjections, entries, &http(vec![route("")]))
}

fn filters(served: &Inbound<'_>, mtls: bool) -> Vec<HttpFilter> {
    let chain = served.chains.iter().find(|chain| chain.mtls == mtls).unwrap();
    let filters = &as_http(&chain.carrier).filters;
    assert!(filters.iter().all(|(step, _)| *step == HttpStep::Fault));
    filters.iter().map(|(_, filter)| filter.clone()).collect()
}

/// Statuses with which requests of a caller are aborted, as Envoy evaluates the filters.
fn aborts(served: &Inbound<'_>, mtls: bool, uris: &str, sni: &str) -> Vec<u32> {
    let applied = |filter: HttpFilter| {
        let Some(http_filter::ConfigType::TypedConfig(config)) = filter.config_type else { panic!() };
        let Ok(matched) = unpack::<ExtensionWithMatcher>(&config) else { return Some(unpack(&config).unwrap()) };
        let Some(MatcherType::MatcherList(list)) = matched.xds_matcher.unwrap().matcher_type else { panic!() };
        let skipped = list.matchers.iter().any(|one| holds(one.predicate.as_ref().unwrap(), uris, sni));
        (!skipped).then(|| unpack(&matched.extension_config.unwrap().typed_config.unwrap()).unwrap())
    };
    let status = |fault: HttpFault| {
        use kodiak_envoy::envoy::extensions::filters::http::fault::v3::fault_abort::ErrorType;
        let Some(ErrorType::HttpStatus(status)) = fault.abort.unwrap().error_type else { panic!() };
        status
    };
    filters(served, mtls).into_iter().filter_map(applied).map(status).collect()
}

fn holds(predicate: &Predicate, uris: &str, sni: &str) -> bool {
    let single = match predicate.match_type.as_ref().unwrap() {
        MatchType::NotMatcher(one) => return !holds(one, uris, sni),
        MatchType::OrMatcher(list) => return list.predicate.iter().any(|one| holds(one, uris, sni)),
        MatchType::AndMatcher(list) => return list.predicate.iter().all(|one| holds(one, uris, sni)),
        MatchType::SinglePredicate(single) => single,
    };
    let text = if single.input.as_ref().unwrap().name.ends_with("uri_san") { uris } else { sni };
    let Some(Matched::ValueMatch(matcher)) = &single.matcher else { panic!() };
    match matcher.match_pattern.as_ref().unwrap() {
        MatchPattern::Exact(value) => value == text,
        MatchPattern::SafeRegex(regex) => {
            regex_lite::Regex::new(&format!("^(?:{})$", regex.regex)).unwrap().is_match(text)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_fault_for_all_callers_is_a_plain_filter() {
    let faults = "http: [{abort: {httpStatus: 500, percentage: '2.5'}}, {delay: {value: 5s, percentage: 5}}, {}]";
    for (entry, name) in [(from(faults), FILTER), (rule("[]", faults), "rules"), (rule("[{}]", faults), "rules")] {
        let served = served(&[entry]);
        for mtls in [false, true] {
            let [abort, delay] = filters(&served, mtls).try_into().unwrap();
            check(
                &abort,
                &format!(
                    r#"
                    name: {name}
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault
                      abort: {{http_status: 500, percentage: {{numerator: 250, denominator: TEN_THOUSAND}}}}
                    "#
                ),
            );
            assert_eq!(delay.name, name);
        }
        assert!(!served.inspects_tls);
    }
}

#[test]
fn fault_of_matched_callers_is_skipped_for_others() {
    let matches = "[{spiffeID: {type: Prefix, value: 'spiffe://a.b/x'}, sni: {type: Exact, value: x.mesh}}]";
    let served = served(&[rule(matches, &abort(503))]);
    assert!(served.inspects_tls);
    assert!(filters(&served, false).is_empty());
    let [filter] = filters(&served, true).try_into().unwrap();
    check(
        &filter,
        r#"
        name: rules
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.common.matching.v3.ExtensionWithMatcher
          extension_config:
            name: envoy.filters.http.fault
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault
              abort: {http_status: 503, percentage: {numerator: 100}}
          xds_matcher:
            matcher_list:
              matchers:
              - on_match:
                  action:
                    name: skip
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.common.matcher.action.v3.SkipFilter
                predicate:
                  not_matcher:
                    and_matcher:
                      predicate:
                      - single_predicate:
                          input:
                            name: envoy.matching.inputs.uri_san
                            typed_config:
                              "@type": type.googleapis.com/envoy.extensions.matching.common_inputs.ssl.v3.UriSanInput
                          value_match: {safe_regex: {google_re2: {}, regex: '(.*,)?spiffe://a\.b/x([/,].*)?'}}
                      - single_predicate:
                          input:
                            name: envoy.matching.inputs.server_name
                            typed_config:
                              "@type": type.googleapis.com/envoy.extensions.matching.common_inputs.network.v3.ServerNameInput
                          value_match: {exact: x.mesh}
        "#,
    );
}

#[test]
fn rules_for_different_callers_apply_together() {
    let entries = [
        rule("[]", &abort(500)),
        rule("[{spiffeID: {type: Prefix, value: 'spiffe://default'}}]", &abort(501)),
        rule("[{spiffeID: {type: Exact, value: 'spiffe://default/web'}}, {sni: {type: Exact, value: x}}]", &abort(502)),
        rule("[{spiffeID: {type: Suffix, value: 'spiffe://default/web'}}]", &abort(503)),
    ];
    let served = served(&entries);
    for (uris, sni, expected) in [
        ("spiffe://default/web,kuma://env/dev", "", vec![502, 501, 500]),
        ("kuma://env/dev,spiffe://default/web", "x", vec![502, 501, 500]),
        ("spiffe://default/other", "", vec![501, 500]),
        ("spiffe://default-2/web", "", vec![500]),
        ("spiffe://default-2/web", "x", vec![502, 500]),
    ] {
        assert_eq!(aborts(&served, true, uris, sni), expected, "{uris} {sni}");
    }
    assert_eq!(aborts(&served, false, "", ""), [500]);
}

#[test]
fn later_rule_for_the_same_callers_overrides_and_an_empty_list_removes() {
    let web = "spiffe://default/web";
    let two = "[{spiffeID: {type: Exact, value: 'spiffe://default/web'}}, {sni: {type: Exact, value: x}}]";
    for (entries, expected) in [
        (vec![rule("[]", &abort(500)), rule("[]", &abort(501))], vec![501]),
        (vec![rule("[]", &abort(500)), rule("[]", "http: []")], vec![]),
        (vec![rule("[]", &abort(500)), rule("[]", "{}")], vec![500]),
        (vec![rule(WEB, &abort(500)), rule(WEB, "http: []"), rule("[]", &abort(502))], vec![502]),
        (vec![rule(two, &abort(500)), rule(WEB, "http: []")], vec![]),
    ] {
        assert_eq!(aborts(&served(&entries), true, web, ""), expected, "{entries:?}");
    }
    let rest = served(&[rule(two, &abort(500)), rule(WEB, "http: []")]);
    assert_eq!(aborts(&rest, true, web, "x"), [500]);
}

#[test]
fn rules_disable_from_on_the_inbound() {
    for conf in [abort(500), "http: []".to_owned(), "{}".to_owned()] {
        let served = served(&[from(&abort(503)), rule(WEB, &conf), from(&abort(504))]);
        assert!(aborts(&served, true, "spiffe://default/other", "").is_empty(), "{conf}");
        assert!(aborts(&served, false, "", "").is_empty(), "{conf}");
    }
}

#[test]
fn last_item_of_from_that_matches_the_tags_applies() {
    let entries = [
        from_target("{kind: MeshService, name: a}", &abort(400)),
        from(&abort(500)),
        from_target("{kind: MeshSubset, tags: {env: dev, team: x}}", &abort(501)),
        from_target("{kind: MeshService, name: web}", &abort(502)),
        from_target("{kind: MeshServiceSubset, name: web, tags: {version: '*'}}", "http: []"),
        from_target("{kind: MeshSubset, tags: {env: prod}}", "{}"),
        from_target("{kind: Unheard, name: web}", &abort(503)),
    ];
    let served = served(&entries);
    for (uris, expected) in [
        ("spiffe://default/a,kuma://kuma.io/service/a", vec![500]),
        ("spiffe://default/a,kuma://env/dev,kuma://team/x", vec![501]),
        ("spiffe://default/a,kuma://env/dev", vec![500]),
        ("spiffe://default/a,kuma://env/prod", vec![500]),
        ("spiffe://default/web,kuma://env/dev,kuma://team/x", vec![502]),
        ("spiffe://default/web-2", vec![500]),
        ("spiffe://other/web", vec![500]),
        ("spiffe://default/web,kuma://version/1", vec![]),
        ("spiffe://default/workload/web", vec![500]),
    ] {
        assert_eq!(aborts(&served, true, uris, ""), expected, "{uris}");
    }
    assert_eq!(aborts(&served, false, "", ""), [500]);
}

#[test]
fn from_by_tags_applies_to_nobody_without_mutual_tls() {
    let served = served(&[from_target("{kind: MeshService, name: web}", &abort(500))]);
    assert!(filters(&served, false).is_empty());
    assert_eq!(aborts(&served, true, "spiffe://default/web", ""), [500]);
}

#[test]
fn overridden_items_of_from_leave_no_filter() {
    for (weak, strong) in [
        ("{kind: MeshService, name: web}", "{kind: Mesh}"),
        ("{kind: MeshService, name: web}", "{kind: MeshSubset, tags: {kuma.io/service: web}}"),
        ("{kind: MeshSubset, tags: {a: x, b: y}}", "{kind: MeshSubset, tags: {a: x}}"),
    ] {
        let strong = from_target(strong, &abort(500));
        let both = served(&[from_target(weak, &abort(501)), strong.clone()]);
        assert_eq!(both, served(&[strong]), "{weak}");
    }
}

#[test]
fn other_protocols_have_no_faults() {
    let served = inbound(&FaultInjections, &[from(&abort(500)), rule("[]", &abort(500))], &tcp());
    assert!(served.chains.iter().all(|chain| chain.carrier == tcp()));
}

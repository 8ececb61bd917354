//! Routes generated from rules.

mod requests;

use std::time::Duration;

use kodiak_envoy::duration;
use kodiak_envoy::envoy::config::route::v3::route_match::PathSpecifier;
use kodiak_envoy::envoy::config::route::v3::{RouteMatch, VirtualHost};
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use kodiak_envoy::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use kodiak_envoy::json::{from_json, to_json};
use kodiak_model::policy::Conf;
use kodiak_model::yaml;
use serde_json::json;

use super::*;
use crate::mesh_http_route::Routing;
use crate::samples::to_backend;
use crate::target::{BackendKey, Http, Tcp};
use crate::{Confs, Policy};

const CATCH_ALL: &str = "9Zuf5Tg79OuZcQITwBbQykxAk2u4fRKrwYn3//AL4Yo=";

fn catch_all() -> Route {
    let action = RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster("backend".to_owned())),
        timeout: Some(duration(Duration::from_secs(15))),
        idle_timeout: Some(duration(Duration::from_mins(30))),
        ..RouteAction::default()
    };
    let path_specifier = Some(PathSpecifier::Prefix("/".to_owned()));
    Route {
        name: CATCH_ALL.to_owned(),
        r#match: Some(RouteMatch { path_specifier, ..RouteMatch::default() }),
        action: Some(route::Action::Route(action)),
        ..Route::default()
    }
}

/// Every service has a cluster of its name. `missing` is not among them.
fn backends() -> Backends {
    let services = [
        ("backend", Protocol::Http, false),
        ("backend-v2", Protocol::Grpc, false),
        ("shadow", Protocol::Http2, false),
        ("database", Protocol::Tcp, false),
        ("outside", Protocol::Http, true),
    ];
    let key = |name: &str| {
        let written = json!({ "kind": "MeshService", "name": name });
        BackendKey::of(&serde_json::from_value(written).unwrap()).unwrap()
    };
    let backend =
        |(name, protocol, external): (&str, _, _)| (key(name), Backend { cluster: name.into(), protocol, external });
    Backends(services.into_iter().map(backend).collect())
}

/// The `rules` of a conf, in YAML.
fn conf(rules: &str) -> Conf {
    Conf::new(json!({ "rules": yaml::parse(rules).unwrap().remove(0).value }))
}

fn carried(rules: &str, carrier: Carrier) -> Carrier {
    let backends = backends();
    let mut outbound = to_backend(Protocol::Http, carrier, &backends);
    let confs = Confs { whole: Some(conf(rules)), ..Confs::default() };
    Routing.outbound(&confs, &mut outbound);
    outbound.carrier
}

fn routes(rules: &str) -> Vec<Route> {
    let http = Http {
        manager: HttpConnectionManager::default(),
        routes: vec![catch_all()],
        filters: Vec::new(),
        network_filters: Vec::new(),
    };
    match carried(rules, Carrier::Http(Box::new(http))) {
        Carrier::Http(http) => http.routes,
        Carrier::Tcp(_) => unreachable!("it was HTTP"),
    }
}

#[track_caller]
fn check_all(routes: Vec<Route>, expected: &str) {
    let shown = |routes| yaml::to_string(&to_json(&VirtualHost { routes, ..VirtualHost::default() }).unwrap());
    let document = json!({ "routes": yaml::parse(expected).unwrap().remove(0).value });
    let expected: VirtualHost = from_json(&document).unwrap();
    assert_eq!(shown(routes), shown(expected.routes));
}

/// Compares the routes before the catch-all route, without names and timeouts, which are the same everywhere.
#[track_caller]
fn check(rules: &str, expected: &str) {
    let mut routes = routes(rules);
    assert_eq!(routes.pop(), Some(catch_all()));
    for route in &mut routes {
        route.name.clear();
        if let Some(route::Action::Route(action)) = &mut route.action {
            assert_eq!(
                (action.timeout.take().unwrap().seconds, action.idle_timeout.take().unwrap().seconds),
                (15, 1800)
            );
        }
    }
    check_all(routes, expected);
}

/// Compares the effect of one filter on the routes of the prefix `/api`.
#[track_caller]
fn check_filter(filter: &str, expected: &str) {
    let path = "{type: PathPrefix, value: /api}";
    check(&format!("[{{matches: [{{path: {path}}}], default: {{filters: [{filter}]}}}}]"), expected);
}

#[test]
fn every_match_becomes_a_route_before_the_catch_all() {
    check_all(
        routes(
            "
            - matches: [{path: {type: Exact, value: /a}}, {path: {type: RegularExpression, value: /b.*}}]
              default: {backendRefs: [{kind: MeshService, name: backend-v2}]}
            ",
        ),
        r#"
        - name: OGZpVzBWAv43zIgqUueNMy3WxmG84ZR/xy+IbAwQaBc=
          match: {path: /a}
          route: {cluster: backend-v2, timeout: 15s, idle_timeout: 1800s}
        - name: OGZpVzBWAv43zIgqUueNMy3WxmG84ZR/xy+IbAwQaBc=
          match: {safe_regex: {regex: "/b.*"}}
          route: {cluster: backend-v2, timeout: 15s, idle_timeout: 1800s}
        - name: 9Zuf5Tg79OuZcQITwBbQykxAk2u4fRKrwYn3//AL4Yo=
          match: {prefix: /}
          route: {cluster: backend, timeout: 15s, idle_timeout: 1800s}
        "#,
    );
}

#[test]
fn a_prefix_matches_whole_segments() {
    check(
        "[{matches: [{path: {type: PathPrefix, value: /a}}]}]",
        "
        - {match: {path: /a}, route: {cluster: backend}}
        - {match: {prefix: /a/}, route: {cluster: backend}}
        ",
    );
}

#[test]
fn most_specific_match_comes_first_in_any_rule_order() {
    check(
        "
        - matches: [{}]
        - matches: [{method: GET}]
        - matches: [{path: {type: RegularExpression, value: /r}}]
        - matches: [{path: {type: RegularExpression, value: /re}}]
        - matches: [{path: {type: PathPrefix, value: /p}}]
        - matches: [{path: {type: PathPrefix, value: /p/longer}}]
        - matches: [{path: {type: Exact, value: /e}, queryParams: [{type: Exact, name: q, value: a}]}]
        - matches: [{path: {type: Exact, value: /e}, headers: [{name: h, value: a}]}]
        - matches: [{path: {type: Exact, value: /e}, method: PUT}]
        ",
        "
        - match: {path: /e, headers: [{name: ':method', string_match: {exact: PUT}}]}
          route: {cluster: backend}
        - match: {path: /e, headers: [{name: h, string_match: {exact: a}}]}
          route: {cluster: backend}
        - match: {path: /e, query_parameters: [{name: q, string_match: {exact: a}}]}
          route: {cluster: backend}
        - {match: {path: /p/longer}, route: {cluster: backend}}
        - {match: {prefix: /p/longer/}, route: {cluster: backend}}
        - {match: {path: /p}, route: {cluster: backend}}
        - {match: {prefix: /p/}, route: {cluster: backend}}
        - {match: {safe_regex: {regex: /re}}, route: {cluster: backend}}
        - {match: {safe_regex: {regex: /r}}, route: {cluster: backend}}
        - match: {prefix: /, headers: [{name: ':method', string_match: {exact: GET}}]}
          route: {cluster: backend}
        - {match: {prefix: /}, route: {cluster: backend}}
        ",
    );
}

#[test]
fn equal_matches_keep_the_order_of_their_rules() {
    check(
        "
        - matches: [{path: {type: Exact, value: /a}}]
          default: {backendRefs: [{kind: MeshService, name: backend-v2}]}
        - matches: [{path: {type: Exact, value: /longer}}]
        ",
        "
        - {match: {path: /a}, route: {cluster: backend-v2}}
        - {match: {path: /longer}, route: {cluster: backend}}
        ",
    );
}

#[test]
fn headers_and_query_parameters_are_compared_as_written() {
    check(
        r"
        - matches:
          - headers:
            - {name: a, value: '1'}
            - {type: RegularExpression, name: b, value: '[0-9]+'}
            - {type: RegularExpression, name: c}
            - {type: Present, name: d}
            - {type: Absent, name: e}
            - {type: Prefix, name: f, value: v}
            - {type: Prefix, name: g}
            queryParams:
            - {type: Exact, name: h, value: '2'}
            - {type: RegularExpression, name: i, value: x|y}
        ",
        r"
        - match:
            prefix: /
            headers:
            - {name: a, string_match: {exact: '1'}}
            - {name: b, string_match: {safe_regex: {regex: '[0-9]+'}}}
            - {name: c, string_match: {exact: ''}}
            - {name: d, present_match: true}
            - {name: e, present_match: false}
            - {name: f, string_match: {prefix: v}}
            - {name: g, present_match: true}
            query_parameters:
            - {name: h, string_match: {exact: '2'}}
            - {name: i, string_match: {safe_regex: {regex: x|y}}}
          route: {cluster: backend}
        ",
    );
}

#[test]
fn first_of_repeated_headers_wins() {
    check(
        "[{matches: [{headers: [{name: a, value: '1'}, {name: b, value: '2'}, {name: a, value: '3'}]}]}]",
        "
        - match: {prefix: /, headers: [{name: a, string_match: {exact: '1'}}, {name: b, string_match: {exact: '2'}}]}
          route: {cluster: backend}
        ",
    );
}

/// Compares the routes of `/a` with these backends.
#[track_caller]
fn check_split(backends: &str, expected: &str) {
    let rules = format!("[{{matches: [{{path: {{type: Exact, value: /a}}}}], default: {{backendRefs: {backends}}}}}]");
    let expected = match expected {
        "" => "[]".to_owned(),
        route => format!("[{{match: {{path: /a}}, route: {route}}}]"),
    };
    check(&rules, &expected);
}

#[test]
fn weights_split_requests() {
    check_split(
        "[{kind: MeshService, name: backend, weight: 90}, {kind: MeshService, name: backend-v2}]",
        "{weighted_clusters: {clusters: [{name: backend, weight: 90}, {name: backend-v2, weight: 1}]}}",
    );
}

#[test]
fn backends_without_weight_or_cluster_are_omitted() {
    let others = "{kind: MeshService, name: backend, weight: 0}, {kind: MeshService, name: missing}, \
                  {kind: MeshService, name: database}";
    check_split(&format!("[{others}, {{kind: MeshService, name: backend-v2, weight: 10}}]"), "{cluster: backend-v2}");
    check_split(&format!("[{others}]"), "");
    check_split("[]", "{cluster: backend}");
}

#[test]
fn external_backends_get_their_own_host_header() {
    check_split(
        "[{kind: MeshService, name: backend}, {kind: MeshService, name: outside}]",
        "{weighted_clusters: {clusters: [{name: backend, weight: 1}, {name: outside, weight: 1}]}, auto_host_rewrite: true}",
    );
}

#[test]
fn rule_for_every_path_replaces_the_catch_all() {
    let rule = |backend| {
        format!(
            "
            - matches: [{{path: {{type: PathPrefix, value: /}}}}]
              default: {{backendRefs: [{{kind: MeshService, name: {backend}}}]}}
            "
        )
    };
    check_all(
        routes(&rule("backend-v2")),
        "
        - name: 9Zuf5Tg79OuZcQITwBbQykxAk2u4fRKrwYn3//AL4Yo=
          match: {prefix: /}
          route: {cluster: backend-v2, timeout: 15s, idle_timeout: 1800s}
        ",
    );
    // Its requests must not fall back to the destination.
    check_all(routes(&rule("missing")), "[]");
    check(
        "[{matches: [{path: {type: PathPrefix, value: /}, method: GET}]}]",
        "[{match: {prefix: /, headers: [{name: ':method', string_match: {exact: GET}}]}, route: {cluster: backend}}]",
    );
}

#[test]
fn modifies_request_and_response_headers() {
    let headers = |modifier: &str| {
        format!(
            "{{type: {}, {modifier}: {{set: [{{name: a, value: '100%'}}], add: [{{name: b, value: c}}], remove: [d]}}}}",
            modifier[..1].to_uppercase() + &modifier[1..]
        )
    };
    let changes = |way: &str| {
        format!(
            "
            {way}_headers_to_add:
            - {{header: {{key: a, value: '100%%'}}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}}
            - {{header: {{key: b, value: c}}, append_action: APPEND_IF_EXISTS_OR_ADD}}
            {way}_headers_to_remove: [d]
            "
        )
    };
    for way in ["request", "response"] {
        let changes = changes(way).replace("\n            ", "\n          ");
        let expected = ["path: /api", "prefix: /api/"]
            .map(|path| format!("        - match: {{{path}}}\n          route: {{cluster: backend}}{changes}"))
            .join("\n");
        check_filter(&headers(&format!("{way}HeaderModifier")), &expected);
    }
}

#[test]
fn redirect_replaces_backends() {
    check_filter(
        "{type: RequestRedirect, requestRedirect: {scheme: https, hostname: example.com, port: 8443, statusCode: 308}}",
        "
        - match: {path: /api}
          redirect: {scheme_redirect: https, host_redirect: example.com, port_redirect: 8443, response_code: PERMANENT_REDIRECT}
        - match: {prefix: /api/}
          redirect: {scheme_redirect: https, host_redirect: example.com, port_redirect: 8443, response_code: PERMANENT_REDIRECT}
        ",
    );
    check(
        "
        - matches: [{path: {type: Exact, value: /a}}]
          default:
            backendRefs: [{kind: MeshService, name: missing}]
            filters:
            - {type: URLRewrite, urlRewrite: {hostname: example.com}}
            - {type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: /b}}}
            - {type: RequestMirror, requestMirror: {backendRef: {kind: MeshService, name: shadow}}}
        ",
        "[{match: {path: /a}, redirect: {path_redirect: /b, response_code: FOUND}}]",
    );
}

#[test]
fn the_matched_prefix_is_replaced_up_to_the_slash() {
    let redirect = |prefix| {
        format!(
            "{{type: RequestRedirect, requestRedirect: {{path: {{type: ReplacePrefixMatch, replacePrefixMatch: {prefix}}}}}}}"
        )
    };
    let rewrite = |prefix| {
        format!(
            "{{type: URLRewrite, urlRewrite: {{path: {{type: ReplacePrefixMatch, replacePrefixMatch: {prefix}}}}}}}"
        )
    };
    for (new, path, prefix) in [("/v2", "/v2", "/v2/"), ("/v2/", "/v2", "/v2/"), ("/", "/", "/"), ("''", "/", "/")] {
        check_filter(
            &redirect(new),
            &format!(
                "
                - {{match: {{path: /api}}, redirect: {{path_redirect: {path}, response_code: FOUND}}}}
                - {{match: {{prefix: /api/}}, redirect: {{prefix_rewrite: {prefix}, response_code: FOUND}}}}
                "
            ),
        );
        check_filter(
            &rewrite(new),
            &format!(
                "
                - match: {{path: /api}}
                  route: {{cluster: backend, regex_rewrite: {{pattern: {{regex: '.*'}}, substitution: {path}}}}}
                - {{match: {{prefix: /api/}}, route: {{cluster: backend, prefix_rewrite: {prefix}}}}}
                "
            ),
        );
    }
}

#[test]
fn host_and_path_are_rewritten() {
    check(
        r"
        - matches: [{path: {type: RegularExpression, value: /.*}}]
          default:
            backendRefs: [{kind: MeshService, name: outside}]
            filters:
            - {type: URLRewrite, urlRewrite: {hostname: example.com, path: {type: ReplaceFullPath, replaceFullPath: '/\0'}}}
        ",
        r"
        - match: {safe_regex: {regex: /.*}}
          route:
            cluster: outside
            host_rewrite_literal: example.com
            regex_rewrite: {pattern: {regex: '.*'}, substitution: '/\\0'}
        ",
    );
}

#[test]
fn mirrors_only_to_existing_backends() {
    let mirror = |to: &str, more: &str| {
        let backend = format!("{{kind: MeshService, name: {to}}}");
        format!("{{type: RequestMirror, requestMirror: {{backendRef: {backend}{more}}}}}")
    };
    let expected = |mirrors: &str| {
        let route = format!("{{cluster: backend{mirrors}}}");
        format!("[{{match: {{path: /api}}, route: {route}}}, {{match: {{prefix: /api/}}, route: {route}}}]")
    };
    let to = |fraction: &str| expected(&format!(", request_mirror_policies: [{{cluster: shadow{fraction}}}]"));
    let fraction = |millionths: u32| {
        to(&format!(", runtime_fraction: {{default_value: {{numerator: {millionths}, denominator: MILLION}}}}"))
    };
    check_filter(&mirror("shadow", ""), &to(""));
    check_filter(&mirror("shadow", ", percentage: 5"), &fraction(50_000));
    check_filter(&mirror("shadow", ", percentage: '0.5'"), &fraction(5_000));
    check_filter(&mirror("shadow", ", percentage: many"), &fraction(0));
    check_filter(&mirror("missing", ""), &expected(""));
    check_filter(&mirror("database", ""), &expected(""));
}

#[test]
fn route_name_is_the_hash_of_its_matches() {
    let rules = "
        - matches: [{path: {type: PathPrefix, value: /}}]
        - matches: [{path: {type: PathPrefix, value: /}}, {method: GET}]
    ";
    let names = Routing.routes(&conf(rules));
    assert_eq!(&*names[0], CATCH_ALL);
    assert_ne!(names[0], names[1]);
    let of_routes: Vec<_> = routes(rules).into_iter().map(|route| route.name).collect();
    assert_eq!(of_routes, [&*names[0], &*names[1], &*names[1]]);
}

#[test]
fn backends_include_splits_and_mirrors() {
    let rules = "
        - matches: [{}]
          default:
            backendRefs: [{kind: MeshService, name: backend, weight: 0}]
            filters: [{type: RequestMirror, requestMirror: {backendRef: {kind: MeshService, name: shadow}}}]
        - matches: [{method: GET}]
          default: {backendRefs: [{kind: MeshServiceSubset, name: backend-v2, tags: {version: '2'}}]}
    ";
    let names: Vec<_> = Routing.backends(&conf(rules)).into_iter().filter_map(|backend| backend.name).collect();
    assert_eq!(names, ["backend", "backend-v2", "shadow"]);
}

#[test]
fn tcp_connections_are_unchanged() {
    let tcp = Carrier::Tcp(Box::new(Tcp { proxy: TcpProxy::default(), filters: Vec::new() }));
    assert_eq!(carried("[{matches: [{}]}]", tcp.clone()), tcp);
}

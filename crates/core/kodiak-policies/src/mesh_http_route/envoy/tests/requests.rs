//! Property: a request takes the route of the most specific match that matches it.
//!
//! Evaluated twice: on the policy's matches, and on Envoy's matchers.

use std::collections::BTreeMap;

use kodiak_envoy::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use kodiak_envoy::envoy::config::route::v3::query_parameter_matcher::QueryParameterMatchSpecifier;
use kodiak_envoy::envoy::r#type::matcher::v3::StringMatcher;
use kodiak_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use regex_lite::Regex;

use super::*;

#[derive(Debug, Clone)]
struct Request {
    method: &'static str,
    path: &'static str,
    header: Option<&'static str>,
    param: Option<&'static str>,
}

const PATHS: &[&str] = &["/", "/a", "/ab", "/a/", "/a/b", "/a/b/c", "/b"];
const VALUES: &[&str] = &["", "x", "xy"];

fn requests() -> impl Strategy<Value = Request> {
    let value = || proptest::option::of(select(VALUES));
    (select(&["GET", "PUT"][..]), select(PATHS), value(), value()).prop_map(|(method, path, header, param)| Request {
        method,
        path,
        header,
        param,
    })
}

/// Matches in YAML.
fn matches() -> impl Strategy<Value = String> {
    let path = select(
        &[
            "Exact, value: /a",
            "Exact, value: /a/b",
            "PathPrefix, value: /",
            "PathPrefix, value: /a",
            "PathPrefix, value: /a/b",
            "RegularExpression, value: /a.*",
            "RegularExpression, value: /.",
        ][..],
    );
    let kinds = ["Exact", "Present", "RegularExpression", "Absent", "Prefix"];
    let header = (select(kinds.to_vec()), select(&["", "x", "x.*"][..]));
    let header = header.prop_map(|(kind, value)| {
        let value = if matches!(kind, "Present" | "Absent") { "" } else { value };
        format!("headers: [{{type: {kind}, name: h, value: '{value}'}}]")
    });
    let param = (select(&["Exact", "RegularExpression"][..]), select(&["x", "x.*"][..]));
    let param = param.prop_map(|(kind, value)| format!("queryParams: [{{type: {kind}, name: q, value: '{value}'}}]"));
    let path = path.prop_map(|path| format!("path: {{type: {path}}}"));
    let parts = (
        proptest::option::of(path),
        proptest::option::of(Just("method: GET".to_owned())),
        proptest::option::of(header),
        proptest::option::of(param),
    );
    parts.prop_map(|(path, method, header, param)| {
        let parts: Vec<_> = [path, method, header, param].into_iter().flatten().collect();
        format!("{{{}}}", parts.join(", "))
    })
}

fn whole(regex: &str, text: &str) -> bool {
    Regex::new(&format!("^(?:{regex})$")).unwrap().is_match(text)
}

/// Evaluates the policy's match.
fn describes(one: &Match, request: &Request) -> bool {
    let path = one.path.as_ref().is_none_or(|path| match path.match_type.as_ref().unwrap().as_str() {
        "Exact" => path.value == request.path,
        "PathPrefix" => {
            let prefix: Vec<_> = path.value.split('/').filter(|part| !part.is_empty()).collect();
            let parts: Vec<_> = request.path[1..].split('/').collect();
            parts.starts_with(&prefix)
        }
        _ => whole(&path.value, request.path),
    });
    let method = one.method.as_ref().is_none_or(|method| method.as_str() == request.method);
    let header = one.headers.iter().flatten().all(|header| {
        let kind = header.match_type.as_ref().unwrap().as_str();
        match request.header {
            None => kind == "Absent",
            Some(value) => match kind {
                "Exact" => value == header.value,
                "Prefix" => value.starts_with(&header.value),
                "RegularExpression" => whole(&header.value, value),
                _ => kind == "Present",
            },
        }
    });
    let param = one.query_params.iter().flatten().all(|param| {
        let is_exact = param.match_type.as_ref().unwrap().as_str() == "Exact";
        request.param.is_some_and(|value| if is_exact { value == param.value } else { whole(&param.value, value) })
    });
    path && method && header && param
}

/// Evaluates Envoy's matchers.
fn takes(route: &RouteMatch, request: &Request) -> bool {
    let path = match route.path_specifier.as_ref().unwrap() {
        PathSpecifier::Path(path) => path == request.path,
        PathSpecifier::Prefix(prefix) => request.path.starts_with(prefix.as_str()),
        PathSpecifier::SafeRegex(regex) => whole(&regex.regex, request.path),
        other => unreachable!("{other:?}"),
    };
    let headers: BTreeMap<_, _> =
        [Some((":method", request.method)), request.header.map(|value| ("h", value))].into_iter().flatten().collect();
    let header = route.headers.iter().all(|header| {
        let value = headers.get(header.name.as_str());
        match header.header_match_specifier.as_ref().unwrap() {
            HeaderMatchSpecifier::StringMatch(matcher) => value.is_some_and(|value| is_matched(matcher, value)),
            HeaderMatchSpecifier::PresentMatch(present) => value.is_some() == *present,
            other => unreachable!("{other:?}"),
        }
    });
    let param = route.query_parameters.iter().all(|param| {
        let Some(QueryParameterMatchSpecifier::StringMatch(matcher)) = &param.query_parameter_match_specifier else {
            unreachable!("{param:?}");
        };
        request.param.is_some_and(|value| is_matched(matcher, value))
    });
    path && header && param
}

fn is_matched(matcher: &StringMatcher, value: &str) -> bool {
    match matcher.match_pattern.as_ref().unwrap() {
        MatchPattern::Exact(exact) => value == exact,
        MatchPattern::Prefix(prefix) => value.starts_with(prefix.as_str()),
        MatchPattern::SafeRegex(regex) => whole(&regex.regex, value),
        other => unreachable!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn a_request_takes_the_route_of_the_most_specific_match(matches in vec(matches(), 0..6), request in requests()) {
        // Each rule has one match, and sets its index as a header.
        let rule = |(n, one): (usize, &String)| {
            let filter = format!("{{type: RequestHeaderModifier, requestHeaderModifier: {{set: [{{name: rule, value: '{n}'}}]}}}}");
            format!("{{matches: [{one}], default: {{filters: [{filter}]}}}}")
        };
        let rules = format!("[{}]", matches.iter().enumerate().map(rule).collect::<Vec<_>>().join(", "));
        let read: Rules = conf(&rules).read();
        let described = read.rules.iter().enumerate().filter(|(_, rule)| describes(&rule.matches[0], &request));
        let expected = described.min_by_key(|(n, rule)| (super::super::matches::rank(&rule.matches[0]), *n));

        let routes = routes(&rules);
        let taken = routes.iter().find(|route| takes(route.r#match.as_ref().unwrap(), &request));
        let taken = taken.expect("there is a route for every request");
        let number = taken.request_headers_to_add.first().map(|option| option.header.as_ref().unwrap().value.clone());
        prop_assert_eq!(number, expected.map(|(n, _)| n.to_string()), "{}", rules);
    }

    /// Those of the routes that requests take; a route behind others that take all of its requests does not count.
    #[test]
    fn requests_get_to_the_clusters_of_their_routes(matches in vec(matches(), 0..6), requests in vec(requests(), 8)) {
        let names = ["backend-v2", "missing", "shadow", "outside", "database", "backend"];
        let rule = |(n, one): (usize, &String)| {
            let backend = format!("{{kind: MeshService, name: {}}}", names[n]);
            format!("{{matches: [{one}], default: {{backendRefs: [{backend}]}}}}")
        };
        let rules = format!("[{}]", matches.iter().enumerate().map(rule).collect::<Vec<_>>().join(", "));
        let clusters = Routing.clusters(&conf(&rules), &"backend".into(), &backends());
        for request in &requests {
            let routes = routes(&rules);
            let taken = routes.iter().find(|route| takes(route.r#match.as_ref().unwrap(), request));
            let Some(route::Action::Route(action)) = taken.and_then(|route| route.action.as_ref()) else { continue };
            let Some(ClusterSpecifier::Cluster(cluster)) = &action.cluster_specifier else { unreachable!("{action:?}") };
            prop_assert!(clusters.contains(cluster.as_str()), "{} {:?}: {} not in {:?}", rules, request, cluster, clusters);
        }
    }
}

#[test]
fn route_behind_one_that_takes_all_its_requests_gets_none() {
    let to = |matches: &str, name: &str| {
        format!("{{matches: [{matches}], default: {{backendRefs: [{{kind: MeshService, name: {name}}}]}}}}")
    };
    let prefix = |path: &str| format!("{{path: {{type: PathPrefix, value: {path}}}}}");
    let clusters = |rules: &[String]| -> Vec<String> {
        let rules = conf(&format!("[{}]", rules.join(", ")));
        Routing.clusters(&rules, &"backend".into(), &backends()).iter().map(ToString::to_string).collect()
    };
    let regex = "{path: {type: RegularExpression, value: /a.*}}";
    assert_eq!(clusters(&[]), ["backend"]);
    assert_eq!(clusters(&[to(&prefix("/a"), "shadow")]), ["backend", "shadow"]);
    assert_eq!(clusters(&[to(&prefix("/"), "shadow")]), ["shadow"]);
    assert_eq!(clusters(&[to(&prefix("/"), "shadow"), to(regex, "outside")]), ["shadow"]);
    // Without a backend that speaks HTTP there is no route, and requests of the catch-all get nowhere.
    assert_eq!(clusters(&[to(&prefix("/"), "database"), to(regex, "outside")]), ["outside"]);
    let header = |kind: &str| format!("{{path: {{type: Exact, value: /a}}, headers: [{{type: {kind}, name: h}}]}}");
    let any = "{path: {type: Exact, value: /a}}";
    let both = [to(&header("Present"), "shadow"), to(&header("Absent"), "shadow"), to(any, "outside")];
    assert_eq!(clusters(&both), ["backend", "shadow"]);
}

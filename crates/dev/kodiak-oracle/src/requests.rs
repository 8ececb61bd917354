//! Requests that together take every route of a listener.

use std::collections::BTreeSet;

use kodiak_envoy::envoy::config::listener::v3::{Listener, filter};
use kodiak_envoy::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use kodiak_envoy::envoy::config::route::v3::route::Action;
use kodiak_envoy::envoy::config::route::v3::route_action::ClusterSpecifier;
use kodiak_envoy::envoy::config::route::v3::route_match::PathSpecifier;
use kodiak_envoy::envoy::config::route::v3::{HeaderMatcher, Route, RouteMatch};
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use kodiak_envoy::envoy::extensions::filters::network::tcp_proxy::v3::{
    TcpProxy, tcp_proxy::ClusterSpecifier as TcpClusters,
};
use kodiak_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use kodiak_envoy::{TypeUrl, google::protobuf::Any, unpack};
use kodiak_testkit::simulate::Request;

use crate::meshes::PATHS;

/// Of the cluster, where it does not matter.
const HOST: &str = "host";

/// Each with random numbers for every cluster that its route chooses from.
pub(crate) fn of(listener: &Listener) -> Vec<Request> {
    let mut requests = Vec::new();
    let mut dice = 1;
    for config in listener.filter_chains.iter().flat_map(|chain| &chain.filters).filter_map(typed) {
        if let Some(TcpProxy { cluster_specifier: Some(TcpClusters::WeightedClusters(all)), .. }) = read(config) {
            dice = dice.max(all.clusters.iter().map(|cluster| u64::from(cluster.weight)).sum());
        }
        let Some(HttpConnectionManager { route_specifier: Some(RouteSpecifier::RouteConfig(routes)), .. }) =
            read::<HttpConnectionManager>(config)
        else {
            continue;
        };
        for route in routes.virtual_hosts.iter().flat_map(|host| &host.routes) {
            dice = dice.max(weights(route));
            requests.extend(route.r#match.iter().flat_map(candidates));
        }
    }
    if requests.is_empty() {
        requests.push(Request::get(HOST, "/"));
    }
    requests.into_iter().flat_map(|request| (0..dice).map(move |dice| request.clone().dice(dice))).collect()
}

fn typed(filter: &kodiak_envoy::envoy::config::listener::v3::Filter) -> Option<&Any> {
    match filter.config_type.as_ref()? {
        filter::ConfigType::TypedConfig(config) => Some(config),
        filter::ConfigType::ConfigDiscovery(_) => None,
    }
}

fn read<M: TypeUrl>(config: &Any) -> Option<M> {
    (config.type_url == M::TYPE_URL).then(|| unpack(config).unwrap())
}

fn weights(route: &Route) -> u64 {
    let Some(Action::Route(action)) = &route.action else { return 1 };
    match &action.cluster_specifier {
        Some(ClusterSpecifier::WeightedClusters(all)) => {
            all.clusters.iter().map(|cluster| u64::from(cluster.weight.unwrap_or(0))).sum()
        }
        _ => 1,
    }
}

/// Requests that the route matches, different enough for those before it not to match one of them. The first match of
/// each decides, so more requests than necessary do no harm.
fn candidates(route: &RouteMatch) -> Vec<Request> {
    let longer = |path: &str| [path.to_owned(), format!("{}/other", path.trim_end_matches('/'))];
    let paths: Vec<String> = match &route.path_specifier {
        Some(PathSpecifier::Path(path)) => vec![path.clone()],
        Some(PathSpecifier::Prefix(path) | PathSpecifier::PathSeparatedPrefix(path)) => longer(path).into(),
        _ => PATHS.iter().map(|path| (*path).to_owned()).collect(),
    };
    let named: BTreeSet<&str> = route.headers.iter().map(|matcher| matcher.name.as_str()).collect();
    let methods = if named.contains(":method") { &["GET"][..] } else { &["GET", "PUT"] };
    let written: Vec<(&str, String)> = route.headers.iter().filter_map(value).collect();
    let mut requests = Vec::new();
    for path in &paths {
        for method in methods {
            let mut request = Request::get(HOST, path).method(method);
            for (name, value) in &written {
                request = if *name == ":method" { request.method(value) } else { request.header(name, value) };
            }
            requests.push(request.clone());
            if !named.contains("x-h") {
                requests.push(request.header("x-h", "z"));
            }
        }
    }
    requests
}

/// Header with a value that matches. `None` if it must be missing.
fn value(matcher: &HeaderMatcher) -> Option<(&str, String)> {
    let value = match matcher.header_match_specifier.as_ref() {
        Some(HeaderMatchSpecifier::StringMatch(pattern)) => match pattern.match_pattern.as_ref()? {
            MatchPattern::Exact(text) | MatchPattern::Prefix(text) => text.clone(),
            _ => "x".to_owned(),
        },
        Some(HeaderMatchSpecifier::PresentMatch(false)) => return None,
        _ => "x".to_owned(),
    };
    (!matcher.invert_match).then_some((matcher.name.as_str(), value))
}

//! Inline route configurations.

use std::time::Duration;

use kodiak_envoy::duration;
use kodiak_envoy::envoy::config::route::v3::{
    Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost, route,
    route_action::{ClusterSpecifier, HostRewriteSpecifier},
    route_match,
};

use crate::input::HostHeader;
use crate::timeouts;

/// One virtual host for all domains. Clusters are not validated: they may arrive after the listener.
pub(crate) fn all_domains(name: String, host: &str, routes: Vec<Route>) -> RouteConfiguration {
    RouteConfiguration {
        name,
        validate_clusters: Some(false),
        virtual_hosts: vec![VirtualHost {
            name: host.to_owned(),
            domains: vec!["*".to_owned()],
            routes,
            ..VirtualHost::default()
        }],
        ..RouteConfiguration::default()
    }
}

/// Timeouts of a destination that no MeshTimeout selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteTimeouts {
    /// Those of a MeshTimeout that sets none.
    Default,
    /// No timeout for requests. Envoy ends streams that are idle for 5 minutes.
    Unlimited,
}

/// Route of all requests to one cluster of a service.
pub(crate) fn catch_all(name: &str, cluster: &str, host: HostHeader, without_policy: RouteTimeouts) -> Route {
    // Envoy's own default is 15 s, so that no timeout has to be written.
    let (timeout, idle_timeout) = match without_policy {
        RouteTimeouts::Default => (timeouts::REQUEST, Some(timeouts::STREAM_IDLE)),
        RouteTimeouts::Unlimited => (Duration::ZERO, None),
    };
    let action = RouteAction {
        host_rewrite_specifier: match host {
            HostHeader::Unchanged => None,
            HostHeader::OwnHostname => Some(HostRewriteSpecifier::AutoHostRewrite(true)),
        },
        timeout: Some(duration(timeout)),
        idle_timeout: idle_timeout.map(duration),
        ..to_cluster(cluster)
    };
    Route { name: name.to_owned(), ..route(prefix("/"), route::Action::Route(action)) }
}

/// Rewrites a path prefix to another path of a cluster, with Envoy's default timeouts.
pub(crate) fn rewritten(path: &str, cluster: &str, new_path: &str) -> Route {
    let action = RouteAction { prefix_rewrite: new_path.to_owned(), ..to_cluster(cluster) };
    route(prefix(path), route::Action::Route(action))
}

pub(crate) fn route(matched: RouteMatch, action: route::Action) -> Route {
    Route { r#match: Some(matched), action: Some(action), ..Route::default() }
}

pub(crate) fn prefix(path: &str) -> RouteMatch {
    RouteMatch { path_specifier: Some(route_match::PathSpecifier::Prefix(path.to_owned())), ..RouteMatch::default() }
}

fn to_cluster(cluster: &str) -> RouteAction {
    RouteAction { cluster_specifier: Some(ClusterSpecifier::Cluster(cluster.to_owned())), ..RouteAction::default() }
}

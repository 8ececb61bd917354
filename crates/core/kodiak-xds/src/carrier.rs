//! Packs filter chains after policies changed them.

use kodiak_envoy::envoy::config::listener::v3::Filter;
use kodiak_envoy::envoy::config::route::v3::{Route, RouteConfiguration};
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use kodiak_model::Protocol;
use kodiak_policies::order::{HttpStep, NetworkStep};
use kodiak_policies::target::{Carrier, Http, Tcp};

use crate::{filters, timeouts};

/// HTTP with one virtual host, whose routes policies may change.
pub(crate) fn http(manager: HttpConnectionManager, routes: Vec<Route>, protocol: Protocol) -> Carrier {
    let grpc = (protocol == Protocol::Grpc).then(|| (HttpStep::GrpcStats, filters::grpc_stats()));
    let filters = grpc.into_iter().chain([(HttpStep::Router, filters::router())]).collect();
    Carrier::Http(Box::new(Http { manager, routes, filters, network_filters: Vec::new() }))
}

pub(crate) fn tcp(name: &str, cluster: &str) -> Carrier {
    let proxy = filters::tcp_proxy(name, cluster, Some(timeouts::IDLE));
    Carrier::Tcp(Box::new(Tcp { proxy, filters: Vec::new() }))
}

/// Network filters of a chain, in order.
pub(crate) fn seal(carrier: Carrier) -> Vec<Filter> {
    match carrier {
        Carrier::Http(http) => {
            let Http { mut manager, routes, mut filters, network_filters } = *http;
            filters.sort_by_key(|(step, _)| *step);
            manager.http_filters = filters.into_iter().map(|(_, filter)| filter).collect();
            if let Some(host) = routes_of(&mut manager).and_then(|config| config.virtual_hosts.first_mut()) {
                host.routes = routes;
            }
            in_order(network_filters, filters::http_filter(&manager))
        }
        Carrier::Tcp(tcp) => {
            let Tcp { proxy, filters } = *tcp;
            in_order(filters, filters::tcp_filter(&proxy))
        }
    }
}

fn in_order(mut filters: Vec<(NetworkStep, Filter)>, last: Filter) -> Vec<Filter> {
    filters.sort_by_key(|(step, _)| *step);
    filters.into_iter().map(|(_, filter)| filter).chain([last]).collect()
}

fn routes_of(manager: &mut HttpConnectionManager) -> Option<&mut RouteConfiguration> {
    match manager.route_specifier.as_mut()? {
        RouteSpecifier::RouteConfig(config) => Some(config),
        RouteSpecifier::Rds(_) | RouteSpecifier::ScopedRoutes(_) => None,
    }
}

//! HTTP probes from outside the mesh, which have no certificate.

use std::cmp::Reverse;

use kodiak_envoy::envoy::config::core::v3::TrafficDirection;
use kodiak_envoy::envoy::config::listener::v3::{FilterChain, Listener};
use kodiak_envoy::envoy::config::route::v3::redirect_action::PathRewriteSpecifier;
use kodiak_envoy::envoy::config::route::v3::{RedirectAction, Route, route};

use crate::input::{ProbeEndpoint, Probes};
use crate::{address, filters, names, routes};

pub fn listener(probes: &Probes) -> Listener {
    let mut endpoints: Vec<_> = probes.endpoints.iter().collect();
    // The first match wins: a longer path must come before its own prefix.
    endpoints.sort_by_key(|endpoint| Reverse(endpoint.path.len()));
    let routes = endpoints.into_iter().map(route).collect();
    let routes = routes::all_domains(names::PROBES.to_owned(), names::PROBES_HOST, routes);
    let http = filters::own_http(names::PROBES, routes);
    Listener {
        name: names::PROBES.to_owned(),
        address: Some(address::tcp(&probes.address, probes.port)),
        traffic_direction: TrafficDirection::Inbound.into(),
        enable_reuse_port: Some(probes.shape.reuse_port),
        bind_to_port: probes.shape.transparent.then_some(false),
        filter_chains: vec![FilterChain { filters: vec![filters::http_filter(&http)], ..FilterChain::default() }],
        ..Listener::default()
    }
}

fn route(endpoint: &ProbeEndpoint) -> Route {
    match &endpoint.cluster {
        Some(cluster) => routes::rewritten(&endpoint.path, cluster, &endpoint.inbound_path),
        None => routes::route(routes::prefix(&endpoint.path), route::Action::Redirect(redirect(endpoint))),
    }
}

/// The port has no inbound, so the client can connect to it directly.
fn redirect(endpoint: &ProbeEndpoint) -> RedirectAction {
    RedirectAction {
        port_redirect: endpoint.inbound_port,
        path_rewrite_specifier: Some(PathRewriteSpecifier::PrefixRewrite(endpoint.inbound_path.clone())),
        ..RedirectAction::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::input::Shape;
    use crate::testing::at;

    #[test]
    fn probes_are_forwarded_to_the_application_or_redirected() {
        let probe = |path: &str, inbound_path: &str, cluster: Option<&str>| ProbeEndpoint {
            path: path.to_owned(),
            inbound_path: inbound_path.to_owned(),
            inbound_port: 8080,
            cluster: cluster.map(Into::into),
        };
        let listener = listener(&Probes {
            address: "10.0.0.5".to_owned(),
            port: 9000,
            endpoints: vec![probe("/8080", "/", Some("localhost:8080")), probe("/8080/healthz", "/healthz", None)],
            shape: Shape { transparent: true, reuse_port: true, ipv6: false },
        });
        assert_eq!(listener.bind_to_port, Some(false));
        let host = at(&listener, "/filterChains/0/filters/0/typedConfig/routeConfig/virtualHosts/0");
        assert_eq!(
            host,
            json!({
                "name": "probe",
                "domains": ["*"],
                "routes": [
                    {"match": {"prefix": "/8080/healthz"}, "redirect": {"portRedirect": 8080, "prefixRewrite": "/healthz"}},
                    {"match": {"prefix": "/8080"}, "route": {"cluster": "localhost:8080", "prefixRewrite": "/"}},
                ],
            })
        );
    }
}

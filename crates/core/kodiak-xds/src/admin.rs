//! Listener for Envoy's admin interface: `/ready` for everyone, everything else for the control plane.

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::core::v3::{Address, TrafficDirection};
use kodiak_envoy::envoy::config::listener::v3::{FilterChain, FilterChainMatch, Listener};
use kodiak_envoy::envoy::config::route::v3::Route;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::subject_alt_name_matcher::SanType;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, DownstreamTlsContext, TlsCertificate,
};
use kodiak_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;

use crate::address::{self, LOOPBACK};
use crate::input::{Admin, AdminCertificate, AdminEndpoint, Readiness};
use crate::{clusters, filters, names, routes, tls};

pub(crate) const READY: &str = "/ready";

/// `None` when Envoy itself already listens there.
pub fn listener(admin: &Admin) -> Option<Listener> {
    if admin.endpoint == (AdminEndpoint::Address { address: admin.address.clone(), port: admin.port }) {
        return None;
    }
    let mut filter_chains = vec![chain(vec![ready(admin)])];
    if let Some(certificate) = &admin.certificate {
        let matched = FilterChainMatch { transport_protocol: "tls".to_owned(), ..FilterChainMatch::default() };
        let all = routes::rewritten("/", names::ADMIN, "/");
        filter_chains.push(FilterChain {
            filter_chain_match: Some(matched),
            transport_socket: Some(tls::socket(&control_plane_only(certificate))),
            ..chain(vec![ready(admin), all])
        });
    }
    let inspects = admin.certificate.is_some();
    Some(Listener {
        name: names::ADMIN.to_owned(),
        address: Some(address::tcp(&admin.address, admin.port)),
        traffic_direction: TrafficDirection::Inbound.into(),
        enable_reuse_port: Some(admin.reuse_port),
        listener_filters: inspects.then(filters::tls_inspector).into_iter().collect(),
        filter_chains,
        ..Listener::default()
    })
}

pub fn clusters(admin: &Admin) -> Vec<Cluster> {
    let readiness = admin.readiness.as_ref().map(|readiness| match readiness {
        Readiness::Port(port) => address::tcp(LOOPBACK, *port),
        Readiness::Socket(path) => address::pipe(path),
    });
    let readiness = readiness.map(|address| clusters::of_one(names::READINESS, address));
    [clusters::of_one(names::ADMIN, endpoint(&admin.endpoint))].into_iter().chain(readiness).collect()
}

pub(crate) fn endpoint(endpoint: &AdminEndpoint) -> Address {
    match endpoint {
        AdminEndpoint::Socket(path) => address::pipe(path),
        AdminEndpoint::Address { address, port } => address::tcp(address, *port),
    }
}

fn ready(admin: &Admin) -> Route {
    let cluster = if admin.readiness.is_some() { names::READINESS } else { names::ADMIN };
    routes::rewritten(READY, cluster, READY)
}

fn chain(routes: Vec<Route>) -> FilterChain {
    let routes = routes::all_domains(String::new(), names::ADMIN, routes);
    let http = filters::own_http(names::ADMIN, routes);
    FilterChain { filters: vec![filters::http_filter(&http)], ..FilterChain::default() }
}

fn control_plane_only(certificate: &AdminCertificate) -> DownstreamTlsContext {
    let AdminCertificate { certificate, key, client_ca, client_name } = certificate;
    let caller = CertificateValidationContext {
        trusted_ca: Some(tls::inline(client_ca)),
        match_typed_subject_alt_names: vec![tls::san(SanType::Dns, MatchPattern::Exact(client_name.clone()))],
        ..CertificateValidationContext::default()
    };
    DownstreamTlsContext {
        require_client_certificate: Some(true),
        common_tls_context: Some(CommonTlsContext {
            tls_certificates: vec![TlsCertificate {
                certificate_chain: Some(tls::inline(certificate)),
                private_key: Some(tls::inline(key)),
                ..TlsCertificate::default()
            }],
            validation_context_type: Some(ValidationContextType::ValidationContext(caller)),
            ..CommonTlsContext::default()
        }),
        ..DownstreamTlsContext::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{at, check};

    fn admin() -> Admin {
        Admin {
            address: "10.0.0.5".to_owned(),
            port: 9901,
            endpoint: AdminEndpoint::Socket("/tmp/admin.sock".to_owned()),
            readiness: Some(Readiness::Port(9902)),
            certificate: Some(Arc::new(AdminCertificate {
                certificate: "CERT".to_owned(),
                key: "KEY".to_owned(),
                client_ca: "CA".to_owned(),
                client_name: "kuma-cp".to_owned(),
            })),
            reuse_port: true,
        }
    }

    #[test]
    fn without_tls_only_readiness_is_served() {
        let listener = listener(&admin()).unwrap();
        assert_eq!(at(&listener, "/filterChains/0/filterChainMatch"), Value::Null);
        check(
            &listener.filter_chains[0],
            r#"
            filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: kuma_envoy_admin
                internal_address_config: {cidr_ranges: [{address_prefix: 127.0.0.1, prefix_len: 32}]}
                http_filters:
                - name: envoy.filters.http.router
                  typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
                route_config:
                  validate_clusters: false
                  virtual_hosts:
                  - name: kuma:envoy:admin
                    domains: ["*"]
                    routes:
                    - match: {prefix: /ready}
                      route: {cluster: "kuma:readiness", prefix_rewrite: /ready}
            "#,
        );
    }

    #[test]
    fn control_plane_can_access_everything() {
        let listener = listener(&admin()).unwrap();
        assert_eq!(at(&listener, "/listenerFilters/0/name"), "envoy.filters.listener.tls_inspector");
        let chain = at(&listener, "/filterChains/1");
        assert_eq!(chain["filterChainMatch"], json!({"transportProtocol": "tls"}));
        let routes = &chain["filters"][0]["typedConfig"]["routeConfig"]["virtualHosts"][0]["routes"];
        let clusters: Vec<_> = routes.as_array().unwrap().iter().map(|route| &route["route"]["cluster"]).collect();
        assert_eq!(clusters, ["kuma:readiness", "kuma:envoy:admin"]);
        let tls = &chain["transportSocket"]["typedConfig"];
        assert_eq!(tls["requireClientCertificate"], true);
        let caller = &tls["commonTlsContext"]["validationContext"]["matchTypedSubjectAltNames"][0];
        assert_eq!(*caller, json!({"matcher": {"exact": "kuma-cp"}, "sanType": "DNS"}));
    }

    #[test]
    fn no_listener_where_envoy_listens_itself() {
        let endpoint = AdminEndpoint::Address { address: "10.0.0.5".to_owned(), port: 9901 };
        assert_eq!(listener(&Admin { endpoint, ..admin() }), None);
    }

    #[test]
    fn readiness_may_be_served_on_a_socket() {
        let readiness = Some(Readiness::Socket("/tmp/ready.sock".to_owned()));
        let clusters = clusters(&Admin { readiness, ..admin() });
        let address = at(&clusters[1], "/loadAssignment/endpoints/0/lbEndpoints/0/endpoint/address");
        assert_eq!((&*clusters[1].name, address), (names::READINESS, json!({"pipe": {"path": "/tmp/ready.sock"}})));
    }

    #[test]
    fn envoy_serves_readiness_without_a_readiness_port() {
        let alone = Admin { readiness: None, certificate: None, ..admin() };
        let listener = listener(&alone).unwrap();
        assert_eq!(listener.filter_chains.len(), 1);
        let path = "/filterChains/0/filters/0/typedConfig/routeConfig/virtualHosts/0/routes/0/route/cluster";
        assert_eq!(at(&listener, path), names::ADMIN);
        let clusters = clusters(&alone);
        assert_eq!(clusters.len(), 1);
        let address = at(&clusters[0], "/loadAssignment/endpoints/0/lbEndpoints/0/endpoint/address");
        assert_eq!(address, json!({"pipe": {"path": "/tmp/admin.sock"}}));
        assert_eq!(clusters[0].alt_stat_name, "kuma_envoy_admin");
    }
}

//! Outbounds: the listener and the cluster of a destination.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::cluster::v3::cluster::{DiscoveryType, EdsClusterConfig};
use kodiak_envoy::envoy::config::core::v3::TrafficDirection;
use kodiak_envoy::envoy::config::listener::v3::{FilterChain, Listener};
use kodiak_envoy::envoy::config::route::v3::Route;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use kodiak_model::kinds::mesh_external_service;
use kodiak_model::policy::Conf;
use kodiak_policies::Confs;
use kodiak_policies::target::{self, Carrier, Destination, Upstream};

use crate::input::{ByKind, Callee, Carried, HostHeader, OutboundCluster, OutboundListener, Tags, UpstreamProtocol};
use crate::routes::RouteTimeouts;
use crate::{address, carrier, clusters, filters, metadata, names, routes, tls};

pub fn listener(outbound: &OutboundListener) -> Listener {
    let mut made = target::Outbound {
        mesh: &outbound.mesh,
        cluster: &outbound.cluster,
        destination: match &outbound.callee {
            Callee::Service(tags) => Destination::Service(names::service(tags)),
            Callee::Port { kri, .. } if Some(kri.short) == mesh_external_service::KIND.short => {
                Destination::External(&kri.name)
            }
            Callee::Port { kri, .. } => Destination::Resource(&kri.name),
        },
        protocol: outbound.protocol,
        carrier: carrier(outbound),
        backends: &outbound.backends,
        route_names: &outbound.route_names,
        facts: &outbound.facts,
    };
    apply(&outbound.confs, &mut made);
    if let Carrier::Http(http) = &mut made.carrier {
        rename(&mut http.routes, &outbound.route_names);
    }
    Listener {
        name: outbound.name.to_string(),
        address: Some(address::tcp(&outbound.address, outbound.port)),
        traffic_direction: TrafficDirection::Outbound.into(),
        bind_to_port: (!outbound.bind).then_some(false),
        metadata: Some(metadata::under(&[names::TAGS_METADATA], &tags(&outbound.callee))),
        filter_chains: vec![FilterChain { filters: carrier::seal(made.carrier), ..FilterChain::default() }],
        ..Listener::default()
    }
}

/// Lets policies change an outbound.
pub(crate) fn apply(confs: &ByKind<Confs>, outbound: &mut target::Outbound<'_>) {
    for policy in kodiak_policies::in_force() {
        if let Some(confs) = confs.get(policy.kind().name) {
            policy.outbound(confs, outbound);
        }
    }
}

pub fn cluster(outbound: &OutboundCluster) -> Cluster {
    let socket = outbound.peer.as_ref().map(|peer| {
        tls::socket(&tls::upstream(
            names::server_validation_secret(&outbound.mesh, &outbound.name),
            &outbound.mesh,
            peer,
        ))
    });
    let some_plaintext = outbound.peer.as_ref().is_some_and(|peer| peer.some_plaintext);
    let cluster = Cluster {
        eds_cluster_config: Some(EdsClusterConfig { eds_config: Some(tls::over_ads()), ..EdsClusterConfig::default() }),
        transport_socket: socket,
        transport_socket_matches: some_plaintext.then(tls::plaintext_match).into_iter().collect(),
        ..clusters::cluster(&outbound.name, DiscoveryType::Eds)
    };
    finish(cluster, outbound.upstream, &outbound.confs)
}

/// Sets the parts that every destination has, and applies the confs.
pub(crate) fn finish(cluster: Cluster, upstream: UpstreamProtocol, confs: &ByKind<Conf>) -> Cluster {
    let mut made = Upstream { cluster, http: clusters::http_to(upstream), traffic: upstream.traffic() };
    for policy in kodiak_policies::in_force() {
        if let Some(conf) = confs.get(policy.kind().name) {
            policy.cluster(conf, &mut made);
        }
    }
    clusters::seal(made)
}

/// Policies identify routes by a hash; users see the name of the policy.
fn rename(routes: &mut [Route], names: &BTreeMap<Arc<str>, Arc<str>>) {
    for route in routes {
        if let Some(name) = names.get(&*route.name) {
            route.name = name.to_string();
        }
    }
}

fn tags(callee: &Callee) -> Cow<'_, Tags> {
    match callee {
        Callee::Service(tags) => Cow::Borrowed(tags),
        Callee::Port { kri, .. } => Cow::Owned(Tags::from([(names::UNIFIED_NAME.to_owned(), kri.to_string())])),
    }
}

/// Kafka is proxied as TCP: Envoy's official builds have no filter for it.
fn carrier(outbound: &OutboundListener) -> Carrier {
    let (name, routes, host, timeouts) = match &outbound.callee {
        Callee::Service(tags) => {
            let service = names::service(tags);
            (service, names::outbound_routes(service), HostHeader::Unchanged, RouteTimeouts::Unlimited)
        }
        Callee::Port { kri, host } => (&*outbound.cluster, kri.to_string(), *host, RouteTimeouts::Default),
    };
    match outbound.carried {
        Carried::Tcp => carrier::tcp(name, &outbound.cluster),
        Carried::Http => {
            let manager = HttpConnectionManager {
                // Routes match paths, so `/a/../b` must be normalized to `/b` before.
                normalize_path: Some(true),
                ..filters::http(name, outbound.shape.ipv6, routes::all_domains(routes, name, Vec::new()))
            };
            let route = routes::catch_all(names::CATCH_ALL_ROUTE, &outbound.cluster, host, timeouts);
            carrier::http(manager, vec![route], outbound.protocol)
        }
    }
}

#[cfg(test)]
mod tests {
    use kodiak_model::{Kri, Protocol};
    use serde_json::Value;

    use super::*;
    use crate::input::{Peer, Shape};
    use crate::testing::{at, check, tags};

    fn outbound(protocol: Protocol, bind: bool) -> OutboundListener {
        OutboundListener {
            name: "outbound:240.0.0.1:80".into(),
            address: "240.0.0.1".to_owned(),
            port: 80,
            callee: Callee::Service(Arc::new(tags(&[("kuma.io/service", "backend")]))),
            mesh: "default".into(),
            cluster: "backend".into(),
            protocol,
            carried: Carried::by(protocol),
            confs: Arc::default(),
            backends: Arc::default(),
            route_names: Arc::default(),
            facts: Arc::default(),
            bind,
            shape: Shape { transparent: !bind, reuse_port: true, ipv6: false },
        }
    }

    #[test]
    fn http_has_routes_inside_the_listener() {
        check(
            &listener(&outbound(Protocol::Http, false)),
            r#"
            name: outbound:240.0.0.1:80
            traffic_direction: OUTBOUND
            bind_to_port: false
            address: {socket_address: {address: 240.0.0.1, port_value: 80}}
            metadata: {filter_metadata: {io.kuma.tags: {kuma.io/service: backend}}}
            filter_chains:
            - filters:
              - name: envoy.filters.network.http_connection_manager
                typed_config:
                  "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                  stat_prefix: backend
                  normalize_path: true
                  internal_address_config:
                    cidr_ranges:
                    - {address_prefix: 10.0.0.0, prefix_len: 8}
                    - {address_prefix: 192.168.0.0, prefix_len: 16}
                    - {address_prefix: 172.16.0.0, prefix_len: 12}
                    - {address_prefix: 127.0.0.1, prefix_len: 32}
                  common_http_protocol_options: {idle_timeout: 0s}
                  request_headers_timeout: 0s
                  http_filters:
                  - name: envoy.filters.http.router
                    typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
                  route_config:
                    name: outbound:backend
                    validate_clusters: false
                    virtual_hosts:
                    - name: backend
                      domains: ["*"]
                      routes:
                      - name: 9Zuf5Tg79OuZcQITwBbQykxAk2u4fRKrwYn3//AL4Yo=
                        match: {prefix: /}
                        route: {cluster: backend, timeout: 0s}
            "#,
        );
    }

    #[test]
    fn other_protocols_are_tcp() {
        for protocol in [Protocol::Tcp, Protocol::Kafka, Protocol::Tls, Protocol::Mysql] {
            let listener = listener(&outbound(protocol, true));
            assert_eq!(listener.bind_to_port, None);
            let filters = at(&listener, "/filterChains/0/filters");
            assert_eq!(filters.as_array().unwrap().len(), 1);
            assert_eq!(filters[0]["name"], "envoy.filters.network.tcp_proxy");
            assert_eq!(filters[0]["typedConfig"]["cluster"], "backend");
            assert_eq!(filters[0]["typedConfig"]["idleTimeout"], "3600s");
        }
    }

    #[test]
    fn grpc_is_counted_by_status() {
        let listener = listener(&outbound(Protocol::Grpc, false));
        let filter = at(&listener, "/filterChains/0/filters/0/typedConfig/httpFilters/0");
        assert_eq!(filter["name"], "envoy.filters.http.grpc_stats");
        assert_eq!(filter["typedConfig"]["emitFilterState"], true);
    }

    #[test]
    fn service_cluster_uses_eds_and_tls_only_with_mtls() {
        let peer = || Arc::new(Peer { sni: "backend{mesh=default}".to_owned(), ..Peer::default() });
        let outbound = |mtls: bool| OutboundCluster {
            name: "backend".into(),
            mesh: "default".into(),
            peer: mtls.then(peer),
            upstream: UpstreamProtocol::Proxy,
            confs: Arc::default(),
        };
        check(
            &cluster(&outbound(false)),
            r#"
            name: backend
            type: EDS
            eds_cluster_config: {eds_config: {ads: {}, resource_api_version: V3}}
            connect_timeout: 5s
            circuit_breakers: {thresholds: [{track_remaining: true}]}
            typed_extension_protocol_options:
              envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
                "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
                common_http_protocol_options: {idle_timeout: 3600s, max_connection_duration: 0s, max_stream_duration: 0s}
                explicit_http_config: {http2_protocol_options: {}}
            "#,
        );
        let with_tls = cluster(&outbound(true));
        assert_eq!(at(&with_tls, "/transportSocket/typedConfig/sni"), "backend{mesh=default}");
        assert_eq!(at(&cluster(&outbound(false)), "/transportSocket"), Value::Null);
    }

    #[test]
    fn port_cluster_is_named_by_kri_and_routes_by_policy() {
        let (mesh, zone) = ("default".to_owned(), "east".to_owned());
        let name = "backend".to_owned();
        let kri = Kri { short: "msvc", mesh, zone, namespace: String::new(), name, section: "http".to_owned() };
        let (hash, policy) = (names::CATCH_ALL_ROUTE.into(), "kri_mhttpr_default_east__all_".into());
        let made = listener(&OutboundListener {
            callee: Callee::Port { kri: Arc::new(kri), host: HostHeader::OwnHostname },
            cluster: "backend__east_default_msvc_80".into(),
            route_names: Arc::new([(hash, policy)].into()),
            ..outbound(Protocol::Http, false)
        });
        let kri = "kri_msvc_default_east__backend_http";
        assert_eq!(at(&made, "/metadata/filterMetadata/io.kuma.tags")["kuma.io/unified-name"], kri);
        let manager = at(&made, "/filterChains/0/filters/0/typedConfig");
        assert_eq!(manager["statPrefix"], "backend__east_default_msvc_80");
        assert_eq!(manager["routeConfig"]["name"], kri);
        let host = &manager["routeConfig"]["virtualHosts"][0];
        assert_eq!(host["name"], "backend__east_default_msvc_80");
        assert_eq!(host["routes"][0]["name"], "kri_mhttpr_default_east__all_");
        assert_eq!(host["routes"][0]["route"]["autoHostRewrite"], true);
        // Kuma sends default timeouts for resources, and none for tags.
        assert_eq!(host["routes"][0]["route"]["timeout"], "15s");
        assert_eq!(host["routes"][0]["route"]["idleTimeout"], "1800s");
    }
}

//! Parts that clusters share.

use std::time::Duration;

use kodiak_envoy::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use kodiak_envoy::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType, DnsLookupFamily};
use kodiak_envoy::envoy::config::cluster::v3::{CircuitBreakers, Cluster};
use kodiak_envoy::envoy::config::core::v3::{
    Address, Http1ProtocolOptions, Http2ProtocolOptions, HttpProtocolOptions as CommonOptions,
};
use kodiak_envoy::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints, lb_endpoint::HostIdentifier,
};
use kodiak_envoy::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use kodiak_envoy::envoy::extensions::upstreams::http::v3::http_protocol_options::explicit_http_config::ProtocolConfig;
use kodiak_envoy::envoy::extensions::upstreams::http::v3::http_protocol_options::{
    ExplicitHttpConfig, UpstreamProtocolOptions,
};
use kodiak_envoy::google::protobuf::Any;
use kodiak_envoy::{any, duration};
use kodiak_policies::target::Upstream;

use crate::input::UpstreamProtocol;
use crate::{names, timeouts};

/// HTTP version for the endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Http {
    One,
    Two,
}

/// Every cluster exports its remaining circuit breaker capacity.
pub(crate) fn cluster(name: &str, discovery: DiscoveryType) -> Cluster {
    Cluster {
        name: name.to_owned(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(discovery.into())),
        connect_timeout: Some(duration(timeouts::CONNECT)),
        circuit_breakers: Some(CircuitBreakers {
            thresholds: vec![Thresholds { track_remaining: true, ..Thresholds::default() }],
            ..CircuitBreakers::default()
        }),
        ..Cluster::default()
    }
}

/// IP families of the addresses that Envoy resolves. On a machine without IPv6, an IPv6 address would never answer.
pub(crate) fn lookup(discovery: DiscoveryType, ipv6: bool) -> DnsLookupFamily {
    if discovery == DiscoveryType::StrictDns && !ipv6 { DnsLookupFamily::V4Only } else { DnsLookupFamily::Auto }
}

/// Sets a stat name, for clusters whose names contain characters that metrics do not allow.
pub(crate) fn with_stat_name(cluster: Cluster) -> Cluster {
    Cluster { alt_stat_name: names::stat_name(&cluster.name), ..cluster }
}

/// A cluster with one static endpoint.
pub(crate) fn of_one(name: &str, address: Address) -> Cluster {
    Cluster { load_assignment: Some(assignment(name, address)), ..with_stat_name(cluster(name, DiscoveryType::Static)) }
}

pub(crate) fn assignment(cluster: &str, address: Address) -> ClusterLoadAssignment {
    ClusterLoadAssignment {
        cluster_name: cluster.to_owned(),
        endpoints: vec![LocalityLbEndpoints {
            lb_endpoints: vec![LbEndpoint { host_identifier: Some(endpoint(address)), ..LbEndpoint::default() }],
            ..LocalityLbEndpoints::default()
        }],
        ..ClusterLoadAssignment::default()
    }
}

pub(crate) fn endpoint(address: Address) -> HostIdentifier {
    HostIdentifier::Endpoint(Endpoint { address: Some(address), ..Endpoint::default() })
}

/// HTTP options of a destination. Envoy ignores them for TCP.
pub(crate) fn http_to(upstream: UpstreamProtocol) -> Option<HttpProtocolOptions> {
    match upstream {
        UpstreamProtocol::Proxy | UpstreamProtocol::Http2 => Some(http_to_service(Http::Two)),
        UpstreamProtocol::ProxyGrpc | UpstreamProtocol::Grpc | UpstreamProtocol::ProxyTcp => Some(options(Http::Two)),
        UpstreamProtocol::Http1 => Some(http_to_service(Http::One)),
        UpstreamProtocol::Tcp => None,
    }
}

/// For destinations and applications: with the default timeouts of a mesh without MeshTimeout.
pub(crate) fn http_to_service(http: Http) -> HttpProtocolOptions {
    let none = Some(duration(Duration::ZERO));
    let common = CommonOptions {
        idle_timeout: Some(duration(timeouts::IDLE)),
        max_connection_duration: none,
        max_stream_duration: none,
        ..CommonOptions::default()
    };
    HttpProtocolOptions { common_http_protocol_options: Some(common), ..options(http) }
}

/// For gRPC applications: without limits for streams.
pub(crate) fn grpc_to_service() -> HttpProtocolOptions {
    options(Http::Two)
}

/// With Envoy's default timeouts.
pub(crate) fn http(http: Http) -> (String, Any) {
    packed(&options(http))
}

/// Packs a cluster after policies changed it.
pub(crate) fn seal(upstream: Upstream) -> Cluster {
    let Upstream { cluster, http, traffic: _ } = upstream;
    Cluster { typed_extension_protocol_options: http.iter().map(packed).collect(), ..cluster }
}

fn options(http: Http) -> HttpProtocolOptions {
    let protocol = match http {
        Http::One => ProtocolConfig::HttpProtocolOptions(Http1ProtocolOptions::default()),
        Http::Two => ProtocolConfig::Http2ProtocolOptions(Http2ProtocolOptions::default()),
    };
    HttpProtocolOptions {
        upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig {
            protocol_config: Some(protocol),
        })),
        ..HttpProtocolOptions::default()
    }
}

fn packed(options: &HttpProtocolOptions) -> (String, Any) {
    ("envoy.extensions.upstreams.http.v3.HttpProtocolOptions".to_owned(), any(options))
}

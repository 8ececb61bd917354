//! Bootstrap and resources of a proxy: one listener, one cluster, one endpoint.

use std::net::SocketAddr;
use std::sync::Arc;

use kodiak_envoy::envoy::config::bootstrap::v3::Bootstrap;
use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::endpoint::v3::ClusterLoadAssignment;
use kodiak_envoy::envoy::config::listener::v3::Listener;
use kodiak_envoy::json::from_json;
use kodiak_xds_stream::{Encoded, TypeUrl};
use serde_json::{Value, json};

use crate::bed::Bed;
use crate::resources::encode;

pub(crate) fn bootstrap(bed: &Bed, api_type: &str) -> Bootstrap {
    let ads = || json!({ "ads": {}, "resourceApiVersion": "V3", "initialFetchTimeout": "0s" });
    let validation = json!({ "trustedCa": { "inlineString": bed.ca_pem } });
    let tls = json!({
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "sni": "localhost",
        "commonTlsContext": { "alpnProtocols": ["h2"], "validationContext": validation },
    });
    let http2 = json!({
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicitHttpConfig": { "http2ProtocolOptions": {} },
    });
    let ads_cluster = json!({
        "name": "ads_cluster",
        "type": "STATIC",
        "connectTimeout": "5s",
        "loadAssignment": assignment_json("ads_cluster", bed.address),
        "transportSocket": { "name": "envoy.transport_sockets.tls", "typedConfig": tls },
        "typedExtensionProtocolOptions": { "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2 },
    });
    let bootstrap = json!({
        "node": { "id": "default.web-1", "cluster": "web" },
        "admin": { "address": address("127.0.0.1:0".parse().unwrap()) },
        "dynamicResources": {
            "adsConfig": {
                "apiType": api_type,
                "transportApiVersion": "V3",
                "setNodeOnFirstMessageOnly": true,
                "grpcServices": [{
                    "envoyGrpc": { "clusterName": "ads_cluster" },
                    "initialMetadata": [{ "key": "authorization", "value": "token" }],
                }],
            },
            "cdsConfig": ads(),
            "ldsConfig": ads(),
        },
        "staticResources": { "clusters": [ads_cluster] },
    });
    from_json(&bootstrap).unwrap()
}

/// Waits for its endpoints without a timeout.
pub(crate) fn cluster(connect_timeout: &str) -> (TypeUrl, Arc<Encoded>) {
    let eds = json!({ "edsConfig": { "ads": {}, "resourceApiVersion": "V3", "initialFetchTimeout": "0s" } });
    let cluster =
        json!({ "name": "backend", "type": "EDS", "connectTimeout": connect_timeout, "edsClusterConfig": eds });
    (TypeUrl::Cluster, encode::<Cluster>("backend", &from_json(&cluster).unwrap(), &[]))
}

/// Never gets warm: it waits for endpoints of a service that the server does not have.
pub(crate) fn cold_cluster() -> (TypeUrl, Arc<Encoded>) {
    let grpc = json!({ "envoyGrpc": { "clusterName": "ads_cluster" } });
    let source = json!({ "apiType": "GRPC", "transportApiVersion": "V3", "grpcServices": [grpc] });
    let eds = json!({ "apiConfigSource": source, "resourceApiVersion": "V3", "initialFetchTimeout": "0s" });
    let cluster = json!({ "name": "cold", "type": "EDS", "edsClusterConfig": { "edsConfig": eds } });
    (TypeUrl::Cluster, encode::<Cluster>("cold", &from_json(&cluster).unwrap(), &[]))
}

pub(crate) fn assignment(endpoint: SocketAddr) -> (TypeUrl, Arc<Encoded>) {
    let assignment = from_json(&assignment_json("backend", endpoint)).unwrap();
    (TypeUrl::Endpoint, encode::<ClusterLoadAssignment>("backend", &assignment, &[]))
}

/// Envoy rejects an empty prefix.
pub(crate) fn listener(stat_prefix: &str) -> (TypeUrl, Arc<Encoded>) {
    let route = json!({ "match": { "prefix": "/" }, "route": { "cluster": "backend" } });
    let router = json!({ "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router" });
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "statPrefix": stat_prefix,
        "httpFilters": [{ "name": "envoy.filters.http.router", "typedConfig": router }],
        "routeConfig": { "name": "all", "virtualHosts": [{ "name": "all", "domains": ["*"], "routes": [route] }] },
    });
    let listener = json!({
        "name": "outbound",
        "address": address("127.0.0.1:0".parse().unwrap()),
        "filterChains": [{
            "filters": [{ "name": "envoy.filters.network.http_connection_manager", "typedConfig": manager }],
        }],
    });
    (
        TypeUrl::Listener,
        encode::<Listener>("outbound", &from_json(&listener).unwrap(), &[(TypeUrl::Cluster, "backend".into())]),
    )
}

fn assignment_json(cluster: &str, endpoint: SocketAddr) -> Value {
    let endpoint = json!({ "endpoint": { "address": address(endpoint) } });
    json!({ "clusterName": cluster, "endpoints": [{ "lbEndpoints": [endpoint] }] })
}

fn address(address: SocketAddr) -> Value {
    json!({ "socketAddress": { "address": address.ip().to_string(), "portValue": address.port() } })
}

//! Minimal xDS client: an ADS stream that subscribes to all clusters, and to more types if it is told so.

use kodiak_envoy::envoy::{
    config::core::v3::Node,
    extensions::transport_sockets::tls::v3::Secret,
    service::discovery::v3::{DiscoveryRequest, DiscoveryResponse},
};
use kodiak_xds_stream::TypeUrl;
use prost::Message as _;

use crate::{
    grpc::{GrpcStream, token},
    harness::TestControlPlane,
};

const ADS: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

/// Connected proxy.
pub(crate) struct Stream(GrpcStream<DiscoveryRequest, DiscoveryResponse>);

impl Stream {
    /// Connects as a stored Dataplane, and subscribes to its clusters.
    pub(crate) async fn connect(cp: &TestControlPlane, mesh: &str, name: &str) -> Self {
        let node = Node { id: format!("{mesh}.{name}"), ..Node::default() };
        let first = DiscoveryRequest {
            node: Some(node),
            type_url: TypeUrl::Cluster.as_str().to_owned(),
            ..DiscoveryRequest::default()
        };
        Self(GrpcStream::open(cp, ADS, &token(cp, mesh, name).await, &first).await)
    }

    /// Subscribes to all resources of one more type.
    pub(crate) fn request(&self, type_url: TypeUrl) {
        self.0.send(&DiscoveryRequest { type_url: type_url.as_str().to_owned(), ..DiscoveryRequest::default() });
    }

    /// Secrets are requested by their names.
    pub(crate) fn request_secrets(&self, names: &[&str]) {
        self.0.send(&DiscoveryRequest {
            type_url: TypeUrl::Secret.as_str().to_owned(),
            resource_names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..DiscoveryRequest::default()
        });
    }

    /// Waits for the next resources, and acknowledges them.
    pub(crate) async fn receive(&mut self) -> DiscoveryResponse {
        let response = self.next().await;
        self.acknowledge(&response);
        response
    }

    pub(crate) fn acknowledge(&self, response: &DiscoveryResponse) {
        let is_secret = response.type_url == TypeUrl::Secret.as_str();
        let secrets = response.resources.iter().filter(|_| is_secret);
        self.0.send(&DiscoveryRequest {
            resource_names: secrets.map(|any| Secret::decode(&*any.value).unwrap().name).collect(),
            type_url: response.type_url.clone(),
            version_info: response.version_info.clone(),
            response_nonce: response.nonce.clone(),
            ..DiscoveryRequest::default()
        });
    }

    pub(crate) async fn next(&mut self) -> DiscoveryResponse {
        self.0.next().await
    }
}

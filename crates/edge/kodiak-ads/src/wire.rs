//! Wire formats of delta and state-of-the-world xDS: decoding of requests, and the head of a response.

use std::sync::Arc;

use bytes::Bytes;
use kodiak_envoy::envoy::config::core::v3::Node;
use kodiak_envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use kodiak_envoy::google::rpc::Status;
use kodiak_xds_stream::{Encoded, Nonce, Response, Subscription, Version, delta, sotw};
use prost::Message;

use crate::proxies::Protocol;

pub(crate) trait Wire: Subscription<Request: Send> + Send + 'static {
    const PROTOCOL: Protocol;
    type Message: Message + Default;

    fn node(message: &mut Self::Message) -> Option<Node>;

    fn type_url(message: &Self::Message) -> &str;

    fn read(message: Self::Message) -> Self::Request;

    /// All names in a request, to bound them.
    fn named(request: &Self::Request) -> impl Iterator<Item = &Arc<str>>;

    /// The message without its resources.
    fn head(response: &Response) -> Vec<u8>;

    /// A resource as encoded in the message.
    fn entry(resource: &Encoded) -> &Bytes;
}

impl Wire for delta::Subscription {
    const PROTOCOL: Protocol = Protocol::Delta;
    type Message = DeltaDiscoveryRequest;

    fn node(message: &mut Self::Message) -> Option<Node> {
        message.node.take()
    }

    fn type_url(message: &Self::Message) -> &str {
        &message.type_url
    }

    fn read(message: Self::Message) -> Self::Request {
        let initial = message.initial_resource_versions.into_iter();
        delta::Request {
            subscribe: shared(message.resource_names_subscribe),
            unsubscribe: shared(message.resource_names_unsubscribe),
            initial: initial.map(|(name, version)| (name.into(), Version::from_wire(&version))).collect(),
            nonce: Nonce::from_wire(&message.response_nonce),
            error: error(message.error_detail),
        }
    }

    fn named(request: &Self::Request) -> impl Iterator<Item = &Arc<str>> {
        let initial = request.initial.iter().map(|(name, _)| name);
        request.subscribe.iter().chain(&request.unsubscribe).chain(initial)
    }

    fn head(response: &Response) -> Vec<u8> {
        let removed = response.removed.iter().map(|name| String::from(&**name));
        let head = DeltaDiscoveryResponse {
            type_url: response.type_url.as_str().to_owned(),
            removed_resources: removed.collect(),
            nonce: response.nonce.to_string(),
            ..DeltaDiscoveryResponse::default()
        };
        head.encode_to_vec()
    }

    fn entry(resource: &Encoded) -> &Bytes {
        &resource.delta
    }
}

impl Wire for sotw::Subscription {
    const PROTOCOL: Protocol = Protocol::StateOfTheWorld;
    type Message = DiscoveryRequest;

    fn node(message: &mut Self::Message) -> Option<Node> {
        message.node.take()
    }

    fn type_url(message: &Self::Message) -> &str {
        &message.type_url
    }

    fn read(message: Self::Message) -> Self::Request {
        sotw::Request {
            names: shared(message.resource_names),
            version: Version::from_wire(&message.version_info),
            nonce: Nonce::from_wire(&message.response_nonce),
            error: error(message.error_detail),
        }
    }

    fn named(request: &Self::Request) -> impl Iterator<Item = &Arc<str>> {
        request.names.iter()
    }

    fn head(response: &Response) -> Vec<u8> {
        let head = DiscoveryResponse {
            version_info: response.version.map(|version| version.to_string()).unwrap_or_default(),
            type_url: response.type_url.as_str().to_owned(),
            nonce: response.nonce.to_string(),
            ..DiscoveryResponse::default()
        };
        head.encode_to_vec()
    }

    fn entry(resource: &Encoded) -> &Bytes {
        &resource.sotw
    }
}

fn shared(names: Vec<String>) -> Vec<Arc<str>> {
    names.into_iter().map(Arc::from).collect()
}

/// An `error_detail` without a message is a NACK too.
fn error(detail: Option<Status>) -> Option<Arc<str>> {
    detail.map(|detail| detail.message.into())
}

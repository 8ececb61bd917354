//! Messages on xDS streams, decoded and passed to the state machine like the proxy port does.
//!
//! The first byte selects the protocol. The rest is split into messages: a length byte, then that many bytes.
#![no_main]

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use kodiak_envoy::{
    envoy::{
        config::core::v3::Node,
        service::{
            discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest},
            health::v3::HealthCheckRequestOrEndpointHealthResponse,
        },
    },
    json,
};
use kodiak_model::kinds::dataplane::Dataplane;
use kodiak_xds::{health::Findings, node::NodeMetadata};
use kodiak_xds_stream::{
    Encoded, Event, Nonce, Requested, ResourceSet, Response, Snapshot, Stream, Subscription, TypeUrl, Version, delta,
    sotw,
};
use libfuzzer_sys::fuzz_target;
use prost::Message;

/// Two resources of each type. Listeners and routes wait for clusters.
static SNAPSHOT: LazyLock<Arc<Snapshot>> = LazyLock::new(|| {
    let mut resources = ResourceSet::default();
    for type_url in TypeUrl::ALL {
        for name in ["a", "b"] {
            let bytes = Bytes::from_static(b"resource");
            let needs: Box<[_]> = match type_url {
                TypeUrl::Listener | TypeUrl::Route => Box::new([(TypeUrl::Cluster, name.into())]),
                TypeUrl::Cluster | TypeUrl::Endpoint | TypeUrl::Secret => Box::default(),
            };
            let encoded = Encoded { name: name.into(), version: Version(7), needs, delta: bytes.clone(), sotw: bytes };
            resources.insert(type_url, Arc::new(encoded));
        }
    }
    Arc::new(Snapshot { revision: 1, resources })
});

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    match first % 3 {
        0 => talk::<delta::Subscription, DeltaDiscoveryRequest>(rest, read_delta),
        1 => talk::<sotw::Subscription, DiscoveryRequest>(rest, read_sotw),
        _ => health(rest),
    }
});

fn talk<S: Subscription, M: Message + Default>(data: &[u8], read: fn(M) -> (Option<Node>, Requested, S::Request)) {
    let mut stream: Stream<S> = Stream::default();
    let mut responses = stream.on(Event::Snapshot(SNAPSHOT.clone()));
    for part in parts(data) {
        let Ok(message) = M::decode(part) else { continue };
        let (node, type_url, request) = read(message);
        if let Some(node) = node {
            introduce(&node);
        }
        responses.extend(stream.on(Event::Request(type_url, request)));
    }
    assert!(stream.names() <= data.len(), "{} names are kept of {} bytes", stream.names(), data.len());
    let names = |response: &Response| response.removed.len();
    assert!(responses.iter().map(names).sum::<usize>() <= 10 + data.len());
}

fn read_delta(message: DeltaDiscoveryRequest) -> (Option<Node>, Requested, delta::Request) {
    let initial = message.initial_resource_versions.into_iter();
    let request = delta::Request {
        subscribe: shared(message.resource_names_subscribe),
        unsubscribe: shared(message.resource_names_unsubscribe),
        initial: initial.map(|(name, version)| (name.into(), Version::from_wire(&version))).collect(),
        nonce: Nonce::from_wire(&message.response_nonce),
        error: message.error_detail.map(|detail| detail.message.into()),
    };
    (message.node, Requested::from_wire(&message.type_url), request)
}

fn read_sotw(message: DiscoveryRequest) -> (Option<Node>, Requested, sotw::Request) {
    let request = sotw::Request {
        names: shared(message.resource_names),
        version: Version::from_wire(&message.version_info),
        nonce: Nonce::from_wire(&message.response_nonce),
        error: message.error_detail.map(|detail| detail.message.into()),
    };
    (message.node, Requested::from_wire(&message.type_url), request)
}

fn shared(names: Vec<String>) -> Vec<Arc<str>> {
    names.into_iter().map(Arc::from).collect()
}

fn health(data: &[u8]) {
    use kodiak_envoy::envoy::service::health::v3::health_check_request_or_endpoint_health_response::RequestType;
    for part in parts(data) {
        match HealthCheckRequestOrEndpointHealthResponse::decode(part).ok().and_then(|message| message.request_type) {
            Some(RequestType::HealthCheckRequest(request)) => {
                if let Some(node) = request.node {
                    introduce(&node);
                }
            }
            Some(RequestType::EndpointHealthResponse(report)) => {
                Findings::read(report).apply(&mut Dataplane::default(), true);
            }
            None => (),
        }
    }
}

/// Node metadata round-trips.
fn introduce(node: &Node) {
    let Some(metadata) = &node.metadata else { return };
    let read = NodeMetadata::read(metadata);
    assert_eq!(NodeMetadata::read(&read.write()), read);
    let _ = json::to_json(metadata);
}

fn parts(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = data.split_first()?;
        let (part, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        data = rest;
        Some(part)
    })
}

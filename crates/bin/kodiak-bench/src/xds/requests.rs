//! What a proxy says: its requests, as Envoy writes them.

use bytes::{BufMut as _, Bytes, BytesMut};
use kodiak_envoy::envoy::{
    config::core::v3::Node,
    service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest},
};
use kodiak_xds_stream::TypeUrl;
use prost::Message as _;

use super::scan::field;

/// How a proxy wants to be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Delta,
    StateOfTheWorld,
}

/// A response that is to be acknowledged, and what the proxy has from it.
#[derive(Debug, Default)]
pub(super) struct Answered<'a> {
    pub(super) version: &'a str,
    pub(super) nonce: &'a str,
}

impl Protocol {
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Delta => "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
            Self::StateOfTheWorld => "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources",
        }
    }

    /// A request for these names (as [`write_name`] writes them), an answer to a response, or both.
    pub(super) fn request(
        self,
        node: Option<&Node>,
        type_url: TypeUrl,
        names: &[u8],
        answered: &Answered<'_>,
    ) -> Bytes {
        let (node, type_url) = (node.cloned(), type_url.as_str().to_owned());
        let (version_info, response_nonce) = (answered.version.to_owned(), answered.nonce.to_owned());
        let head = match self {
            Self::Delta => DeltaDiscoveryRequest { node, type_url, response_nonce, ..DeltaDiscoveryRequest::default() }
                .encode_to_vec(),
            Self::StateOfTheWorld => {
                DiscoveryRequest { node, type_url, version_info, response_nonce, ..DiscoveryRequest::default() }
                    .encode_to_vec()
            }
        };
        let length = head.len() + names.len();
        let mut message = BytesMut::with_capacity(5 + length);
        message.put_u8(0);
        message.put_u32(u32::try_from(length).expect("a request for all services is far shorter than 4 GiB"));
        message.put_slice(&head);
        // Repeated fields concatenate, and names have the same number in both protocols.
        message.put_slice(names);
        message.freeze()
    }

    /// The name of a resource as it stands in a response.
    pub(super) fn name(self, resource: &[u8]) -> &[u8] {
        let name = match self {
            Self::Delta => field(resource, 3),
            // In the resource itself. It is the first field of all that are served.
            Self::StateOfTheWorld => field(resource, 2).and_then(|content| field(content, 1)),
        };
        name.unwrap_or_default()
    }
}

/// Adds a name to those that are asked for.
pub(super) fn write_name(name: &[u8], names: &mut Vec<u8>) {
    prost::encoding::encode_key(3, prost::encoding::WireType::LengthDelimited, names);
    prost::encoding::encode_varint(name.len() as u64, names);
    names.extend_from_slice(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_request_in_both_protocols() {
        let mut names = Vec::new();
        write_name(b"one", &mut names);
        write_name(b"two", &mut names);
        let answered = Answered { version: "v", nonce: "7" };
        let delta = Protocol::Delta.request(None, TypeUrl::Endpoint, &names, &answered);
        let delta = DeltaDiscoveryRequest::decode(&delta[5..]).unwrap();
        assert_eq!(delta.resource_names_subscribe, ["one", "two"]);
        assert_eq!((&*delta.type_url, &*delta.response_nonce), (TypeUrl::Endpoint.as_str(), "7"));
        let sotw = Protocol::StateOfTheWorld.request(None, TypeUrl::Endpoint, &names, &answered);
        let sotw = DiscoveryRequest::decode(&sotw[5..]).unwrap();
        assert_eq!(sotw.resource_names, ["one", "two"]);
        assert_eq!((&*sotw.version_info, &*sotw.response_nonce), ("v", "7"));
    }
}

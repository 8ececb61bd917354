//! Encodes messages into bytes that both xDS variants send.

use std::sync::Arc;

use bytes::Bytes;
use kodiak_envoy::TypeUrl;
use kodiak_xds_stream::{Encoded, Need, Version};
use prost::encoding::{encode_varint, encoded_len_varint};
use xxhash_rust::xxh3::xxh3_128;

/// Length-delimited field 2: `resources` in both responses, and `resource` in a delta `Resource`.
const FIELD_2: u8 = 0x12;
/// Fields 1 and 3 of a delta `Resource`: `version` and `name`.
const VERSION: u8 = 0x0a;
const NAME: u8 = 0x1a;

/// A message that refers to no other resource. The version is a hash of the content.
pub fn encode<M: TypeUrl>(name: &str, message: &M) -> Arc<Encoded> {
    encode_referring(name, message, &[])
}

/// A message that refers to these resources.
pub(crate) fn encode_referring<M: TypeUrl>(name: &str, message: &M, needs: &[Need]) -> Arc<Encoded> {
    let any = kodiak_envoy::any(message);
    let content = prost::Message::encode_to_vec(&any);
    lay_out(name, Version(xxh3_128(&content)), needs, &content)
}

/// For content that differs each time it is built although it is equivalent, such as a signature.
pub fn encode_as<M: TypeUrl>(name: &str, version: Version, message: &M) -> Arc<Encoded> {
    let any = kodiak_envoy::any(message);
    lay_out(name, version, &[], &prost::Message::encode_to_vec(&any))
}

/// Puts the `Any` last, so that the end of a delta entry is a state-of-the-world entry.
fn lay_out(name: &str, version: Version, needs: &[Need], any: &[u8]) -> Arc<Encoded> {
    let text = version.to_string();
    let parts: [(u8, &[u8]); 3] = [(VERSION, text.as_bytes()), (NAME, name.as_bytes()), (FIELD_2, any)];
    let inner: usize = parts.iter().map(|(_, part)| 1 + encoded_len_varint(part.len() as u64) + part.len()).sum();
    let mut bytes = Vec::with_capacity(1 + encoded_len_varint(inner as u64) + inner);
    let mut sotw_at = 0;
    bytes.push(FIELD_2);
    encode_varint(inner as u64, &mut bytes);
    for (tag, part) in parts {
        sotw_at = bytes.len();
        bytes.push(tag);
        encode_varint(part.len() as u64, &mut bytes);
        bytes.extend_from_slice(part);
    }
    let delta = Bytes::from(bytes);
    let sotw = delta.slice(sotw_at..);
    Arc::new(Encoded { name: name.into(), version, needs: needs.into(), delta, sotw })
}

#[cfg(test)]
mod tests {
    use kodiak_envoy::envoy::{
        config::cluster::v3::Cluster,
        service::discovery::v3::{DeltaDiscoveryResponse, DiscoveryResponse},
    };
    use prost::Message;

    use super::*;

    #[test]
    fn entries_decode_in_both_protocols() {
        let cluster = Cluster { name: "backend".to_owned(), ..Cluster::default() };
        let encoded = encode("backend", &cluster);
        let delta =
            DeltaDiscoveryResponse::decode([&encoded.delta[..], &encoded.delta[..]].concat().as_slice()).unwrap();
        assert_eq!(delta.resources.len(), 2);
        assert_eq!(delta.resources[0].name, "backend");
        assert_eq!(delta.resources[0].version, encoded.version.to_string());
        let sotw = DiscoveryResponse::decode(encoded.sotw.clone()).unwrap();
        assert_eq!(sotw.resources[0], kodiak_envoy::any(&cluster));
        assert_eq!(delta.resources[0].resource.as_ref(), Some(&sotw.resources[0]));
    }

    #[test]
    fn version_is_the_same_on_every_machine() {
        let cluster = Cluster { name: "backend".to_owned(), ..Cluster::default() };
        assert_eq!(encode("backend", &cluster).version.to_string(), "498a303701bfde37df54707b98d1f2f8");
    }
}

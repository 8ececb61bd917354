//! Merges messages field by field, as protobuf does.
//!
//! Scalars are replaced, messages are merged, lists are concatenated, and entries of maps are replaced. Messages that
//! stand for one value are replaced as a whole: durations, wrapped scalars, and a nested `Any`.

use bytes::Bytes;
use prost::{Message, Name};
use prost_reflect::{DynamicMessage, MessageDescriptor, ReflectMessage, Value as Field};

use crate::google::protobuf::Any;
use crate::json::{JsonError, decode, descriptor, encoded};
use crate::type_url::message_name;

/// Messages that are replaced.
const VALUES: &[&str] = &[
    "google.protobuf.Any",
    "google.protobuf.BoolValue",
    "google.protobuf.BytesValue",
    "google.protobuf.DoubleValue",
    "google.protobuf.Duration",
    "google.protobuf.FloatValue",
    "google.protobuf.Int32Value",
    "google.protobuf.Int64Value",
    "google.protobuf.StringValue",
    "google.protobuf.Timestamp",
    "google.protobuf.UInt32Value",
    "google.protobuf.UInt64Value",
    "google.protobuf.Value",
];

#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    #[error("a {patch} cannot be merged into a {message}")]
    OtherType { message: String, patch: String },
    #[error(transparent)]
    Message(#[from] JsonError),
}

pub fn merge<M: Message + Name + Default>(message: &M, patch: &M) -> Result<M, MergeError> {
    let name = M::full_name();
    let merged = merged(descriptor(&name)?, &message.encode_to_vec(), &patch.encode_to_vec())?;
    Ok(merged.transcode_to().map_err(|source| JsonError::Bytes { message: name, source })?)
}

/// Merges the messages inside, which must have the same type.
pub fn merge_any(message: &Any, patch: &Any) -> Result<Any, MergeError> {
    let [name, other] = [message, patch].map(|any| message_name(&any.type_url));
    if name != other {
        return Err(MergeError::OtherType { message: name.to_owned(), patch: other.to_owned() });
    }
    let merged = merged(descriptor(name)?, &message.value, &patch.value)?;
    Ok(Any { type_url: message.type_url.clone(), value: Bytes::from(encoded(&merged)?) })
}

fn merged(descriptor: MessageDescriptor, message: &[u8], patch: &[u8]) -> Result<DynamicMessage, JsonError> {
    let mut message = decode(descriptor.clone(), message)?;
    merge_into(&mut message, decode(descriptor, patch)?);
    Ok(message)
}

fn merge_into(message: &mut DynamicMessage, mut patch: DynamicMessage) {
    for (field, value) in patch.take_fields() {
        let known = if message.has_field(&field) { Some(message.get_field_mut(&field)) } else { None };
        match (known, value) {
            (Some(Field::List(items)), Field::List(more)) => items.extend(more),
            (Some(Field::Map(entries)), Field::Map(more)) => entries.extend(more),
            (Some(Field::Message(inner)), Field::Message(more)) if !VALUES.contains(&more.descriptor().full_name()) => {
                merge_into(inner, more);
            }
            (_, value) => message.set_field(&field, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::envoy::config::cluster::v3::Cluster;
    use crate::json::{from_json, to_json};

    fn merged(message: &Value, patch: &Value) -> Value {
        let [message, patch] = [message, patch].map(|json| from_json::<Cluster>(json).unwrap());
        to_json(&merge(&message, &patch).unwrap()).unwrap()
    }

    #[test]
    fn scalars_are_replaced_messages_merged_and_lists_concatenated() {
        let message = json!({
            "name": "a",
            "type": "EDS",
            "edsClusterConfig": { "serviceName": "s", "edsConfig": { "ads": {} } },
            "circuitBreakers": { "thresholds": [{ "maxRetries": 1 }] },
        });
        let patch = json!({
            "type": "STATIC",
            "edsClusterConfig": { "edsConfig": { "resourceApiVersion": "V3" } },
            "circuitBreakers": { "thresholds": [{ "maxRetries": 2 }] },
        });
        let expected = json!({
            "circuitBreakers": { "thresholds": [{ "maxRetries": 1 }, { "maxRetries": 2 }] },
            "edsClusterConfig": { "edsConfig": { "ads": {}, "resourceApiVersion": "V3" }, "serviceName": "s" },
            "name": "a",
            "type": "STATIC",
        });
        assert_eq!(merged(&message, &patch), expected);
    }

    #[test]
    fn durations_and_wrapped_values_are_replaced() {
        let message = json!({ "connectTimeout": "5.5s", "perConnectionBufferLimitBytes": 10 });
        let patch = json!({ "connectTimeout": "12s", "perConnectionBufferLimitBytes": 0 });
        assert_eq!(merged(&message, &patch), patch);
    }

    #[test]
    fn entries_of_maps_are_replaced() {
        let of = |fields: Value| json!({ "metadata": { "filterMetadata": fields } });
        let message = of(json!({ "a": { "x": 1.0 }, "b": { "x": 1.0 } }));
        let patch = of(json!({ "b": { "y": 2.0 }, "c": {} }));
        assert_eq!(merged(&message, &patch), of(json!({ "a": { "x": 1.0 }, "b": { "y": 2.0 }, "c": {} })));
    }

    #[test]
    fn member_of_a_oneof_replaces_another_one() {
        let config = json!({ "name": "x", "typedConfig": { "@type": "type.googleapis.com/google.protobuf.Struct", "value": {} } });
        assert_eq!(
            merged(&json!({ "type": "EDS" }), &json!({ "clusterType": config })),
            json!({ "clusterType": config })
        );
    }

    #[test]
    fn messages_of_different_types_are_not_merged() {
        let any = |name: &str| Any { type_url: format!("type.googleapis.com/{name}"), value: Bytes::new() };
        let (lua, router) =
            ("envoy.extensions.filters.http.lua.v3.Lua", "envoy.extensions.filters.http.router.v3.Router");
        let error = merge_any(&any(router), &any(lua)).unwrap_err();
        assert_eq!(error.to_string(), format!("a {lua} cannot be merged into a {router}"));
    }
}

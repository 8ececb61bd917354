//! Messages as JSON, for `inspect`, `render` and golden files.
//!
//! This is protobuf's JSON mapping, with each nested `Any` written out under its `@type`, and the keys of objects in
//! alphabetical order. `from_json::<Any>` reads the output of `to_json`.
//!
//! prost has no JSON support, so messages pass through descriptors, which exist for all messages of Envoy's API. Those
//! use hash maps and another field order; therefore each `Any` is re-encoded, see `settle`.

use std::sync::LazyLock;

use bytes::Bytes;
use prost::{DecodeError, Message, Name};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, ReflectMessage, Value as Field};
use serde_json::{Map, Value};

use crate::canonical::canonical;
use crate::google::protobuf::Any;
use crate::type_url::{Listed, message_name};

/// Maximum nesting depth of messages, counted through nested `Any`s. It is prost's own limit for one message.
const MAX_DEPTH: usize = 100;

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(&include_bytes!("../descriptors.bin")[..])
        .expect("kodiak-protogen wrote the descriptors, and the tests read them")
});

#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    #[error("unknown message type {0:?}")]
    UnknownType(String),
    #[error("messages are nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("the bytes are not a valid {message}")]
    Bytes { message: String, source: DecodeError },
    #[error("the message cannot be converted to JSON")]
    NoJson(#[source] serde_json::Error),
    #[error("the JSON is not a valid {message}")]
    Json { message: String, source: serde_json::Error },
}

pub fn to_json<M: Message + Name>(message: &M) -> Result<Value, JsonError> {
    let descriptor = descriptor(&M::full_name())?;
    let mut dynamic = decode(descriptor, &message.encode_to_vec())?;
    settle(&mut dynamic, MAX_DEPTH)?;
    serde_json::to_value(&dynamic).map(sorted).map_err(JsonError::NoJson)
}

/// Accepts field names in both spellings, `connectTimeout` and `connect_timeout`, and rejects unknown ones.
pub fn from_json<M: Message + Name + Default>(json: &Value) -> Result<M, JsonError> {
    if !is_shallow(json, MAX_DEPTH) {
        return Err(JsonError::TooDeep);
    }
    let message = M::full_name();
    let mut dynamic = DynamicMessage::deserialize(descriptor(&message)?, json)
        .map_err(|source| JsonError::Json { message: message.clone(), source })?;
    settle(&mut dynamic, MAX_DEPTH)?;
    dynamic.transcode_to().map_err(|source| JsonError::Bytes { message, source })
}

pub(crate) fn descriptor(message: &str) -> Result<MessageDescriptor, JsonError> {
    POOL.get_message_by_name(message).ok_or_else(|| JsonError::UnknownType(message.to_owned()))
}

pub(crate) fn decode(descriptor: MessageDescriptor, bytes: &[u8]) -> Result<DynamicMessage, JsonError> {
    let message = descriptor.full_name().to_owned();
    DynamicMessage::decode(descriptor, bytes).map_err(|source| JsonError::Bytes { message, source })
}

/// Bytes of a message without nested `Any`s that are not settled: by its Rust type if there is one, so that they equal
/// those of messages that are made in Rust.
pub(crate) fn encoded(message: &DynamicMessage) -> Result<Vec<u8>, JsonError> {
    let name = message.descriptor().full_name().to_owned();
    match Listed::find(&name) {
        Some(listed) => {
            (listed.encode_again)(&message.encode_to_vec()).map_err(|source| JsonError::Bytes { message: name, source })
        }
        None => Ok(canonical(message)),
    }
}

/// Re-encodes every nested `Any`, from the inside out.
fn settle(message: &mut DynamicMessage, depth: usize) -> Result<(), JsonError> {
    let depth = depth.checked_sub(1).ok_or(JsonError::TooDeep)?;
    if message.descriptor().full_name() == Any::full_name() {
        return settle_any(message, depth);
    }
    message.fields_mut().try_for_each(|(_, field)| settle_field(field, depth))
}

fn settle_field(field: &mut Field, depth: usize) -> Result<(), JsonError> {
    match field {
        Field::Message(message) => settle(message, depth),
        Field::List(fields) => fields.iter_mut().try_for_each(|field| settle_field(field, depth)),
        Field::Map(fields) => fields.values_mut().try_for_each(|field| settle_field(field, depth)),
        _ => Ok(()),
    }
}

fn settle_any(message: &mut DynamicMessage, depth: usize) -> Result<(), JsonError> {
    let not_bytes = |name: &str| {
        let message = name.to_owned();
        |source| JsonError::Bytes { message, source }
    };
    let any: Any = message.transcode_to().map_err(not_bytes("google.protobuf.Any"))?;
    let known = POOL.get_message_by_name(message_name(&any.type_url));
    let known = known.ok_or_else(|| JsonError::UnknownType(any.type_url.clone()))?;
    let mut inner = decode(known, &any.value)?;
    settle(&mut inner, depth)?;
    let settled = Any { type_url: any.type_url, value: Bytes::from(encoded(&inner)?) };
    *message = DynamicMessage::new(message.descriptor());
    message.transcode_from(&settled).map_err(not_bytes("google.protobuf.Any"))
}

/// Objects keep insertion order, which is that of a hash map where the message has a map.
fn sorted(json: Value) -> Value {
    match json {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(entries.into_iter().collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        plain => plain,
    }
}

fn is_shallow(json: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    match json {
        Value::Object(object) => object.values().all(|value| is_shallow(value, depth)),
        Value::Array(items) => items.iter().all(|value| is_shallow(value, depth)),
        _ => true,
    }
}

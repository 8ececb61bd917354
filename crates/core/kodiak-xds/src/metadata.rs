//! Tags as metadata of Envoy resources.

use std::collections::BTreeMap;

use kodiak_envoy::envoy::config::core::v3::Metadata;
use kodiak_envoy::google::protobuf::{Struct, Value, value::Kind};

use crate::input::Tags;

pub(crate) fn under(keys: &[&str], tags: &Tags) -> Metadata {
    let tags = of_tags(tags);
    Metadata {
        filter_metadata: keys.iter().map(|key| ((*key).to_owned(), tags.clone())).collect(),
        ..Metadata::default()
    }
}

pub(crate) fn boolean(value: bool) -> Value {
    Value { kind: Some(Kind::BoolValue(value)) }
}

pub(crate) fn string(text: &str) -> Value {
    Value { kind: Some(Kind::StringValue(text.to_owned())) }
}

fn of_tags(tags: &Tags) -> Struct {
    let fields: BTreeMap<_, _> = tags.iter().map(|(key, value)| (key.clone(), string(value))).collect();
    Struct { fields }
}

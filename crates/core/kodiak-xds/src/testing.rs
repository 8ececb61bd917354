//! Compares messages with YAML, for tests.

use kodiak_envoy::json::{from_json, to_json};
use kodiak_model::yaml;
use prost::{Message, Name};
use serde_json::Value;

use crate::input::Tags;

/// Accepts field names in either spelling; shows a difference as YAML.
#[track_caller]
pub(crate) fn check<M: Message + Name + Default>(message: &M, expected: &str) {
    let document = yaml::parse(expected).unwrap().remove(0).value;
    let expected: M = from_json(&document).unwrap();
    assert_eq!(shown(message), shown(&expected));
}

pub(crate) fn shown<M: Message + Name>(message: &M) -> String {
    yaml::to_string(&to_json(message).unwrap())
}

/// The value at a JSON pointer such as `/filterChains/0/filters`.
#[track_caller]
pub(crate) fn at<M: Message + Name>(message: &M, path: &str) -> Value {
    to_json(message).unwrap().pointer(path).cloned().unwrap_or(Value::Null)
}

pub(crate) fn tags(tags: &[(&str, &str)]) -> Tags {
    tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

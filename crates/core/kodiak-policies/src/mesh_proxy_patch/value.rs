//! Values of modifications: Envoy's messages in YAML, and how they change a message.

use std::error::Error;

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::listener::v3::{Filter, Listener};
use kodiak_envoy::envoy::config::route::v3::VirtualHost;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use kodiak_envoy::google::protobuf::Any;
use kodiak_envoy::json::{from_json, to_json};
use kodiak_envoy::merge::merge;
use kodiak_model::yaml;
use prost::{Message, Name};

use super::{JsonPatch, json_patch};

/// A message that modifications select by name.
pub(super) trait NamedMessage: Message + Name + Default + Clone + PartialEq {
    fn name(&self) -> &str;
}

macro_rules! named {
    ($($message:ty),*) => {$(
        impl NamedMessage for $message {
            fn name(&self) -> &str {
                &self.name
            }
        }
    )*};
}

named!(Cluster, Listener, VirtualHost, Filter, HttpFilter);

/// Parses a message of Envoy from YAML.
pub(super) fn parse<M: Message + Name + Default>(text: &str) -> Result<M, String> {
    let documents = yaml::parse(text).map_err(|error| error.to_string())?;
    match documents.as_slice() {
        [document] if document.value.is_object() => from_json(&document.value).map_err(|error| chain(&error)),
        [_] => Err("it is not an object".to_owned()),
        _ => Err("it is not one document".to_owned()),
    }
}

/// A change of a message.
#[derive(Debug)]
pub(super) enum Edit<M> {
    Merge(Box<M>),
    Json(Vec<JsonPatch>),
}

impl<M: NamedMessage> Edit<M> {
    /// JSON patches take precedence over a value.
    pub(super) fn of(value: Option<&str>, patches: Option<&[JsonPatch]>) -> Result<Self, String> {
        match patches.unwrap_or_default() {
            [] => Ok(Self::Merge(Box::new(parse(value.unwrap_or_default())?))),
            patches => Ok(Self::Json(patches.to_vec())),
        }
    }

    pub(super) fn apply(&self, message: &M) -> Result<M, String> {
        match self {
            Self::Merge(value) => merge(message, value).map_err(|error| chain(&error)),
            Self::Json(patches) => patch(message, patches),
        }
    }
}

/// Applies JSON patches to the JSON of a message.
fn patch<M: Message + Name + Default>(message: &M, patches: &[JsonPatch]) -> Result<M, String> {
    let mut json = to_json(message).map_err(|error| chain(&error))?;
    json_patch::apply(&mut json, patches)?;
    from_json(&json).map_err(|error| chain(&error))
}

/// Applies JSON patches to the JSON of the message inside.
pub(super) fn patch_any(message: &Any, patches: &[JsonPatch]) -> Result<Any, String> {
    patch(message, patches)
}

/// An error with its causes.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

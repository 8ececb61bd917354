//! What is different between two sets of one proxy.

use kodiak_envoy::json::JsonError;
use kodiak_xds_stream::{Encoded, Snapshot, TypeUrl};
use serde::Serialize;

use crate::{
    patch::{Operation, patch},
    shown,
};

/// What a proxy would be sent.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Difference {
    pub added: Vec<Resource>,
    pub removed: Vec<Resource>,
    pub changed: Vec<Changed>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    #[serde(rename = "type")]
    pub type_url: &'static str,
    pub name: String,
    /// Of the resource itself.
    pub bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Changed {
    #[serde(flatten)]
    pub resource: Resource,
    pub bytes_before: usize,
    /// How it changes, without keys.
    pub patch: Vec<Operation>,
}

impl Difference {
    /// `None` stands for nothing at all.
    pub fn between(before: Option<&Snapshot>, after: Option<&Snapshot>) -> Result<Self, JsonError> {
        let mut difference = Self::default();
        for type_url in TypeUrl::ALL {
            let old = |name: &str| before.and_then(|set| set.of(type_url).get(name));
            let new = |name: &str| after.and_then(|set| set.of(type_url).get(name));
            for (name, encoded) in after.into_iter().flat_map(|set| set.of(type_url).iter()) {
                match old(name) {
                    None => difference.added.push(resource(type_url, encoded)),
                    Some(known) if known == encoded => (),
                    Some(known) => difference.changed.push(Changed {
                        resource: resource(type_url, encoded),
                        bytes_before: known.delta.len(),
                        patch: patch(&shown::resource(known)?, &shown::resource(encoded)?),
                    }),
                }
            }
            let gone = before.into_iter().flat_map(|set| set.of(type_url).iter());
            let gone = gone.filter(|(name, _)| new(name).is_none());
            difference.removed.extend(gone.map(|(_, encoded)| resource(type_url, encoded)));
        }
        Ok(difference)
    }

    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// What would go over the wire for it: names for what is removed, everything else in full.
    pub fn bytes(&self) -> usize {
        let sent = self.added.iter().chain(self.changed.iter().map(|changed| &changed.resource));
        let removed = self.removed.iter().map(|resource| resource.name.len());
        sent.map(|resource| resource.bytes).chain(removed).sum()
    }
}

fn resource(type_url: TypeUrl, encoded: &Encoded) -> Resource {
    Resource { type_url: type_url.as_str(), name: encoded.name.to_string(), bytes: encoded.delta.len() }
}

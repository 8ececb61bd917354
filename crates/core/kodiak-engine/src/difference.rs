//! Differences between two snapshots of one proxy.

use std::{collections::HashMap, sync::Arc};

use kodiak_envoy::json::JsonError;
use kodiak_xds_stream::{Encoded, Snapshot, TypeUrl, Version};
use serde::Serialize;

use crate::{
    patch::{Operation, patch},
    redacted,
};

/// Resources that an update would send or remove.
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
    /// Encoded size.
    pub bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Changed {
    #[serde(flatten)]
    pub resource: Resource,
    pub bytes_before: usize,
    /// JSON patch, with keys redacted, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<Arc<[Operation]>>,
}

/// JSON patches of resources, each computed once: many proxies share resources.
#[derive(Debug, Default)]
pub struct Patches(HashMap<Step, Arc<[Operation]>>);

/// From one version of a resource to another.
type Step = (TypeUrl, Arc<str>, Version, Version);

impl Patches {
    fn of(&mut self, type_url: TypeUrl, before: &Encoded, after: &Encoded) -> Result<Arc<[Operation]>, JsonError> {
        let key = (type_url, after.name.clone(), before.version, after.version);
        if let Some(known) = self.0.get(&key) {
            return Ok(known.clone());
        }
        let found: Arc<[Operation]> = patch(&redacted::resource(before)?, &redacted::resource(after)?).into();
        self.0.insert(key, found.clone());
        Ok(found)
    }
}

impl Difference {
    /// `None` is an empty snapshot. Without `patches`, no JSON patch is computed.
    pub fn between(
        before: Option<&Snapshot>,
        after: Option<&Snapshot>,
        mut patches: Option<&mut Patches>,
    ) -> Result<Self, JsonError> {
        let mut difference = Self::default();
        for type_url in TypeUrl::ALL {
            if let (Some(before), Some(after)) = (before, after)
                && before.of(type_url).ptr_eq(after.of(type_url))
            {
                continue;
            }
            let old = |name: &str| before.and_then(|set| set.of(type_url).get(name));
            let new = |name: &str| after.and_then(|set| set.of(type_url).get(name));
            for (name, encoded) in after.into_iter().flat_map(|set| set.of(type_url).iter()) {
                match old(name) {
                    None => difference.added.push(resource(type_url, encoded)),
                    Some(known) if known == encoded => (),
                    Some(known) => difference.changed.push(Changed {
                        resource: resource(type_url, encoded),
                        bytes_before: known.delta.len(),
                        patch: patches.as_mut().map(|patches| patches.of(type_url, known, encoded)).transpose()?,
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
        let Self { added, removed, changed } = self;
        added.is_empty() && removed.is_empty() && changed.is_empty()
    }

    /// Size of the update on the wire: names of removed resources, all others in full.
    pub fn bytes(&self) -> usize {
        let sent = self.added.iter().chain(self.changed.iter().map(|changed| &changed.resource));
        let removed = self.removed.iter().map(|resource| resource.name.len());
        sent.map(|resource| resource.bytes).chain(removed).sum()
    }
}

fn resource(type_url: TypeUrl, encoded: &Encoded) -> Resource {
    Resource { type_url: type_url.as_str(), name: encoded.name.to_string(), bytes: encoded.delta.len() }
}

#[cfg(test)]
mod tests {
    use kodiak_envoy::envoy::config::cluster::v3::Cluster;
    use kodiak_xds::build_cluster;
    use kodiak_xds_stream::ResourceSet;

    use super::*;

    /// Clusters with their `alt_stat_name`s, which tell versions apart.
    fn set(clusters: &[(&str, &str)]) -> Snapshot {
        let mut resources = ResourceSet::default();
        for (name, alt_stat_name) in clusters {
            let cluster =
                Cluster { name: (*name).into(), alt_stat_name: (*alt_stat_name).into(), ..Cluster::default() };
            let built = build_cluster(&cluster);
            resources.insert(built.type_url, built.encoded);
        }
        Snapshot { revision: 1, resources }
    }

    fn names(resources: &[Resource]) -> Vec<&str> {
        resources.iter().map(|resource| resource.name.as_str()).collect()
    }

    #[test]
    fn added_removed_and_changed_resources_are_distinguished() {
        let (before, after) = (set(&[("a", "1"), ("b", "1"), ("c", "1")]), set(&[("b", "2"), ("c", "1"), ("d", "1")]));
        let mut patches = Patches::default();
        let difference = Difference::between(Some(&before), Some(&after), Some(&mut patches)).unwrap();
        assert_eq!((names(&difference.added), names(&difference.removed)), (vec!["d"], vec!["a"]));
        let [changed] = &difference.changed[..] else { panic!("{difference:?}") };
        assert_eq!((changed.resource.name.as_str(), changed.resource.type_url), ("b", TypeUrl::Cluster.as_str()));
        let shown: Vec<_> = changed.patch.iter().flat_map(|patch| patch.iter()).map(|each| &each.path).collect();
        assert_eq!(shown, ["/altStatName"; 3], "tested, removed, added");
        let bytes = changed.resource.bytes + difference.added[0].bytes;
        assert_eq!(difference.bytes(), bytes + 1, "for a removed resource only its name is sent");
    }

    #[test]
    fn equal_snapshots_have_no_difference_and_a_missing_one_is_empty() {
        let (one, again) = (set(&[("a", "1"), ("b", "1")]), set(&[("a", "1"), ("b", "1")]));
        assert!(Difference::between(Some(&one), Some(&again), None).unwrap().is_empty());
        assert!(Difference::between(None, None, None).unwrap().is_empty());
        assert_eq!(names(&Difference::between(None, Some(&one), None).unwrap().added), ["a", "b"]);
        assert_eq!(names(&Difference::between(Some(&one), None, None).unwrap().removed), ["a", "b"]);
    }

    #[test]
    fn patches_are_computed_once_and_only_on_request() {
        let (before, after) = (set(&[("a", "1")]), set(&[("a", "2")]));
        let mut patches = Patches::default();
        let mut asked = || {
            let found = Difference::between(Some(&before), Some(&after), Some(&mut patches)).unwrap();
            found.changed[0].patch.clone().unwrap()
        };
        assert!(Arc::ptr_eq(&asked(), &asked()));
        assert_eq!(Difference::between(Some(&before), Some(&after), None).unwrap().changed[0].patch, None);
    }
}

//! Which resources a modification selects.

use std::collections::BTreeMap;

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::listener::v3::Listener;
use kodiak_envoy::google::protobuf::value::Kind;

use super::{ClusterMatch, FilterMatch, ListenerMatch};

/// Metadata with the tags of a listener.
const TAGS: &str = "io.kuma.tags";
/// Matches any value of a tag.
const ANY_VALUE: &str = "*";

pub(super) fn is_cluster(matching: &ClusterMatch, cluster: &Cluster, origin: &str) -> bool {
    let ClusterMatch { origin: wanted, name } = matching;
    is(wanted.as_ref(), origin) && is(name.as_ref(), &cluster.name)
}

/// Criteria for a listener.
#[derive(Clone, Copy)]
pub(super) struct Location<'a> {
    origin: Option<&'a String>,
    name: Option<&'a String>,
    tags: Option<&'a BTreeMap<String, String>>,
}

impl<'a> Location<'a> {
    pub(super) fn of(matching: &'a ListenerMatch) -> Self {
        let ListenerMatch { origin, name, tags } = matching;
        Self { origin: origin.as_ref(), name: name.as_ref(), tags: tags.as_ref() }
    }

    pub(super) fn of_filter(matching: &'a FilterMatch) -> Self {
        let FilterMatch { origin, name: _, listener_name, listener_tags } = matching;
        Self { origin: origin.as_ref(), name: listener_name.as_ref(), tags: listener_tags.as_ref() }
    }

    pub(super) fn selects(self, listener: &Listener, origin: &str) -> bool {
        let has_tags = || self.tags.into_iter().flatten().all(|(key, value)| has_tag(listener, key, value));
        is(self.origin, origin) && is(self.name, &listener.name) && has_tags()
    }
}

fn has_tag(listener: &Listener, key: &str, value: &str) -> bool {
    let tags = listener.metadata.as_ref().and_then(|metadata| metadata.filter_metadata.get(TAGS));
    let tag = tags.and_then(|tags| tags.fields.get(key)).and_then(|tag| tag.kind.as_ref());
    matches!(tag, Some(Kind::StringValue(tag)) if value == ANY_VALUE || tag == value)
}

fn is(wanted: Option<&String>, value: &str) -> bool {
    wanted.is_none_or(|wanted| wanted == value)
}

//! Node metadata of a proxy, as its insight shows it.

use kodiak_envoy::{google::protobuf::Struct, json};
use kodiak_model::subscription::{EnvoyVersion, KumaDpVersion, Version};
use kodiak_xds::node::{self, DpVersion, Versions};
use serde_json::Value;

const RESOURCE: &str = "dataplane.resource";

/// Largest metadata that an insight shows.
const LONGEST_KEPT: usize = 64 * 1024;

/// `None` for a proxy that reports no versions.
pub(crate) fn version(versions: &Versions) -> Option<Version> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let DpVersion { version, git_tag, git_commit, build_date } = &versions.runner;
    let runner = KumaDpVersion {
        version: text(version),
        git_tag: text(git_tag),
        git_commit: text(git_commit),
        build_date: text(build_date),
        ..KumaDpVersion::default()
    };
    let node::EnvoyVersion { version, build, compatible } = &versions.envoy;
    let envoy =
        EnvoyVersion { version: text(version), build: text(build), kuma_dp_compatible: compatible.unwrap_or_default() };
    let version = Version {
        kuma_dp: Some(runner).filter(|runner| *runner != KumaDpVersion::default()),
        envoy: Some(envoy).filter(|envoy| *envoy != EnvoyVersion::default()),
        ..Version::default()
    };
    Some(version).filter(|version| *version != Version::default())
}

/// All of it except the Dataplane, which is stored anyway.
pub(crate) fn for_insight(node: &Struct) -> Option<Value> {
    let mut node = node.clone();
    node.fields.remove(RESOURCE);
    let kept = json::to_json(&node).ok()?;
    (kept.to_string().len() <= LONGEST_KEPT).then_some(kept)
}

#[cfg(test)]
mod tests {
    use kodiak_xds::node::NodeMetadata;
    use serde_json::json;

    use super::*;

    fn node(value: &Value) -> Struct {
        json::from_json(value).unwrap()
    }

    #[test]
    fn versions_are_those_of_the_node_metadata() {
        let version = |recorded: &Value| version(&NodeMetadata::read(&node(&json!({ "version": recorded }))).versions);
        let full = json!({
            "kumaDp": { "version": "2.14.3", "gitTag": "v2.14.3", "gitCommit": "abc", "buildDate": "today" },
            "envoy": { "version": "1.40.0", "build": "abc/1.40.0", "kumaDpCompatible": true },
        });
        assert_eq!(serde_json::to_value(version(&full)).unwrap(), full);
        let envoy = json!({ "envoy": { "version": "1.40.0" } });
        assert_eq!(serde_json::to_value(version(&envoy)).unwrap(), envoy);
        for nothing in [json!(null), json!(7), json!({}), json!({ "kumaDp": { "version": 7 }, "envoy": {} })] {
            assert_eq!(version(&nothing), None, "{nothing}");
        }
    }

    #[test]
    fn insight_has_the_metadata_without_the_dataplane() {
        let kept = for_insight(&node(&json!({ "dataplane.resource": "x", "features": ["feature-a"] })));
        assert_eq!(kept, Some(json!({ "features": ["feature-a"] })));
        assert_eq!(for_insight(&node(&json!({ "workdir": "x".repeat(LONGEST_KEPT) }))), None);
    }
}

//! What a proxy says about itself: the metadata of its node.

use kodiak_envoy::{
    google::protobuf::{Struct, value::Kind},
    json,
};
use kodiak_model::subscription::Version;
use serde_json::Value;

const RESOURCE: &str = "dataplane.resource";
const PROXY_TYPE: &str = "dataplane.proxyType";
const VERSION: &str = "version";

/// More than this is not kept in an insight.
const LONGEST_KEPT: usize = 64 * 1024;

/// The Dataplane that the proxy brings, as text.
pub(crate) fn resource(node: &Struct) -> Option<&str> {
    text(node, RESOURCE)
}

/// `dataplane`, `ingress` or `egress`. A proxy that says nothing is the first.
pub(crate) fn proxy_type(node: &Struct) -> Option<&str> {
    text(node, PROXY_TYPE)
}

pub(crate) fn version(node: &Struct) -> Option<Version> {
    let Some(Kind::StructValue(version)) = node.fields.get(VERSION)?.kind.as_ref() else { return None };
    serde_json::from_value(json::to_json(version).ok()?).ok()
}

/// All of it but the Dataplane, which is stored anyway.
pub(crate) fn for_insight(node: &Struct) -> Option<Value> {
    let mut node = node.clone();
    node.fields.remove(RESOURCE);
    let kept = json::to_json(&node).ok()?;
    (kept.to_string().len() <= LONGEST_KEPT).then_some(kept)
}

fn text<'a>(node: &'a Struct, field: &str) -> Option<&'a str> {
    match node.fields.get(field)?.kind.as_ref()? {
        Kind::StringValue(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(value: &Value) -> Struct {
        json::from_json(value).unwrap()
    }

    #[test]
    fn fields_are_read_where_they_have_their_type() {
        let node = node(&json!({
            "dataplane.resource": "type: Dataplane",
            "dataplane.proxyType": 7,
            "version": { "kumaDp": { "version": "2.14.3" }, "envoy": { "version": "1.40.0", "kumaDpCompatible": true } },
        }));
        assert_eq!(resource(&node), Some("type: Dataplane"));
        assert_eq!(proxy_type(&node), None);
        let version = version(&node).unwrap();
        assert_eq!(version.kuma_dp.unwrap().version, "2.14.3");
        assert!(version.envoy.unwrap().kuma_dp_compatible);
    }

    #[test]
    fn the_insight_keeps_all_but_the_dataplane_and_what_is_too_long() {
        let kept = for_insight(&node(&json!({ "dataplane.resource": "x", "features": ["feature-a"] })));
        assert_eq!(kept, Some(json!({ "features": ["feature-a"] })));
        assert_eq!(for_insight(&node(&json!({ "workdir": "x".repeat(LONGEST_KEPT) }))), None);
    }
}

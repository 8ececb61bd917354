//! Membership constraints: whether a proxy may join a mesh.

use std::collections::BTreeMap;

use super::{MeshConstraints, TagRule};
use crate::kinds::dataplane::Dataplane;

/// Why the constraints reject the proxy: each of its tag sets must meet a requirement and no restriction.
pub fn membership_fault(mesh_name: &str, constraints: &MeshConstraints, dataplane: &Dataplane) -> Option<String> {
    let rules = constraints.dataplane_proxy.as_ref()?;
    dataplane.tag_sets().find_map(|tags| {
        let refused = |reason: String| {
            let tags = text(tags);
            format!("dataplane cannot be a member of mesh {mesh_name:?} because its tags {tags:?} {reason}")
        };
        let meets = |rule: &&TagRule| matches(&rule.tags, tags);
        if !rules.requirements.is_empty() && rules.requirements.iter().find(meets).is_none() {
            return Some(refused("does not fulfill any requirements defined on the Mesh".to_owned()));
        }
        let restriction = rules.restrictions.iter().find(meets)?;
        Some(refused(format!("matches restricted tags {:?} defined on the Mesh", text(&restriction.tags))))
    })
}

fn matches(wanted: &BTreeMap<String, String>, tags: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(name, value)| {
        let found = tags.get(name).map_or("", String::as_str);
        found == value || (value == "*" && !found.is_empty())
    })
}

fn text(tags: &BTreeMap<String, String>) -> String {
    let tags: Vec<String> = tags.iter().map(|(name, value)| format!("{name}={value}")).collect();
    tags.join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(rules: &Value, tags: &Value, fault: Option<&str>) {
        let constraints: MeshConstraints = serde_json::from_value(json!({ "dataplaneProxy": rules })).unwrap();
        let inbound = json!({ "networking": { "inbound": [{ "tags": tags }] } });
        let dataplane: Dataplane = serde_json::from_value(inbound).unwrap();
        assert_eq!(membership_fault("default", &constraints, &dataplane).as_deref(), fault);
    }

    #[test]
    fn tags_must_meet_a_requirement() {
        let rules = json!({ "requirements": [{ "tags": { "team": "a", "cloud": "*" } }, { "tags": { "team": "b" } }] });
        check(&rules, &json!({ "team": "b" }), None);
        check(&rules, &json!({ "team": "a", "cloud": "x" }), None);
        let fault = r#"dataplane cannot be a member of mesh "default" because its tags "cloud= team=a" does not fulfill any requirements defined on the Mesh"#;
        check(&rules, &json!({ "team": "a", "cloud": "" }), Some(fault));
    }

    #[test]
    fn rejects_restricted_tags() {
        let rules = json!({ "restrictions": [{ "tags": { "legacy": "true" } }] });
        check(&rules, &json!({ "team": "b" }), None);
        let fault = r#"dataplane cannot be a member of mesh "default" because its tags "legacy=true team=b" matches restricted tags "legacy=true" defined on the Mesh"#;
        check(&rules, &json!({ "team": "b", "legacy": "true" }), Some(fault));
    }
}

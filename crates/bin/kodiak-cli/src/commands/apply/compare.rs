//! Compares the stored resource with the document of the user.
//!
//! Both are validated and compared in canonical form, so that `60s` equals `1m0s`. Fields that the control plane sets are
//! ignored, unless the user wrote another value.

use kodiak_model::{Checked, Place, labels};
use serde_json::{Map, Value};

use crate::documents::FileResource;

/// Labels that the control plane computes.
const COMPUTED_LABELS: [&str; 7] = [
    labels::MESH,
    labels::ORIGIN,
    labels::ZONE,
    labels::ENV,
    labels::PROXY_TYPE,
    labels::LISTENER_ZONE_INGRESS,
    labels::LISTENER_ZONE_EGRESS,
];

/// Fields of specs that the control plane sets.
const COMPUTED_FIELDS: [(&str, &str); 7] = [
    ("Dataplane", "kuma.io/zone"),
    ("Dataplane", "state"),
    ("Dataplane", "health"),
    ("MeshService", "state"),
    ("MeshService", "identities"),
    ("ZoneIngress", "zone"),
    ("ZoneIngress", "availableServices"),
];

pub(in crate::commands) fn is_same(resource: &FileResource, current: &Value) -> bool {
    let Ok(draft) = kodiak_kinds::draft(current.clone()) else { return false };
    // A stored resource that is no longer valid is written again.
    let Ok(current) = kodiak_model::check(resource.checked.kind, draft, &Place::Global) else { return false };
    same_labels(&resource.checked, &current) && same_spec(resource, &current)
}

fn same_labels(wanted: &Checked, current: &Checked) -> bool {
    let kept = wanted.labels.iter().all(|(key, value)| current.labels.get(key) == Some(value));
    let added = current.labels.keys().filter(|key| !wanted.labels.contains_key(*key));
    kept && added.into_iter().all(|key| COMPUTED_LABELS.contains(&key.as_str()))
}

fn same_spec(resource: &FileResource, current: &Checked) -> bool {
    if resource.checked.spec() == current.spec() {
        return true;
    }
    let computed: Vec<_> = COMPUTED_FIELDS
        .iter()
        .filter(|(kind, _)| *kind == resource.checked.kind.name)
        .map(|(_, field)| *field)
        .collect();
    if computed.is_empty() {
        return false;
    }
    let read = |spec: &str| serde_json::from_str::<Value>(spec).unwrap_or_default();
    same(resource.draft.spec.as_ref(), &read(resource.checked.spec()), &read(current.spec()), &computed)
}

/// Compares without computed fields that the user did not write.
fn same(written: Option<&Value>, wanted: &Value, current: &Value, computed: &[&str]) -> bool {
    match (wanted, current) {
        (Value::Object(wanted), Value::Object(current)) => same_fields(written, wanted, current, computed),
        (Value::Array(wanted), Value::Array(current)) => {
            let written = |n: usize| written.and_then(|written| written.get(n));
            wanted.len() == current.len()
                && wanted.iter().zip(current).enumerate().all(|(n, (a, b))| same(written(n), a, b, computed))
        }
        (wanted, current) => wanted == current,
    }
}

fn same_fields(
    written: Option<&Value>,
    wanted: &Map<String, Value>,
    current: &Map<String, Value>,
    computed: &[&str],
) -> bool {
    let written = |key: &str| written.and_then(|written| written.get(key));
    let mut keys = wanted.keys().chain(current.keys().filter(|key| !wanted.contains_key(*key)));
    keys.all(|key| {
        if computed.contains(&key.as_str()) && written(key).is_none() {
            return true;
        }
        match (wanted.get(key), current.get(key)) {
            (Some(a), Some(b)) => same(written(key), a, b, computed),
            (a, b) => a == b,
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::documents::{Names, SourceFile, check};

    const WRITTEN: &str = "type: MeshTimeout\nname: a\nlabels: {team: x}\nspec:\n  to:\n  - targetRef: {kind: Mesh}\n    default: {connectionTimeout: 60s}\n";

    fn written(text: &str) -> FileResource {
        let files = [SourceFile { name: "a.yaml".to_owned(), text: text.to_owned() }];
        let mut checkup = check(&files, &Names { mesh: "default" }, &Place::Global);
        assert_eq!(checkup.findings, []);
        checkup.resources.remove(0)
    }

    fn of_server(labels: &Value, timeout: &str) -> Value {
        json!({
            "type": "MeshTimeout", "mesh": "default", "name": "a", "creationTime": "2026-11-15T12:00:00Z",
            "modificationTime": "2026-11-15T12:00:00Z", "labels": labels, "kri": "kri_mt_default_east__a_",
            "spec": { "to": [{ "targetRef": { "kind": "Mesh" }, "default": { "connectionTimeout": timeout } }] },
        })
    }

    #[test]
    fn equal_in_canonical_form_is_equal() {
        let wanted = written(WRITTEN);
        let labels = json!({ "team": "x", "kuma.io/mesh": "default", "kuma.io/origin": "zone", "kuma.io/zone": "east", "kuma.io/env": "universal" });
        assert!(is_same(&wanted, &of_server(&labels, "1m0s")));
        assert!(!is_same(&wanted, &of_server(&labels, "2m0s")));
    }

    #[test]
    fn compares_labels_of_the_user() {
        let wanted = written(WRITTEN);
        for labels in [json!({}), json!({ "team": "y" }), json!({ "team": "x", "other": "label" })] {
            assert!(!is_same(&wanted, &of_server(&labels, "1m0s")), "{labels}");
        }
    }

    #[test]
    fn writes_again_if_the_stored_resource_is_invalid() {
        let wanted = written(WRITTEN);
        assert!(!is_same(&wanted, &of_server(&json!({ "team": "x" }), "soon")));
        assert!(!is_same(&wanted, &json!([])));
    }

    #[test]
    fn compares_computed_fields_only_if_the_user_wrote_them() {
        let computed = ["kuma.io/zone", "state"];
        let wanted = json!({ "inbound": [{ "port": 1, "tags": { "a": "b" } }] });
        let current =
            json!({ "inbound": [{ "port": 1, "tags": { "a": "b", "kuma.io/zone": "east" }, "state": "NotReady" }] });
        assert!(same(Some(&wanted), &wanted, &current, &computed));
        let wanted = json!({ "inbound": [{ "port": 1, "tags": { "a": "b", "kuma.io/zone": "west" } }] });
        assert!(!same(Some(&wanted), &wanted, &current, &computed));
        let other = json!({ "inbound": [{ "port": 2, "tags": { "a": "b" } }] });
        assert!(!same(Some(&other), &other, &current, &computed));
        assert!(!same(None, &json!({ "inbound": [] }), &current, &computed));
    }
}

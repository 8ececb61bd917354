//! Policies with too many combinations of tags are rejected.

use kodiak_model::ResourceKey;
use serde_json::{Value, json};

use crate::bed::{Bed, problems};

const PERMISSION: &str = "MeshTrafficPermission";

/// Allows callers with each of these tags.
fn from(target: &Value, keys: std::ops::Range<usize>) -> Value {
    let item = |n: usize| {
        let tags = json!({ format!("key-{n}"): "x" });
        json!({ "targetRef": { "kind": "MeshSubset", "tags": tags }, "default": { "action": "Allow" } })
    };
    json!({ "spec": { "targetRef": target, "from": keys.map(item).collect::<Vec<_>>() } })
}

fn service(name: &str) -> Value {
    json!({ "kind": "MeshSubset", "tags": { "kuma.io/service": name } })
}

async fn bed() -> Bed {
    let bed = Bed::new().await;
    bed.put_mesh("", json!([])).await.unwrap();
    for name in ["web", "db"] {
        let inbound = json!([{ "port": 80, "tags": { "kuma.io/service": name } }]);
        let networking = json!({ "address": "127.0.0.1", "inbound": inbound });
        bed.put("Dataplane", name, json!({ "networking": networking })).await.unwrap();
    }
    bed
}

fn is_stored(bed: &Bed, name: &str) -> bool {
    bed.0.store().get(&ResourceKey::in_mesh(PERMISSION, "demo", name)).is_some()
}

#[tokio::test]
async fn rejects_too_many_combinations_at_an_inbound() {
    let bed = bed().await;
    bed.put(PERMISSION, "a", from(&service("web"), 0..10)).await.unwrap();
    bed.put(PERMISSION, "b", from(&service("db"), 10..13)).await.unwrap();
    let refused = problems(bed.put(PERMISSION, "c", from(&service("web"), 10..20)).await);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].starts_with("spec.from: MeshTrafficPermission \"a\", \"c\": the tags"), "{refused:?}");
    for part in ["together have at least", "combinations", "name fewer tags", "or match callers with `rules`"] {
        assert!(refused[0].contains(part), "{part}: {refused:?}");
    }
    assert!(!is_stored(&bed, "c"));
    // Elsewhere they do not match together, and unrelated policies can still be written.
    bed.put(PERMISSION, "c", from(&service("nobody"), 10..20)).await.unwrap();
    bed.put(PERMISSION, "d", from(&service("web"), 0..1)).await.unwrap();
    let all = json!([{ "targetRef": { "kind": "Mesh" }, "default": { "action": "Allow" } }]);
    bed.put(PERMISSION, "e", json!({ "spec": { "from": all } })).await.unwrap();
    let timeout = json!([{ "targetRef": { "kind": "Mesh" }, "default": { "connectionTimeout": "5s" } }]);
    bed.put("MeshTimeout", "f", json!({ "spec": { "to": timeout } })).await.unwrap();
}

#[tokio::test]
async fn update_replaces_the_old_version_of_a_policy() {
    let bed = bed().await;
    bed.put(PERMISSION, "a", from(&service("web"), 0..10)).await.unwrap();
    bed.put(PERMISSION, "a", from(&service("web"), 10..20)).await.unwrap();
    let refused = problems(bed.put(PERMISSION, "a", from(&service("web"), 0..20)).await);
    assert!(refused[0].starts_with("spec.from: MeshTrafficPermission \"a\": the tags"), "{refused:?}");
    let stored = bed.0.store().get(&ResourceKey::in_mesh(PERMISSION, "demo", "a")).unwrap();
    assert!(stored.spec.contains("key-10") && !stored.spec.contains("key-0"), "{}", stored.spec);
}

//! A resource is read back as it was written, but for what the control plane itself observes.

use kodiak_model::ResourceKey;
use serde_json::{Value, json};

use crate::bed::Bed;

fn stored(bed: &Bed, kind: &str) -> Value {
    let record = bed.0.store().get(&ResourceKey::in_mesh(kind, "demo", "one")).unwrap();
    serde_json::from_str(&record.spec).unwrap()
}

#[tokio::test]
async fn defaults_are_not_stored() {
    let bed = Bed::new().await;
    bed.put_mesh("", json!([])).await.unwrap();
    let to = |conf: Value| json!({ "to": [{ "targetRef": { "kind": "Mesh" }, "default": conf }] });
    let retry = to(json!({ "http": { "backOff": { "maxInterval": "1s" } } }));
    let rule = json!({ "matches": [{ "path": { "type": "Exact", "value": "/" } }], "default": {
        "backendRefs": [{ "kind": "MeshService", "name": "web" }],
    } });
    let route = json!({ "to": [{ "targetRef": { "kind": "MeshService", "name": "web" }, "rules": [rule] }] });
    for (kind, spec) in [
        ("MeshRetry", retry),
        ("MeshRetry", json!({})),
        ("MeshHTTPRoute", route),
        (
            "MeshExternalService",
            json!({ "match": { "port": 80 }, "endpoints": [{ "address": "10.0.0.1", "port": 1 }] }),
        ),
        (
            "MeshMultiZoneService",
            json!({ "selector": { "meshService": { "matchLabels": { "a": "b" } } }, "ports": [{ "port": 80 }] }),
        ),
    ] {
        bed.put(kind, "one", json!({ "spec": spec })).await.unwrap();
        assert_eq!(stored(&bed, kind), spec, "{kind}");
    }
}

#[tokio::test]
async fn fields_of_the_control_plane_are_added_and_nothing_else() {
    let bed = Bed::new().await;
    bed.put_mesh("", json!([])).await.unwrap();
    bed.put("MeshService", "one", json!({ "spec": { "ports": [{ "port": 80 }] } })).await.unwrap();
    assert_eq!(stored(&bed, "MeshService"), json!({ "state": "Unavailable", "ports": [{ "port": 80 }] }));

    let mut networking = json!({ "address": "10.0.0.1", "inbound": [
        { "port": 80, "health": { "ready": false }, "tags": { "kuma.io/service": "web" } },
    ] });
    bed.put("Dataplane", "one", json!({ "networking": networking })).await.unwrap();
    networking["inbound"][0]["tags"]["kuma.io/zone"] = json!("east");
    assert_eq!(stored(&bed, "Dataplane"), json!({ "networking": networking }));
}

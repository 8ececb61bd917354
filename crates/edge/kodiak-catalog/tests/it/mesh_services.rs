//! Fields that the control plane sets on a MeshService stay when it is written again.

use kodiak_model::ResourceKey;
use serde_json::{Value, json};

use crate::bed::Bed;

fn spec(bed: &Bed) -> Value {
    let record = bed.0.store().get(&ResourceKey::in_mesh("MeshService", "demo", "web")).unwrap();
    serde_json::from_str(&record.spec).unwrap()
}

async fn write(bed: &Bed, spec: Value) {
    bed.put("MeshService", "web", json!({ "spec": spec })).await.unwrap();
}

#[tokio::test]
async fn omitted_state_and_identities_stay() {
    let bed = Bed::new().await;
    bed.put_mesh("", json!([])).await.unwrap();
    write(&bed, json!({ "ports": [{ "port": 80 }] })).await;
    assert_eq!((&spec(&bed)["state"], &spec(&bed)["identities"]), (&json!("Unavailable"), &Value::Null));
    let identities = json!([{ "type": "ServiceTag", "value": "web" }]);
    write(&bed, json!({ "ports": [{ "port": 80 }], "state": "Available", "identities": identities })).await;
    write(&bed, json!({ "ports": [{ "port": 90 }], "identities": null })).await;
    let kept = spec(&bed);
    assert_eq!(kept["ports"][0]["port"], 90);
    assert_eq!((&kept["state"], &kept["identities"]), (&json!("Available"), &identities));
    write(&bed, json!({ "ports": [{ "port": 90 }], "state": "Unavailable", "identities": [] })).await;
    assert_eq!((&spec(&bed)["state"], &spec(&bed)["identities"]), (&json!("Unavailable"), &json!([])));
}

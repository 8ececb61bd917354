//! A stored resource that panics the engine is quarantined and reported.

use std::sync::Arc;

use hyper::StatusCode;
use kodiak_cp::Faults;
use serde_json::{Value, json};

use crate::harness::{TestControlPlane, get};

const PATH: &str = "/meshes/default/meshtimeouts/poisoned";

fn faults() -> Faults {
    let panic_at = |change: &kodiak_engine::EngineChange| {
        let kodiak_engine::EngineChange::Policy { key, policy: Some(_), .. } = change else { return };
        assert!(&*key.1 != "poisoned", "poisoned");
    };
    Faults { engine: Some(Arc::new(panic_at)), task: None }
}

fn timeout(name: &str) -> Value {
    let to = json!([{ "targetRef": { "kind": "Mesh" }, "default": { "connectionTimeout": "7s" } }]);
    json!({ "type": "MeshTimeout", "mesh": "default", "name": name, "spec": { "targetRef": { "kind": "Mesh" }, "to": to } })
}

async fn metric(test: &TestControlPlane) -> String {
    let metrics = get(test.control_plane.diagnostics, "/metrics").await.text;
    let line = metrics.lines().find_map(|line| line.strip_prefix("kodiak_quarantined_resources "));
    line.unwrap_or_else(|| panic!("no metric in {metrics}")).to_owned()
}

async fn until_quarantined(test: &TestControlPlane, count: u64) -> Value {
    loop {
        let listed = test.get("/_quarantine").await.json();
        if listed["total"] == count && metric(test).await == count.to_string() {
            return listed["items"].clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn resource_that_panics_the_engine_is_quarantined_across_restarts() {
    let test = TestControlPlane::start_with_faults(faults()).await;
    assert_eq!(test.put(PATH, &timeout("poisoned")).await.status, StatusCode::CREATED);
    let items = until_quarantined(&test, 1).await;
    let (kind, name, error) = (&items[0]["type"], &items[0]["name"], &items[0]["error"]);
    assert_eq!((kind, name, error), (&json!("MeshTimeout"), &json!("poisoned"), &json!("panicked: poisoned")));

    // Without a quarantine it would end the process at every start.
    let test = test.restart_with_faults(faults()).await;
    until_quarantined(&test, 1).await;
    assert_eq!(get(test.control_plane.diagnostics, "/ready").await.status, StatusCode::OK);
    assert_eq!(test.put("/meshes/default/meshtimeouts/fine", &timeout("fine")).await.status, StatusCode::CREATED);
    assert_eq!(test.delete(PATH).await.status, StatusCode::OK);
    until_quarantined(&test, 0).await;

    // A version without the bug has an empty quarantine.
    assert_eq!(test.put(PATH, &timeout("poisoned")).await.status, StatusCode::CREATED);
    until_quarantined(&test, 1).await;
    let test = test.restart().await;
    until_quarantined(&test, 0).await;
}

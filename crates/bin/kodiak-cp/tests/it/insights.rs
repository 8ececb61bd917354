//! Overviews and insights.

use std::collections::BTreeMap;

use hyper::StatusCode;
use kodiak_model::ResourceKey;
use kodiak_store::{Expect, Transaction, Write};
use serde_json::json;

use crate::harness::TestControlPlane;

async fn with_a_connected_proxy() -> TestControlPlane {
    let cp = TestControlPlane::start().await;
    let proxy = json!({
        "type": "Dataplane", "mesh": "default", "name": "web-1",
        "networking": { "address": "10.0.0.1", "inbound": [{ "port": 80, "tags": { "kuma.io/service": "web" } }] },
    });
    assert_eq!(cp.put("/meshes/default/dataplanes/web-1", &proxy).await.status, StatusCode::CREATED);
    let insight = json!({ "subscriptions": [{ "id": "1", "connectTime": "2026-01-01T00:00:00Z" }] });
    let write = Write::Put {
        key: ResourceKey::in_mesh("DataplaneInsight", "default", "web-1"),
        spec: insight.to_string().into(),
        labels: BTreeMap::default(),
        owner: Some(ResourceKey::in_mesh("Dataplane", "default", "web-1")),
        expect: Expect::Absent,
    };
    cp.control_plane.catalog.store().commit(Transaction::from(write)).await.unwrap();
    cp
}

#[tokio::test]
async fn overviews_show_a_resource_with_its_insight() {
    let cp = with_a_connected_proxy().await;
    for path in ["/meshes/default/dataplanes/_overview", "/meshes/default/dataplanes+insights", "/dataplanes/_overview"]
    {
        let list = cp.get(path).await.json();
        assert_eq!(list["total"], 1, "{path}");
        let item = &list["items"][0];
        assert_eq!(item["type"], "DataplaneOverview");
        assert_eq!(item["dataplane"]["networking"]["address"], "10.0.0.1");
        assert_eq!(item["dataplaneInsight"]["subscriptions"][0]["id"], "1");
        assert_eq!(item["kri"], "kri_dp_default_default__web-1_");
    }
    for path in ["/meshes/default/dataplanes/web-1/_overview", "/meshes/default/dataplanes+insights/web-1"] {
        assert_eq!(cp.get(path).await.json()["name"], "web-1", "{path}");
    }
    assert_eq!(cp.get("/zones/default/_overview").await.json()["zone"]["enabled"], true);
    assert_eq!(cp.get("/zones/_overview").await.json()["total"], 1);
}

#[tokio::test]
async fn services_and_meshes_are_counted() {
    let cp = with_a_connected_proxy().await;
    let service = cp.get("/meshes/default/service-insights/web").await.json();
    assert_eq!((&service["status"], &service["addressPort"]), (&json!("online"), &json!("web.mesh:80")));
    assert_eq!(cp.get("/meshes/default/service-insights/nobody").await.json()["dataplanes"], json!({}));
    assert_eq!(cp.get("/service-insights?type=external").await.json()["total"], 0);
    assert_eq!(cp.get("/service-insights?type=strange").await.status, StatusCode::BAD_REQUEST);
    let mesh = cp.get("/mesh-insights/default").await.json();
    assert_eq!(mesh["dataplanes"], json!({ "total": 1, "online": 1 }));
    assert_eq!(mesh["policies"]["MeshTimeout"], json!({ "total": 2 }));
    let global = cp.get("/global-insight").await.json();
    assert_eq!(
        global["dataplanes"]["standard"],
        json!({ "online": 1, "offline": 0, "partiallyDegraded": 0, "total": 1 })
    );
    assert_eq!((&global["meshes"]["total"], &global["services"]["internal"]["online"]), (&json!(1), &json!(1)));
    assert_eq!(cp.get("/global-insights").await.json()["resources"]["Mesh"]["total"], 1);
}

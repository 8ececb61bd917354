//! Several control planes over one PostgreSQL.

use std::time::Duration;

use hyper::StatusCode;
use kodiak_cp::config::StoreType;
use serde_json::json;

use crate::harness::TestControlPlane;

#[tokio::test]
async fn writes_of_one_control_plane_are_served_by_the_other() {
    let Some(server) = kodiak_testkit::postgres::shared() else { return };
    let database = server.create_database().unwrap();
    let start = || async {
        TestControlPlane::start_with(|config| {
            config.store.store_type = StoreType::Postgres;
            config.store.seal_secrets = false;
            config.store.postgres.host = "127.0.0.1".to_owned();
            config.store.postgres.port = server.port();
            config.store.postgres.user = "kodiak".to_owned();
            config.store.postgres.db_name = database.clone();
        })
        .await
    };
    let (one, two) = (start().await, start().await);
    let mesh = json!({ "type": "Mesh", "name": "shared" });
    assert_eq!(one.put("/meshes/shared", &mesh).await.status, StatusCode::CREATED);
    while two.get("/meshes/shared").await.status != StatusCode::OK {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(two.delete("/meshes/shared").await.status, StatusCode::OK);
    while one.get("/meshes/shared").await.status != StatusCode::NOT_FOUND {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Both share one cluster ID and one set of keys.
    assert_eq!(one.get("/").await.json()["clusterId"], two.get("/").await.json()["clusterId"]);
    let token = |cp: serde_json::Value| cp["data"].clone();
    let path = "/globalsecrets/admin-user-token";
    assert_eq!(token(one.get(path).await.json()), token(two.get(path).await.json()));
}

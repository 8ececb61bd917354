//! Cache of mesh views.

use std::sync::Arc;

use axum::http::Method;
use kodiak_model::{Cancellation, ResourceKey};
use kodiak_store::{Expect, Transaction, Write};
use serde_json::json;

use super::{WEB, World, for_callers, texts};

#[tokio::test]
async fn mesh_view_is_rebuilt_only_after_a_change() {
    let world = World::new("Disabled").await;
    world.web().await;
    world.timeout("a", json!({ "rules": for_callers(1) })).await;
    let store = world.api.catalog().store();
    let view = || world.api.meshes().view(&store.snapshot(), "default", &Cancellation::never()).unwrap();
    let first = view();
    assert!(Arc::ptr_eq(&first, &view()));
    let insight = Write::Put {
        key: ResourceKey::in_mesh("DataplaneInsight", "default", "web-1"),
        spec: "{}".into(),
        labels: <_>::default(),
        owner: None,
        expect: Expect::Any,
    };
    store.commit(Transaction(vec![insight])).await.unwrap();
    assert!(Arc::ptr_eq(&first, &view()), "insights do not invalidate the view");
    world.timeout("b", json!({ "rules": for_callers(2) })).await;
    let second = view();
    assert!(!Arc::ptr_eq(&first, &second));
    let (status, _) = world.ask(Method::DELETE, "/meshes/default/meshtimeouts/b", String::new()).await;
    assert_eq!(status, 200);
    assert!(!Arc::ptr_eq(&second, &view()));
}

#[tokio::test]
async fn unreadable_policy_does_not_affect_others() {
    let world = World::new("Disabled").await;
    world.web().await;
    world.timeout("good", json!({ "rules": for_callers(1) })).await;
    let broken = Write::Put {
        key: ResourceKey::in_mesh("MeshTimeout", "default", "broken"),
        spec: r#"{"targetRef":[]}"#.into(),
        labels: <_>::default(),
        owner: None,
        expect: Expect::Any,
    };
    world.api.catalog().store().commit(Transaction(vec![broken])).await.unwrap();
    let found = world.get(&format!("{WEB}/_rules")).await;
    assert_eq!(texts(&found["rules"][0]["inboundRules"][0]["rules"][0]["origin"], "/resourceMeta/name"), ["good"]);
}

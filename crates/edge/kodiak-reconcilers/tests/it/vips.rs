//! Virtual addresses of `kuma.io/service` names, over a store.

use std::time::Duration;

use kodiak_model::ResourceKey;
use kodiak_services::{service_status::ServiceSettings, vips::Vips};
use kodiak_store::Store;
use kodiak_world::document::{self, VIPS};
use serde_json::json;

use crate::{
    bed::{MESH, delete, put, store},
    services::{Running, key, looked_at, put_dataplane, put_mesh},
};

/// Waits until the stored addresses match.
async fn eventually(store: &Store, wanted: impl Fn(&Vips) -> bool) -> Vips {
    loop {
        let snapshot = store.snapshot();
        let stored = snapshot.world().get(&document::key(MESH, VIPS));
        if let Some(vips) = stored.and_then(|stored| stored.document::<Vips>()).filter(&wanted) {
            return vips;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn services_keep_addresses_until_their_mesh_is_deleted() {
    let store = store().await;
    put_mesh(&store, "Disabled").await;
    let running = Running::usual(&store);
    put_dataplane(&store, "web-1", "web", 80).await;
    let first = eventually(&store, |vips| vips.get("web").is_some()).await;
    put_dataplane(&store, "backend-1", "backend", 80).await;
    let second = eventually(&store, |vips| vips.get("backend").is_some()).await;
    assert_eq!(first.get("web"), second.get("web"));
    assert_ne!(second.get("backend"), second.get("web"));
    delete(&store, key("Dataplane", "web-1")).await;
    looked_at(&store, "marker").await;
    let third = eventually(&store, |_| true).await;
    assert_eq!(third.get("web"), first.get("web"), "kept for a while");
    delete(&store, ResourceKey::global("Mesh", MESH)).await;
    assert!(store.get(&document::key(MESH, VIPS)).is_none());
    // A deleted mesh gets none: another one is reconciled after it.
    put(&store, ResourceKey::global("Mesh", "other"), &json!({})).await;
    let inbound = json!([{ "port": 80, "tags": { "kuma.io/service": "web" } }]);
    let networking = json!({ "address": "10.0.0.1", "inbound": inbound });
    put(&store, ResourceKey::in_mesh("Dataplane", "other", "web-1"), &json!({ "networking": networking })).await;
    while store.get(&document::key("other", VIPS)).is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(store.get(&document::key(MESH, VIPS)).is_none());
    running.stop().await;
}

#[tokio::test]
async fn new_leader_keeps_stored_addresses_and_continues_behind_them() {
    let store = store().await;
    put_mesh(&store, "Disabled").await;
    let stored = json!({ "next": 7, "services": { "web": { "address": "240.0.0.3" } } });
    put(&store, document::key(MESH, VIPS), &stored).await;
    put_dataplane(&store, "web-1", "web", 80).await;
    put_dataplane(&store, "backend-1", "backend", 80).await;
    let running = Running::usual(&store);
    let vips = eventually(&store, |vips| vips.get("backend").is_some()).await;
    let shown = |name: &str| vips.get(name).map(|address| address.to_string());
    assert_eq!((shown("web").as_deref(), shown("backend").as_deref()), (Some("240.0.0.3"), Some("240.0.0.7")));
    running.stop().await;
}

/// Two allocators gave 240.0.0.0 to both.
#[tokio::test]
async fn mesh_service_and_tag_never_share_an_address() {
    let store = store().await;
    put_mesh(&store, "Everywhere").await;
    let overlapping = |settings: &mut ServiceSettings| settings.ranges.services = "240.0.0.0/8".parse().unwrap();
    let running = Running::start(&store, overlapping);
    put_dataplane(&store, "web-1", "web", 80).await;
    let vips = eventually(&store, |vips| vips.get("web").is_some()).await;
    looked_at(&store, "marker").await;
    let snapshot = store.snapshot();
    for name in ["web", "marker"] {
        let record = snapshot.get(&key("MeshService", name)).unwrap();
        let status = record.status.as_deref().unwrap();
        let address = vips.get("web").unwrap().to_string();
        assert!(!status.contains(&format!("{address:?}")), "{address} is in {status}");
    }
    running.stop().await;
}

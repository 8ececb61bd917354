//! Generated keys: bounded in size and number, and never blocking other writes.

use std::sync::{Arc, Mutex};

use kodiak_catalog::{Catalog, CatalogSettings, Target};
use kodiak_model::Place;
use kodiak_store::{Backend, Store, StoreConfig};
use serde_json::json;

use crate::bed::{Bed, builtin, kind, problems};

const MESHES: usize = 6;
const ZONES: usize = 5;

/// One thread for blocking work stands for a full pool: generating keys there would block commits. One thread for tasks
/// makes the order deterministic.
#[test]
fn key_generation_does_not_block_commits() {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(StoreConfig::new(Backend::File { path: folder.path().join("store") })).await.unwrap();
        let catalog = Catalog::new(
            store,
            CatalogSettings { place: Place::Zone { name: "east".to_owned() }, unsafe_delete: false },
        );
        let order = Arc::new(Mutex::new(Vec::new()));
        let meshes: Vec<_> = (0..MESHES)
            .map(|n| {
                let (catalog, order) = (catalog.clone(), order.clone());
                tokio::spawn(async move {
                    let conf = json!({ "caCert": { "RSAbits": 4096 } });
                    let backend = json!({ "name": "ca", "type": "builtin", "conf": conf });
                    let name = format!("mesh-{n}");
                    let mesh = json!({ "type": "Mesh", "name": name, "mtls": { "backends": [backend] } });
                    catalog.put(Target { kind: kind("Mesh"), mesh: "", name: &name }, mesh).await.unwrap();
                    order.lock().unwrap().push("mesh");
                })
            })
            .collect();
        // All of them run until they wait for their key.
        tokio::task::yield_now().await;
        for n in 0..ZONES {
            let name = format!("zone-{n}");
            let zone = json!({ "type": "Zone", "name": name, "enabled": true });
            catalog.put(Target { kind: kind("Zone"), mesh: "", name: &name }, zone).await.unwrap();
            order.lock().unwrap().push("zone");
        }
        for mesh in meshes {
            mesh.await.unwrap();
        }
        let order = order.lock().unwrap().clone();
        assert_eq!(order.len(), MESHES + ZONES);
        let zones = order.iter().rposition(|done| *done == "zone");
        let meshes = order.iter().rposition(|done| *done == "mesh");
        assert!(zones < meshes, "writes waited for all keys: {order:?}");
        catalog.store().close().await;
    });
}

#[tokio::test]
async fn key_size_is_bounded() {
    let bed = Bed::new().await;
    for bits in [1, 1024, 8192, 1_000_000] {
        let mesh = json!({ "type": "Mesh", "name": "demo", "mtls": { "skipValidation": true, "backends": [
            { "name": "ca-1", "type": "builtin", "conf": { "caCert": { "RSAbits": bits } } },
        ] } });
        let refused = problems(bed.put_mesh_document(mesh).await);
        let start = "mtls.backends[0].conf.caCert.RSAbits: RSA keys of";
        assert!(refused[0].starts_with(start) && refused[0].ends_with("use 2048, 3072 or 4096"), "{refused:?}");
    }
}

#[tokio::test]
async fn number_of_new_keys_is_bounded() {
    let bed = Bed::new().await;
    let backends: Vec<_> = (0..5).map(|n| builtin(&format!("ca-{n}"))).collect();
    let refused = problems(bed.put_mesh("", json!(backends)).await);
    assert_eq!(refused, ["mtls.backends: 5 backends need a new CA; add at most 4 in one write"]);
    bed.put_mesh("", json!(backends[..4])).await.unwrap();
    bed.put_mesh("", json!(backends)).await.unwrap();
}

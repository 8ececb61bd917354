//! Virtual addresses of imported services.

use std::net::Ipv4Addr;

use kodiak_catalog::{Put, Refusal, Rights, Target};
use serde_json::{Value, json};

use crate::bed::{Bed, kind};

fn service(name: &str) -> Value {
    json!({
        "type": "MeshService", "mesh": "demo", "name": name,
        "spec": { "selector": { "dataplaneTags": { "kuma.io/service": name } }, "ports": [{ "port": 80, "targetPort": 80 }] },
    })
}

async fn import(bed: &Bed, name: &str, last: u8) -> Result<Put, Refusal> {
    let target = Target { kind: kind("MeshService"), mesh: "demo", name };
    bed.0.put_with_address(target, service(name), Rights::ALL, Ipv4Addr::new(241, 0, 0, last)).await
}

fn vip(bed: &Bed, name: &str) -> Value {
    let key = kodiak_model::ResourceKey::in_mesh("MeshService", "demo", name);
    let status = bed.0.store().get(&key).and_then(|record| record.status.clone());
    status.map_or(Value::Null, |status| serde_json::from_str::<Value>(&status).unwrap()["vips"].clone())
}

#[tokio::test]
async fn free_address_is_kept_and_never_moves() {
    let bed = Bed::new().await;
    bed.put_mesh("", json!([])).await.unwrap();
    let put = import(&bed, "web", 7).await.unwrap();
    assert!(put.created && put.changed);
    assert_eq!(vip(&bed, "web"), json!([{ "ip": "241.0.0.7" }]));
    let again = import(&bed, "web", 7).await.unwrap();
    assert!(!again.changed, "{again:?}");
    let moved = import(&bed, "web", 8).await.unwrap_err().to_string();
    assert!(moved.contains("it has the virtual address 241.0.0.7 already"), "{moved}");
}

#[tokio::test]
async fn address_of_another_service_is_rejected_and_nothing_is_stored() {
    let bed = Bed::new().await;
    bed.put_mesh("", json!([])).await.unwrap();
    import(&bed, "web", 7).await.unwrap();
    let taken = import(&bed, "api", 7).await.unwrap_err().to_string();
    assert!(taken.contains("241.0.0.7 belongs to MeshService \"web\" in mesh \"demo\""), "{taken}");
    assert_eq!(vip(&bed, "api"), Value::Null);
    let target = Target { kind: kind("MeshService"), mesh: "demo", name: "api" };
    let outside = bed.0.put_with_address(target, service("api"), Rights::ALL, Ipv4Addr::new(10, 0, 0, 1)).await;
    let outside = outside.unwrap_err().to_string();
    assert!(outside.contains("not in the range 241.0.0.0/8 of MeshService"), "{outside}");
}

#[tokio::test]
async fn only_one_of_concurrent_imports_gets_an_address() {
    let bed = Bed::new().await;
    bed.put_mesh("", json!([])).await.unwrap();
    let (one, two, three) = tokio::join!(import(&bed, "one", 7), import(&bed, "two", 7), import(&bed, "three", 7));
    let created = [&one, &two, &three].iter().filter(|result| result.is_ok()).count();
    assert_eq!(created, 1, "{one:?} {two:?} {three:?}");
}

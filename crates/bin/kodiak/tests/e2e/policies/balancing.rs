//! MeshLoadBalancingStrategy: load balancing between instances.

use std::collections::BTreeSet;

use serde_json::json;

use super::{tally, to_backend, until_only};
use crate::harness::{Dataplane, Mesh, Mtls, Sidecar, eventually, expect};

/// So many that an instance to which none of them leads is left out on purpose.
const USERS: u32 = 100;

#[tokio::test(flavor = "multi_thread")]
async fn hashes_a_header() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let (_one, _two, _three) = tokio::join!(mesh.backend("one"), mesh.backend("two"), mesh.backend("three"));
    let client = mesh.client().await;
    eventually("all are known", async || expect(tally(&client, 30).await.len() == 3, ())).await;
    let by_user = json!([{ "type": "Header", "header": { "name": "x-user" } }]);
    for (kind, field) in [("RingHash", "ringHash"), ("Maglev", "maglev")] {
        let balancer = json!({ "type": kind, field: { "hashPolicies": by_user } });
        mesh.put("MeshLoadBalancingStrategy", "balancing", &to_backend(&json!({ "loadBalancer": balancer }))).await;
        eventually(&format!("{kind} keeps a user at one instance"), async || {
            let mut seen = BTreeSet::new();
            for _ in 0..20 {
                seen.insert(instance_of(&client, "somebody").await);
            }
            expect(seen.len() == 1, seen)
        })
        .await;
        let mut instances = BTreeSet::new();
        for user in 0..USERS {
            let user = format!("user-{user}");
            let instance = instance_of(&client, &user).await;
            assert_eq!(instance_of(&client, &user).await, instance, "{kind}: {user}");
            instances.insert(instance);
        }
        assert_eq!(instances.len(), 3, "{kind}: {instances:?}");
        mesh.delete("MeshLoadBalancingStrategy", "balancing").await;
        eventually("the header decides nothing", async || {
            let (first, second) = (instance_of(&client, "somebody").await, instance_of(&client, "somebody").await);
            expect(first != second, first)
        })
        .await;
    }
}

async fn instance_of(client: &Sidecar, user: &str) -> String {
    client.call_with("/", &[("x-user", user)]).await.unwrap().fine().text
}

#[tokio::test(flavor = "multi_thread")]
async fn prefers_instances_with_the_same_tag() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let in_rack =
        |name, rack| mesh.serving(name, move |service| Dataplane::serving(name, service).tagged("rack", rack));
    let ((_near, near), (_far, _other)) = tokio::join!(in_rack("near", "r1"), in_rack("far", "r2"));
    let client = mesh.client_as(Dataplane::calling("client").tagged("rack", "r1")).await;
    let affinity = |tag| to_backend(&json!({ "localityAwareness": { "localZone": { "affinityTags": [tag] } } }));

    mesh.put("MeshLoadBalancingStrategy", "balancing", &affinity(json!({ "key": "rack" }))).await;
    eventually("one in ten calls goes to the other rack", async || {
        let tally = tally(&client, 200).await;
        let far = tally.get("far").copied().unwrap_or_default();
        // Envoy counts, so that this is no matter of luck.
        expect((10..=30).contains(&far), tally)
    })
    .await;
    mesh.put("MeshLoadBalancingStrategy", "balancing", &affinity(json!({ "key": "rack", "weight": 1_000_000 }))).await;
    until_only(&client, "near", 100).await;

    near.terminate();
    near.ended().await;
    until_only(&client, "far", 20).await;
}

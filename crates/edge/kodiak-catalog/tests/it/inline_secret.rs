//! Inline private keys of a resource are stored in its Secret, and nowhere else.

use kodiak_catalog::Rights;
use kodiak_model::ResourceKey;
use kodiak_store::{Expect, Record, Write};
use serde_json::{Value, json};

use crate::bed::{Bed, problems};

const KEY: &str = "-----BEGIN PRIVATE KEY-----\nthe key\n-----END PRIVATE KEY-----\n";
const OTHER: &str = "-----BEGIN PRIVATE KEY-----\nanother\n-----END PRIVATE KEY-----\n";

fn external(verification: &Value) -> Value {
    json!({ "spec": {
        "match": { "type": "HostnameGenerator", "port": 443, "protocol": "tcp" },
        "endpoints": [{ "address": "example.com", "port": 443 }],
        "tls": { "enabled": true, "verification": verification },
    } })
}

fn with_key(key: &str) -> Value {
    external(&json!({ "clientCert": { "inlineString": "certificate" }, "clientKey": { "inlineString": key } }))
}

async fn bed() -> Bed {
    let bed = Bed::new().await;
    bed.put_mesh("", json!([])).await.unwrap();
    bed
}

fn stored(bed: &Bed, kind: &str, name: &str) -> Value {
    let record = bed.0.store().get(&ResourceKey::in_mesh(kind, "demo", name)).unwrap();
    serde_json::from_str(&record.spec).unwrap()
}

/// The Secrets of a resource.
fn secrets(bed: &Bed, kind: &str, name: &str) -> Vec<Record> {
    let owner = ResourceKey::in_mesh(kind, "demo", name);
    let snapshot = bed.0.store().snapshot();
    snapshot.list_in("Secret", "demo").filter(|record| record.owner.as_ref() == Some(&owner)).cloned().collect()
}

#[tokio::test]
async fn inline_key_is_moved_to_a_secret_and_referenced() {
    let bed = bed().await;
    bed.put("MeshExternalService", "out", with_key(KEY)).await.unwrap();
    let found = secrets(&bed, "MeshExternalService", "out");
    assert_eq!(found.len(), 1);
    assert_eq!(bed.secret_data(&found[0]), KEY.as_bytes());
    let verification = &stored(&bed, "MeshExternalService", "out")["tls"]["verification"];
    assert_eq!(verification["clientKey"], json!({ "secret": &*found[0].key.name }));
    assert_eq!(verification["clientCert"], json!({ "inlineString": "certificate" }), "a certificate is no secret");
}

#[tokio::test]
async fn writing_back_the_read_resource_changes_nothing() {
    let bed = bed().await;
    bed.put("MeshExternalService", "out", with_key(KEY)).await.unwrap();
    let before = bed.0.store().snapshot().revision();
    let read = json!({ "spec": stored(&bed, "MeshExternalService", "out") });
    let put = bed.put_with("MeshExternalService", "out", read, Rights::default()).await.unwrap();
    assert!(!put.changed);
    assert!(
        !bed.put("MeshExternalService", "out", with_key(KEY)).await.unwrap().changed,
        "nor does the first document"
    );
    assert_eq!(bed.0.store().snapshot().revision(), before);
}

#[tokio::test]
async fn new_inline_key_replaces_the_secret_which_is_deleted_with_the_resource() {
    let bed = bed().await;
    bed.put("MeshExternalService", "out", with_key(KEY)).await.unwrap();
    bed.put("MeshExternalService", "out", with_key(OTHER)).await.unwrap();
    let found = secrets(&bed, "MeshExternalService", "out");
    assert_eq!(found.len(), 1);
    assert_eq!(bed.secret_data(&found[0]), OTHER.as_bytes());
    bed.delete("MeshExternalService", "demo", "out").await.unwrap();
    assert!(bed.0.store().get(&found[0].key).is_none());
}

#[tokio::test]
async fn keys_are_moved_in_every_kind_and_form() {
    let bed = bed().await;
    let certificate = |text: &str| json!({ "inlineString": text });
    let listener = json!({ "port": 1, "protocol": "HTTPS", "hostname": "a.example", "tls": { "mode": "TERMINATE",
        "certificates": [certificate(KEY), certificate(OTHER)] } });
    let gateway =
        json!({ "selectors": [{ "match": { "kuma.io/service": "edge" } }], "conf": { "listeners": [listener] } });
    bed.put("MeshGateway", "edge", gateway).await.unwrap();
    assert_eq!(secrets(&bed, "MeshGateway", "edge").len(), 2);
    assert!(!stored(&bed, "MeshGateway", "edge").to_string().contains("PRIVATE KEY"));

    let source = |text: &str| json!({ "type": "InsecureInline", "insecureInline": { "value": text } });
    let ca = json!({ "certificate": source("certificate"), "privateKey": source(KEY) });
    let identity = json!({ "spec": { "selector": {}, "provider": { "type": "Bundled", "bundled": { "ca": ca } } } });
    bed.put("MeshIdentity", "identity", identity).await.unwrap();
    let found = secrets(&bed, "MeshIdentity", "identity");
    let reference = json!({ "type": "Secret", "secretRef": { "kind": "Secret", "name": &*found[0].key.name } });
    let ca = stored(&bed, "MeshIdentity", "identity")["provider"]["bundled"]["ca"].clone();
    assert_eq!(ca, json!({ "certificate": source("certificate"), "privateKey": reference }));
}

#[tokio::test]
async fn key_after_a_certificate_is_moved_and_an_ignored_one_is_dropped() {
    let bed = bed().await;
    let bundle = external(&json!({ "caCert": { "inlineString": format!("certificate\n{KEY}") } }));
    bed.put("MeshExternalService", "bundle", bundle).await.unwrap();
    assert!(!stored(&bed, "MeshExternalService", "bundle").to_string().contains("PRIVATE KEY"));
    bed.put_secret("own", KEY).await;
    let both =
        json!({ "clientCert": { "inlineString": "c" }, "clientKey": { "secret": "own", "inlineString": OTHER } });
    bed.put("MeshExternalService", "both", external(&both)).await.unwrap();
    let key = &stored(&bed, "MeshExternalService", "both")["tls"]["verification"]["clientKey"];
    assert_eq!(*key, json!({ "secret": "own" }));
}

#[tokio::test]
async fn existing_secrets_are_not_overwritten() {
    let bed = bed().await;
    bed.put("MeshExternalService", "out", with_key(KEY)).await.unwrap();
    let name = secrets(&bed, "MeshExternalService", "out")[0].key.name.to_string();
    bed.delete("MeshExternalService", "demo", "out").await.unwrap();
    bed.put_secret(&name, "of a user").await;
    let refused = problems(bed.put("MeshExternalService", "out", with_key(KEY)).await);
    assert!(refused[0].contains("which holds something else"), "{refused:?}");
    assert_eq!(bed.secret_data(&bed.secret(&name).unwrap()), b"of a user");
}

#[tokio::test]
async fn stored_inline_keys_are_moved_at_startup() {
    let bed = bed().await;
    let write = Write::Put {
        key: ResourceKey::in_mesh("MeshExternalService", "demo", "old"),
        spec: with_key(KEY)["spec"].to_string().into(),
        labels: std::collections::BTreeMap::new(),
        owner: Some(ResourceKey::global("Mesh", "demo")),
        expect: Expect::Absent,
    };
    bed.0.store().commit(write.into()).await.unwrap();
    bed.0.ensure_defaults(kodiak_catalog::Defaults::default()).await.unwrap();
    assert!(!stored(&bed, "MeshExternalService", "old").to_string().contains("PRIVATE KEY"));
    assert_eq!(bed.secret_data(&secrets(&bed, "MeshExternalService", "old")[0]), KEY.as_bytes());
}

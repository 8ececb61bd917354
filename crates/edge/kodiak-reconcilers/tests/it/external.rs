//! Conditions of MeshExternalServices, over a store.

use std::time::Duration;

use kodiak_model::ResourceKey;
use kodiak_store::Store;
use serde_json::{Value, json};

use crate::{
    bed::{MESH, delete, put, store},
    services::{Running, key, put_mesh},
};

/// Waits until the status of the service has conditions that match, and an address.
async fn conditions(store: &Store, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    loop {
        let record = store.get(&key("MeshExternalService", "bank"));
        let status = record.and_then(|record| record.status).map(|status| serde_json::from_str::<Value>(&status));
        if let Some(Ok(status)) = status.filter(|status| status.as_ref().is_ok_and(|it| it["vip"]["ip"].is_string())) {
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            if wanted(&conditions) {
                return conditions;
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn missing_secret_is_a_condition_until_it_exists() {
    let store = store().await;
    put_mesh(&store, "Everywhere").await;
    let running = Running::usual(&store);
    let verification = json!({ "serverName": "bank.example", "caCert": { "secret": "bank-ca" } });
    let spec = json!({
        "match": { "type": "HostnameGenerator", "port": 443, "protocol": "tcp" },
        "endpoints": [{ "address": "192.0.2.1", "port": 443 }],
        "tls": { "enabled": true, "verification": verification },
    });
    put(&store, key("MeshExternalService", "bank"), &spec).await;
    let found = conditions(&store, |found| !found.is_empty()).await;
    assert_eq!((&found[0]["status"], &found[0]["reason"]), (&json!("False"), &json!("TlsSettingsInvalid")));
    let message = found[0]["message"].as_str().unwrap();
    assert!(message.contains("spec.tls.verification.caCert"), "{message}");
    assert!(message.contains("Secret \"bank-ca\" does not exist in mesh \"default\""), "{message}");

    let secret = ResourceKey::in_mesh("Secret", MESH, "bank-ca");
    // "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"
    let pem = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";
    put(&store, secret.clone(), &json!({ "data": pem })).await;
    conditions(&store, <[Value]>::is_empty).await;
    delete(&store, secret).await;
    conditions(&store, |found| !found.is_empty()).await;
    running.stop().await;
}

//! Certificates for Envoy's admin interface.

use std::sync::Arc;

use kodiak_ca::ADMIN_CLIENT_NAME;
use kodiak_catalog::{Defaults, Target};
use kodiak_crypto::{ClientCa, server_config};
use kodiak_engine::Identities as _;
use kodiak_model::{ProxyKey, kinds};
use serde_json::json;

use crate::bed::{Bed, content_of};

fn proxy() -> ProxyKey {
    ProxyKey::new("demo", "web-1")
}

async fn bed() -> Bed {
    let bed = Bed::new().await;
    let defaults = Defaults { skip_mesh: true, skip_hostname_generators: true, skip_admin_token: true };
    bed.catalog.ensure_defaults(defaults).await.unwrap();
    bed.put_mesh("", json!([])).await;
    bed
}

#[tokio::test]
async fn admin_certificate_has_the_addresses_of_the_proxy() {
    let bed = bed().await;
    bed.put_dataplane("web-1", json!({ "address": "192.0.2.1", "advertisedAddress": "web.example.com" })).await;
    let made = bed.mesh_cas.admin(&proxy()).unwrap();
    let content = content_of(&made.certificate);
    assert_eq!(content.names, ["web.example.com", "192.0.2.1"]);
    assert!(content.for_servers && !content.for_clients, "no proxy may ask another one");
    assert_eq!(made.client_name, ADMIN_CLIENT_NAME);
    let client_ca = Some(ClientCa::Required(made.client_ca.as_bytes()));
    server_config(made.certificate.as_bytes(), made.key.as_bytes(), client_ca).unwrap();
}

#[tokio::test]
async fn admin_certificate_is_the_same_until_the_address_changes() {
    let bed = bed().await;
    bed.put_dataplane("web-1", json!({ "address": "192.0.2.1" })).await;
    let made = bed.mesh_cas.admin(&proxy()).unwrap();
    assert!(Arc::ptr_eq(&made, &bed.mesh_cas.admin(&proxy()).unwrap()));
    assert_eq!(made, bed.another().admin(&proxy()).unwrap(), "a restart changes nothing");
    bed.put_dataplane("web-1", json!({ "address": "192.0.2.2" })).await;
    assert_eq!(content_of(&bed.mesh_cas.admin(&proxy()).unwrap().certificate).names, ["192.0.2.2"]);
}

#[tokio::test]
async fn recreated_dataplane_has_another_key() {
    let bed = bed().await;
    bed.put_dataplane("web-1", json!({ "address": "192.0.2.1" })).await;
    let first = bed.mesh_cas.admin(&proxy()).unwrap();
    let target = Target { kind: &kinds::dataplane::KIND, mesh: "demo", name: "web-1" };
    bed.catalog.delete(target).await.unwrap();
    bed.put_dataplane("web-1", json!({ "address": "192.0.2.1" })).await;
    let second = bed.mesh_cas.admin(&proxy()).unwrap();
    assert!(first.key != second.key);
    assert_eq!(second, bed.another().admin(&proxy()).unwrap());
}

#[tokio::test]
async fn control_plane_has_a_client_certificate() {
    let bed = bed().await;
    let client = bed.mesh_cas.admin_client().unwrap();
    assert_eq!(client, bed.another().admin_client().unwrap());
    let content = content_of(&client.certificate);
    assert_eq!(content.names, [ADMIN_CLIENT_NAME]);
    assert!(content.for_clients && !content.for_servers);
    assert!(!client.ca.contains("PRIVATE KEY"));
    assert!(!format!("{client:?}").contains("PRIVATE KEY"));
}

#[tokio::test]
async fn proxy_cannot_have_the_name_of_the_control_plane() {
    let bed = bed().await;
    bed.put_dataplane("web-1", json!({ "address": "kuma-cp" })).await;
    assert_eq!(bed.mesh_cas.admin(&proxy()), None);
}

#[tokio::test]
async fn no_certificate_without_a_proxy_or_a_ca() {
    let without_proxy = bed().await;
    assert_eq!(without_proxy.mesh_cas.admin(&proxy()), None);
    let without_authority = Bed::new().await;
    without_authority.put_mesh("", json!([])).await;
    without_authority.put_dataplane("web-1", json!({ "address": "192.0.2.1" })).await;
    assert_eq!(without_authority.mesh_cas.admin(&proxy()), None);
    let error = without_authority.mesh_cas.admin_client().unwrap_err();
    assert!(error.contains("the leader creates it"), "{error}");
}

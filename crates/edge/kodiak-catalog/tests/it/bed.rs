//! A catalog on an empty store, and CAs for it.

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use kodiak_catalog::{Catalog, CatalogSettings, FileSources, Put, Refusal, Rights, Target};
use kodiak_crypto::{CaKeyType, KeyPair, RootCaParams, RsaBits, TEN_YEARS, root_ca};
use kodiak_model::{Kind, Place, ResourceKey};
use kodiak_store::{Backend, Expect, Record, Store, StoreConfig, Write};
use serde_json::{Value, json};

pub(crate) struct Bed(pub(crate) Catalog);

impl Bed {
    pub(crate) async fn new() -> Self {
        Self::reading(FileSources::default()).await
    }

    /// With files that resources may reference.
    pub(crate) async fn reading(files: FileSources) -> Self {
        let store = Store::open(StoreConfig::new(Backend::Memory)).await.unwrap();
        let place = Place::Zone { name: "east".to_owned() };
        Self(Catalog::new(store, CatalogSettings { place, unsafe_delete: false }).with_files(files))
    }

    /// Writes the mesh `demo`; with an empty `enabled`, mTLS is disabled.
    pub(crate) async fn put_mesh(&self, enabled: &str, backends: Value) -> Result<Put, Refusal> {
        let mesh = json!({
            "type": "Mesh", "name": "demo", "skipCreatingInitialPolicies": ["*"],
            "mtls": { "enabledBackend": enabled, "backends": backends },
        });
        self.put_mesh_document(mesh).await
    }

    pub(crate) async fn put_mesh_document(&self, mesh: Value) -> Result<Put, Refusal> {
        let target = Target { kind: kind("Mesh"), mesh: "", name: "demo" };
        self.0.put_with(target, mesh, Rights::ALL).await
    }

    /// Writes a resource of the mesh `demo`.
    pub(crate) async fn put(&self, kind_name: &str, name: &str, document: Value) -> Result<Put, Refusal> {
        self.put_with(kind_name, name, document, Rights::ALL).await
    }

    pub(crate) async fn put_with(
        &self,
        kind_name: &str,
        name: &str,
        mut document: Value,
        rights: Rights,
    ) -> Result<Put, Refusal> {
        document["type"] = json!(kind_name);
        document["mesh"] = json!("demo");
        document["name"] = json!(name);
        self.0.put_with(Target { kind: kind(kind_name), mesh: "demo", name }, document, rights).await
    }

    pub(crate) async fn put_secret(&self, name: &str, data: &str) {
        self.put("Secret", name, json!({ "data": BASE64_STANDARD.encode(data) })).await.unwrap();
    }

    pub(crate) async fn delete(&self, kind_name: &str, mesh: &str, name: &str) -> Result<(), Refusal> {
        self.0.delete(Target { kind: kind(kind_name), mesh, name }).await
    }

    pub(crate) fn secret(&self, name: &str) -> Option<Record> {
        self.0.store().get(&ResourceKey::in_mesh("Secret", "demo", name))
    }

    /// The bytes of a stored Secret.
    pub(crate) fn secret_data(&self, secret: &Record) -> Vec<u8> {
        self.0.store().snapshot().world().secret(&secret.key).unwrap()
    }

    pub(crate) fn mesh(&self) -> Value {
        serde_json::from_str(&self.0.store().get(&ResourceKey::global("Mesh", "demo")).unwrap().spec).unwrap()
    }

    /// A proxy whose certificate is of this backend.
    pub(crate) async fn put_insight(&self, name: &str, issued_backend: &str, online: bool) {
        let mut subscription = json!({ "id": "1", "connectTime": "2026-08-01T12:00:00Z" });
        if !online {
            subscription["disconnectTime"] = json!("2026-08-01T13:00:00Z");
        }
        let spec = json!({ "subscriptions": [subscription], "mTLS": { "issuedBackend": issued_backend } });
        let write = Write::Put {
            key: ResourceKey::in_mesh("DataplaneInsight", "demo", name),
            spec: spec.to_string().into(),
            labels: std::collections::BTreeMap::new(),
            owner: None,
            expect: Expect::Any,
        };
        self.0.store().commit(write.into()).await.unwrap();
    }
}

pub(crate) fn kind(name: &str) -> &'static Kind {
    kodiak_kinds::kinds().by_name(name).unwrap()
}

/// The problems of a rejected write, each as `path: message`.
pub(crate) fn problems<T: std::fmt::Debug>(refused: Result<T, Refusal>) -> Vec<String> {
    match refused {
        Err(Refusal::Invalid { problems, .. }) => {
            problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect()
        }
        other => panic!("not refused as invalid: {other:?}"),
    }
}

pub(crate) fn ca(common_name: &str) -> KeyPair {
    root_ca(&RootCaParams {
        common_name,
        expires_after: TEN_YEARS,
        key: CaKeyType::Rsa(RsaBits::default()),
        uri_san: None,
        now: Timestamp::now(),
    })
    .unwrap()
}

pub(crate) fn builtin(name: &str) -> Value {
    json!({ "name": name, "type": "builtin" })
}

pub(crate) fn provided(name: &str, pair: &KeyPair) -> Value {
    json!({ "name": name, "type": "provided", "conf": {
        "cert": { "inlineString": pair.cert_pem },
        "key": { "inlineString": pair.key_pem.expose() },
    } })
}

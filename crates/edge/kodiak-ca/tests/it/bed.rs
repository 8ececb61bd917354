//! A mesh in a store, and a reader of certificates.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use kodiak_ca::MeshCas;
use kodiak_catalog::{Catalog, CatalogSettings, FileSources, Rights, Target};
use kodiak_crypto::{CaKeyType, KeyPair, RootCaParams, RsaBits, TEN_YEARS, certificates, root_ca};
use kodiak_model::{Kind, Place, ResourceKey, kinds};
use kodiak_store::{Backend, Expect, Store, StoreConfig, Write};
use serde_json::{Value, json};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

pub(crate) struct Bed {
    pub(crate) catalog: Catalog,
    pub(crate) mesh_cas: MeshCas,
}

impl Bed {
    pub(crate) async fn new() -> Self {
        Self::reading(FileSources::default()).await
    }

    /// With files that backends may name.
    pub(crate) async fn reading(files: FileSources) -> Self {
        let store = Store::open(StoreConfig::new(Backend::Memory)).await.unwrap();
        let place = Place::Zone { name: "east".to_owned() };
        let catalog =
            Catalog::new(store.clone(), CatalogSettings { place, unsafe_delete: true }).with_files(files.clone());
        Self { catalog, mesh_cas: MeshCas::new(store).with_files(files) }
    }

    /// Another control plane on the same store, or this one after a restart.
    pub(crate) fn another(&self) -> MeshCas {
        MeshCas::new(self.catalog.store().clone())
    }

    pub(crate) async fn put(&self, kind: &'static Kind, mesh: &str, name: &str, mut document: Value) {
        document["type"] = json!(kind.name);
        document["name"] = json!(name);
        if !mesh.is_empty() {
            document["mesh"] = json!(mesh);
        }
        self.catalog.put_with(Target { kind, mesh, name }, document, Rights::ALL).await.unwrap();
    }

    pub(crate) async fn put_mesh(&self, enabled: &str, backends: Value) {
        let mtls = json!({ "enabledBackend": enabled, "backends": backends });
        self.put(&kinds::mesh::KIND, "", "demo", json!({ "skipCreatingInitialPolicies": ["*"], "mtls": mtls })).await;
    }

    pub(crate) async fn put_secret(&self, name: &str, data: &str) {
        let data = BASE64_STANDARD.encode(data);
        self.put(&kinds::secret::KIND, "demo", name, json!({ "data": data })).await;
    }

    /// Bypasses all checks, so that the mesh may be created later.
    pub(crate) async fn store_dataplane(&self, name: &str) {
        let write = Write::Put {
            key: ResourceKey::in_mesh("Dataplane", "demo", name),
            spec: json!({ "networking": { "address": "192.0.2.1" } }).to_string().into(),
            labels: std::collections::BTreeMap::new(),
            owner: None,
            expect: Expect::Absent,
        };
        self.catalog.store().commit(write.into()).await.unwrap();
    }

    pub(crate) async fn put_dataplane(&self, name: &str, networking: Value) {
        let mut networking = networking;
        networking["inbound"] = json!([{ "port": 80, "tags": { "kuma.io/service": "web" } }]);
        self.put(&kinds::dataplane::KIND, "demo", name, json!({ "networking": networking })).await;
    }
}

pub(crate) fn issuer(common_name: &str) -> KeyPair {
    let (expires_after, key, now) = (TEN_YEARS, CaKeyType::Rsa(RsaBits::default()), Timestamp::now());
    root_ca(&RootCaParams { common_name, expires_after, key, uri_san: None, now }).unwrap()
}

/// Content of a certificate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CertificateContent {
    pub(crate) names: Vec<String>,
    pub(crate) issuer: String,
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
    pub(crate) for_servers: bool,
    pub(crate) for_clients: bool,
}

pub(crate) fn content_of(pem: &str) -> CertificateContent {
    let der = certificates(pem.as_bytes()).unwrap().remove(0);
    let (_, certificate) = X509Certificate::from_der(&der).unwrap();
    let names = certificate.subject_alternative_name().unwrap().unwrap().value;
    let usage = certificate.extended_key_usage().unwrap().unwrap().value;
    CertificateContent {
        names: names.general_names.iter().map(name).collect(),
        issuer: certificate.issuer().to_string(),
        not_before: certificate.validity().not_before.timestamp(),
        not_after: certificate.validity().not_after.timestamp(),
        for_servers: usage.server_auth,
        for_clients: usage.client_auth,
    }
}

fn name(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::URI(text) | GeneralName::DNSName(text) => (*text).to_owned(),
        GeneralName::IPAddress(bytes) => bytes.iter().map(ToString::to_string).collect::<Vec<_>>().join("."),
        other => panic!("{other:?}"),
    }
}

//! A preview is what the write then does: for random meshes and random edits, the diff names exactly the Envoy resources
//! that change when the edit is stored and reconciled.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::SignedDuration;
use kodiak_api::{Proxies as _, inspect::ConfigDiff};
use kodiak_catalog::{Catalog, CatalogSettings, FileSources, Refusal, Rights, Target};
use kodiak_cp::{Offline, StoredIdentities};
use kodiak_engine::{
    EngineChange, EngineSettings,
    difference::{Changed, Difference, Resource},
    offline::OfflineMesh,
};
use kodiak_kinds::kinds;
use kodiak_model::{Cancellation, Place, ProxyKey, Scope};
use kodiak_reconcilers::{quarantine::Quarantine, run_services};
use kodiak_services::generated_services::Rules;
use kodiak_services::service_status::ServiceSettings;
use kodiak_store::{Backend, Snapshot, Store, StoreConfig};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use kodiak_oracle::documents::ZONE;
use kodiak_oracle::meshes::{MESH, Mesh, whole_meshes};

/// A document that is written, or a resource that is deleted.
#[derive(Debug, Clone)]
enum Edit {
    Write(Value),
    /// Type, and name.
    Delete(String, String),
}

const CASES: u32 = 64;
/// Ways to make an edit.
const WAYS: usize = 5;

#[test]
fn preview_names_what_the_write_changes() {
    let config = ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() };
    let addresses = select(&["192.0.2.7", "other.example"][..]);
    let cases = (whole_meshes(), whole_meshes(), any::<bool>(), any::<Index>(), 0..WAYS, addresses);
    // Compared cases with a change, by the way of the edit.
    let changed: [Cell<usize>; WAYS] = Default::default();
    TestRunner::new(config)
        .run(&cases, |(mesh, other, secured, picked, way, address)| {
            let (documents, others) = (with_secrets(&mesh, secured), with_secrets(&other, !secured));
            let edit = edit(&documents, &others, picked, way, address);
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
            let has_changes = runtime.block_on(check(documents, edit))?;
            changed[way].set(changed[way].get() + usize::from(has_changes));
            Ok(())
        })
        .unwrap();
    let changed = changed.map(Cell::into_inner);
    println!("changes by way: {changed:?}");
    assert!(changed.iter().all(|count| *count > 0), "some edits never change a proxy: {changed:?}");
    assert!(changed.iter().sum::<usize>() > CASES as usize / 4, "few edits change a proxy: {changed:?}");
}

/// MeshExternalServices verify their servers with a CA in a Secret, which no other mesh of the generator has.
fn with_secrets(mesh: &Mesh, secured: bool) -> Vec<Value> {
    let mut documents = mesh.documents();
    for document in &mut documents {
        if document["type"] == "Mesh" {
            document["skipCreatingInitialPolicies"] = json!(["*"]);
        }
        if document["type"] == "MeshExternalService" && secured {
            let ca = json!({ "mode": "Secured", "caCert": { "secret": "outside-ca" } });
            document["spec"]["tls"] = json!({ "enabled": true, "verification": ca });
        }
    }
    documents.insert(1, secret(if secured { "one" } else { "two" }));
    documents
}

fn secret(content: &str) -> Value {
    let pem = format!("-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n");
    json!({ "type": "Secret", "mesh": MESH, "name": "outside-ca", "data": BASE64_STANDARD.encode(pem) })
}

fn edit(documents: &[Value], others: &[Value], picked: Index, way: usize, address: &str) -> Edit {
    let text = |document: &Value, field: &str| document[field].as_str().unwrap().to_owned();
    let outside = |document: &&Value| document["type"] == "MeshExternalService";
    match way {
        0 if documents.len() > 1 => {
            let document = &documents[1 + picked.index(documents.len() - 1)];
            Edit::Delete(text(document, "type"), text(document, "name"))
        }
        1 if documents.iter().any(|document| outside(&document)) => {
            let all: Vec<&Value> = documents.iter().filter(outside).collect();
            let mut document = all[picked.index(all.len())].clone();
            document["spec"]["endpoints"][0]["address"] = json!(address);
            Edit::Write(document)
        }
        2 => Edit::Write(
            picked
                .get(&[
                    secret("three"),
                    json!({ "type": "MeshIdentity", "mesh": MESH, "name": "announced",
                    "spec": { "selector": { "dataplane": { "matchLabels": {} } },
                              "spiffeID": { "trustDomain": "announced.example" } } }),
                    json!({ "type": "MeshOpenTelemetryBackend", "mesh": MESH, "name": "collector",
                    "spec": { "endpoint": { "address": address, "port": 4317 } } }),
                ])
                .clone(),
        ),
        _ => Edit::Write(others[picked.index(others.len())].clone()),
    }
}

/// Whether the edit changed a proxy.
async fn check(documents: Vec<Value>, edit: Edit) -> Result<bool, TestCaseError> {
    let bed = Bed::new().await;
    for document in documents {
        bed.write(document).await.map_err(|refusal| TestCaseError::fail(refusal.to_string()))?;
    }
    let before = bed.settled().await;
    let planned = bed.planned(&before, &edit);
    let written = bed.store_edit(&edit).await;
    // A refusal is foreseen, too.
    prop_assert_eq!(planned.is_err(), written.is_err(), "{:?} and {:?}", planned.err(), written.err());
    let Ok(planned) = planned else { return Ok(false) };
    let between = ConfigDiff { mesh: MESH, before: &before, after: &planned, full: false };
    let report = bed.offline.diff(between, &Cancellation::never());
    let report = report.map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
    let after = bed.settled().await;
    let expected = differences(&before, &after);
    let has_changes = !expected.is_empty();
    prop_assert_eq!(reported(&report), expected, "{:?}", edit);
    Ok(has_changes)
}

/// Names of added, removed and changed resources, with their types, for each proxy that changes.
type Named = BTreeMap<String, [Vec<String>; 3]>;

fn reported(report: &Value) -> Named {
    let mut all = Named::new();
    for proxy in report["proxies"].as_array().unwrap() {
        let names = |list: &str| -> Vec<String> {
            let resources = proxy[list].as_array().unwrap().iter();
            let mut names: Vec<String> = resources
                .map(|one| format!("{} {}", one["type"].as_str().unwrap(), one["name"].as_str().unwrap()))
                .collect();
            names.sort();
            names
        };
        all.insert(proxy["name"].as_str().unwrap().to_owned(), ["added", "removed", "changed"].map(names));
    }
    all
}

/// A store with the reconciler of services, and a control plane without connections.
struct Bed {
    catalog: Catalog,
    offline: Offline,
    drain: CancellationToken,
}

impl Bed {
    async fn new() -> Self {
        let store = Store::open(StoreConfig::new(Backend::Memory)).await.unwrap();
        let place = Place::Zone { name: ZONE.to_owned() };
        let catalog = Catalog::new(store.clone(), CatalogSettings { place, unsafe_delete: true });
        let drain = CancellationToken::new();
        let quarantine = Quarantine::new(Box::new(|_| ()));
        let reconciler = run_services(store.clone(), services(), quarantine, drain.clone());
        tokio::spawn(async move { reconciler.await.map_err(|error| error.to_string()) });
        Self { catalog, offline: Offline::new(store, settings(), services()), drain }
    }

    async fn write(&self, document: Value) -> Result<(), Refusal> {
        let (kind, name) = named(&document);
        let mesh = if kind.scope == Scope::Mesh { MESH } else { "" };
        self.catalog.put_with(Target { kind, mesh, name: &name }, document, Rights::ALL).await.map(drop)
    }

    async fn store_edit(&self, edit: &Edit) -> Result<(), Refusal> {
        match edit {
            Edit::Write(document) => self.write(document.clone()).await,
            Edit::Delete(kind, name) => self.catalog.delete(target(kind, name)).await,
        }
    }

    fn planned(&self, before: &Snapshot, edit: &Edit) -> Result<Snapshot, Refusal> {
        let cancellation = Cancellation::never();
        let mut planner = self.catalog.planner(before, Rights::ALL, &cancellation);
        match edit {
            Edit::Write(document) => {
                let (kind, name) = named(document);
                planner.write(target(kind.name, &name), document.clone())?;
            }
            Edit::Delete(kind, name) => planner.delete(target(kind, name))?,
        }
        planner.finish().map(|planned| planned.after).map_err(|unfit| unfit.refusal)
    }

    /// The clock is paused: it moves on once no task has anything to do.
    async fn settled(&self) -> Snapshot {
        tokio::time::sleep(Duration::from_hours(1)).await;
        self.catalog.store().snapshot()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.drain.cancel();
    }
}

/// Differences of the configuration of all proxies, each computed from scratch.
fn differences(before: &Snapshot, after: &Snapshot) -> Named {
    let (old, new) = (configured(before), configured(after));
    let proxies = after.list_in("Dataplane", MESH).map(|record| record.key.name.to_string());
    let mut all = Named::new();
    for name in proxies {
        let key = ProxyKey::new(MESH, &name);
        let (old, new) = (old.snapshot(&key), new.snapshot(&key));
        let difference = Difference::between(old.as_deref(), new.as_deref(), None).unwrap();
        if difference.is_empty() {
            continue;
        }
        let Difference { added, removed, changed } = difference;
        let changed = changed.into_iter().map(|Changed { resource, .. }| resource).collect();
        all.insert(
            name,
            [added, removed, changed].map(|resources: Vec<Resource>| {
                let mut names: Vec<String> =
                    resources.into_iter().map(|one| format!("{} {}", one.type_url, one.name)).collect();
                names.sort();
                names
            }),
        );
    }
    all
}

fn configured(snapshot: &Snapshot) -> OfflineMesh {
    let identities = Arc::new(StoredIdentities::new(snapshot.clone(), FileSources::default()));
    let changes = EngineChange::of_mesh(snapshot.world(), MESH);
    let mut mesh = OfflineMesh::with_identities(settings(), MESH, changes, identities).unwrap();
    let proxies = snapshot.list_in("Dataplane", MESH).map(|record| ProxyKey::new(MESH, &record.key.name));
    mesh.connect_all(proxies.map(|key| (key, Arc::default())));
    mesh
}

fn settings() -> EngineSettings {
    EngineSettings { zone: ZONE.into(), ..EngineSettings::default() }
}

fn services() -> ServiceSettings {
    let rules = Rules { zone: ZONE.to_owned(), disable_grace: SignedDuration::ZERO, ..Rules::default() };
    ServiceSettings { rules, ..ServiceSettings::default() }
}

fn named(document: &Value) -> (&'static kodiak_model::Kind, String) {
    let text = |field: &str| document[field].as_str().unwrap();
    (kinds().by_name(text("type")).unwrap(), text("name").to_owned())
}

fn target<'a>(kind: &str, name: &'a str) -> Target<'a> {
    let kind = kinds().by_name(kind).unwrap();
    Target { kind, mesh: if kind.scope == Scope::Mesh { MESH } else { "" }, name }
}

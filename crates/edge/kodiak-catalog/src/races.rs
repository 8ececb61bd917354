//! Every write of the catalog, with every write of somebody else between its decision and its commit: the result is that
//! of one after the other.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    sync::{Arc, Mutex},
};

use kodiak_kinds::kinds;
use kodiak_model::{Labels, Place, ResourceKey, kinds::dataplane::Admission};
use kodiak_store::{Backend, Expect, Record, Snapshot, Store, StoreConfig, Transaction, Write};
use serde_json::{Value, json};

use crate::{Author, Catalog, CatalogSettings, Defaults, Refusal, Rights, Target, owner_of};

/// Transactions of somebody else. One is committed before each commit of the catalog.
#[derive(Clone, Default)]
pub(crate) struct Interleaved(Arc<Mutex<Vec<Transaction>>>);

impl Interleaved {
    pub(crate) async fn commit_next(&self, store: &Store) {
        let next = self.0.lock().unwrap().pop();
        if let Some(transaction) = next {
            store.commit(transaction).await.unwrap();
        }
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }
}

async fn catalog() -> Catalog {
    let store = Store::open(StoreConfig::new(Backend::Memory)).await.unwrap();
    Catalog::new(store, CatalogSettings { place: Place::Zone { name: "east".to_owned() }, unsafe_delete: false })
}

/// A write of the catalog under test.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Put(&'static str, &'static str),
    PutAsProxy,
    PutWithAddress,
    Delete(&'static str, &'static str),
}

const OPERATIONS: &[Operation] = &[
    Operation::Put("Mesh", "demo"),
    Operation::Put("Mesh", "default"),
    Operation::Put("Dataplane", "web"),
    Operation::Put("Secret", "ca"),
    Operation::Put("MeshService", "web"),
    Operation::Put("MeshTimeout", "web"),
    Operation::Put("Zone", "west"),
    Operation::PutAsProxy,
    Operation::PutWithAddress,
    Operation::Delete("Mesh", "demo"),
    Operation::Delete("Dataplane", "web"),
    Operation::Delete("Secret", "ca"),
    Operation::Delete("MeshService", "web"),
    Operation::Delete("Zone", "west"),
];

fn target(kind: &str, name: &'static str) -> Target<'static> {
    let kind = kinds().by_name(kind).unwrap();
    let mesh = if kind.scope == kodiak_model::Scope::Mesh { "demo" } else { "" };
    Target { kind, mesh, name }
}

fn key(kind: &str, name: &'static str) -> ResourceKey {
    target(kind, name).key()
}

fn document(kind: &str, name: &str, n: u64) -> Value {
    let mut document = match kind {
        // Its CA is the Secret `ca`.
        "Mesh" if name == "demo" => json!({ "skipCreatingInitialPolicies": ["*"], "mtls": { "skipValidation": n > 0,
            "enabledBackend": "ca-1", "backends": [{ "name": "ca-1", "type": "provided", "conf": {
                "cert": { "secret": "ca" }, "key": { "secret": "ca" } } }] } }),
        "Mesh" => {
            json!({ "skipCreatingInitialPolicies": ["*"], "networking": { "outbound": { "passthrough": n > 0 } } })
        }
        "Dataplane" => json!({ "networking": { "address": format!("10.0.0.{}", n + 1),
            "inbound": [{ "port": 80, "tags": { "kuma.io/service": "web" } }] } }),
        "Secret" => json!({ "data": if n == 0 { "YQ==" } else { "Yg==" } }),
        "MeshService" => json!({ "spec": { "selector": { "dataplaneTags": { "kuma.io/service": "web" } },
            "ports": [{ "port": 80 + n, "targetPort": 80 }] } }),
        "MeshTimeout" => json!({ "spec": { "targetRef": { "kind": "Mesh" },
            "to": [{ "targetRef": { "kind": "Mesh" }, "default": { "idleTimeout": format!("{}s", n + 1) } }] } }),
        "Zone" => json!({ "enabled": n > 0 }),
        other => panic!("no document of {other}"),
    };
    document["type"] = json!(kind);
    document["name"] = json!(name);
    if target(kind, "x").mesh == "demo" {
        document["mesh"] = json!("demo");
    }
    document
}

impl Operation {
    async fn run(self, catalog: &Catalog) -> String {
        let result = match self {
            Self::Put(kind, name) => {
                let put = catalog.put_with(target(kind, name), document(kind, name, 2), Rights::ALL).await;
                put.map(|put| format!("{put:?}"))
            }
            Self::PutAsProxy => {
                let author = Author::Proxy(Admission::default());
                loop {
                    let read = catalog.store().snapshot();
                    let document = document("Dataplane", "web", 2);
                    match catalog.put_on(&read, target("Dataplane", "web"), document, &author).await {
                        Err(Refusal::Conflict(_)) => (),
                        other => break other.map(|put| format!("{put:?}")),
                    }
                }
            }
            Self::PutWithAddress => {
                let (target, document) = (target("MeshService", "web"), document("MeshService", "web", 2));
                let put = catalog.put_with_address(target, document, Rights::ALL, Ipv4Addr::new(241, 0, 0, 9)).await;
                put.map(|put| format!("{put:?}"))
            }
            Self::Delete(kind, name) => catalog.delete(target(kind, name)).await.map(|()| "deleted".to_owned()),
        };
        result.unwrap_or_else(|refusal| refusal.to_string())
    }
}

fn put(kind: &str, name: &'static str, spec: &Value) -> Write {
    let target = target(kind, name);
    Write::Put {
        key: target.key(),
        spec: spec.to_string().into(),
        labels: Labels::new(),
        owner: owner_of(target.kind, target.mesh, name),
        expect: Expect::Any,
    }
}

/// The spec of a document, in the form of the store.
fn spec(kind: &str, name: &str, n: u64) -> Value {
    let mut document = document(kind, name, n);
    if let Some(spec) = document.get_mut("spec") {
        return spec.take();
    }
    document.as_object_mut().unwrap().retain(|name, _| !["type", "name", "mesh"].contains(&name.as_str()));
    document
}

/// Keys that operations write.
const WRITTEN: &[(&str, &str)] = &[
    ("Mesh", "demo"),
    ("Mesh", "default"),
    ("Dataplane", "web"),
    ("Secret", "ca"),
    ("MeshService", "web"),
    ("MeshTimeout", "web"),
    ("Zone", "west"),
    ("HostnameGenerator", "local-mesh-external-service"),
];

/// Writes of somebody else: of every record that operations write or read.
fn others() -> Vec<Transaction> {
    let mut others: Vec<Transaction> = Vec::new();
    for (kind, name) in WRITTEN {
        let spec = |n: u64| {
            if *kind == "HostnameGenerator" { json!({ "template": n.to_string() }) } else { spec(kind, name, n) }
        };
        let delete = || Write::Delete { key: key(kind, name), expect: Expect::Any };
        let same = |spec: &Value| put(kind, name, spec);
        let status = |text: &str| Write::PutStatus { key: key(kind, name), status: text.into(), expect: Expect::Any };
        others.push(same(&spec(1)).into());
        others.push(delete().into());
        others.push(status(r#"{"vips":[{"ip":"241.0.0.7"}]}"#).into());
        others.push(status(r#"{"draining":true,"admission":{"tags":["kuma.io/service"],"name":true}}"#).into());
        // Deleted and created again, with all versions as before where a store counts them for each record.
        others.push(Transaction(vec![delete(), same(&spec(0))]));
        others.push(Transaction(vec![delete(), same(&spec(0)), status("{}")]));
    }
    others.push(put("MeshService", "other", &spec("MeshService", "other", 0)).into());
    others.push(Transaction(vec![
        put("MeshService", "other", &spec("MeshService", "other", 0)),
        Write::PutStatus {
            key: key("MeshService", "other"),
            status: r#"{"vips":[{"ip":"241.0.0.9"}]}"#.into(),
            expect: Expect::Any,
        },
        Write::Put {
            key: kodiak_world::document::service_addresses(),
            spec: "{}".into(),
            labels: Labels::new(),
            owner: None,
            expect: Expect::Any,
        },
    ]));
    others.push(put("Dataplane", "other", &spec("Dataplane", "other", 0)).into());
    let constraints = json!({ "constraints": { "dataplaneProxy": { "requirements": [{ "tags": { "team": "a" } }] } } });
    others.push(put("Mesh", "demo", &constraints).into());
    let online = json!({ "subscriptions": [{ "id": "1", "connectTime": "2026-08-01T12:00:00Z" }] });
    let online = Write::Put {
        key: ResourceKey::global("ZoneInsight", "west"),
        spec: online.to_string().into(),
        labels: Labels::new(),
        owner: Some(ResourceKey::global("Zone", "west")),
        expect: Expect::Any,
    };
    others.push(online.into());
    others.push(
        Write::Put {
            key: ResourceKey::global("Config", "kodiak-defaults"),
            spec: r#"["Mesh/default"]"#.into(),
            labels: Labels::new(),
            owner: None,
            expect: Expect::Any,
        }
        .into(),
    );
    others
}

/// Which records are there before.
const BEFORE: &[&[(&str, &str)]] = &[
    &[],
    &[("Mesh", "default")],
    &[("Mesh", "demo"), ("Secret", "ca"), ("Zone", "west")],
    &[("Mesh", "plain-demo"), ("Secret", "ca")],
    &[("Mesh", "demo"), ("Secret", "ca"), ("Dataplane", "web"), ("MeshService", "web"), ("MeshTimeout", "web")],
    &[("Mesh", "plain-demo"), ("Secret", "ca"), ("Dataplane", "web"), ("Zone", "west")],
];

async fn started(before: &[(&str, &'static str)]) -> Catalog {
    let catalog = catalog().await;
    // Generating keys takes seconds.
    let keys = ["dataplane-token-signing-key-default-1", "dataplane-token-signing-key-demo-1"];
    let meshes =
        keys.into_iter().zip(["default", "demo"]).map(|(name, mesh)| ResourceKey::in_mesh("Secret", mesh, name));
    let global = ["envoy-admin-ca", "zone-token-signing-key-1", "user-token-signing-key-1", "admin-user-token"];
    let global = global.map(|name| ResourceKey::global("GlobalSecret", name));
    for key in meshes.chain(global) {
        let spec = r#"{"data":"YQ=="}"#.into();
        let write = Write::Put { key, spec, labels: Labels::new(), owner: None, expect: Expect::Absent };
        catalog.store().commit(write.into()).await.unwrap();
    }
    for (kind, name) in before {
        let write = match *name {
            // Without a CA.
            "plain-demo" => put("Mesh", "demo", &json!({ "skipCreatingInitialPolicies": ["*"] })),
            name => put(kind, name, &spec(kind, name, 0)),
        };
        catalog.store().commit(write.into()).await.unwrap();
    }
    catalog
}

/// Everything but versions, times, and generated keys.
fn content(snapshot: &Snapshot) -> BTreeMap<ResourceKey, String> {
    let text = |record: &Record| {
        let Record { key, spec, status, labels, owner, .. } = record;
        let is_generated = (&*key.kind == "Secret" || &*key.kind == "GlobalSecret") && &*key.name != "ca";
        let spec = if is_generated { "generated" } else { &**spec };
        format!("{spec} {status:?} {labels:?} {owner:?}")
    };
    snapshot.iter().map(|record| (record.key.clone(), text(record))).collect()
}

async fn agrees_with_one_after_the_other(operation: Operation) {
    let (mut tried, mut effects) = (0, 0);
    for before in BEFORE {
        let alone = started(before).await;
        let alone_result = operation.run(&alone).await;
        for other in others() {
            let serial = started(before).await;
            if serial.store().commit(other.clone()).await.is_err() {
                continue;
            }
            let serial_result = operation.run(&serial).await;

            let raced = started(before).await;
            raced.interleaved.0.lock().unwrap().push(other.clone());
            let raced_result = operation.run(&raced).await;
            if !raced.interleaved.is_empty() {
                // Refused or unchanged before the other write: nothing was committed.
                assert_eq!(raced_result, alone_result);
                continue;
            }
            tried += 1;
            effects += usize::from(serial_result != alone_result);
            let case = format!("{operation:?} with {before:?}, while {other:?}");
            assert_eq!(raced_result, serial_result, "{case}");
            assert_eq!(content(&raced.store().snapshot()), content(&serial.store().snapshot()), "{case}");
        }
    }
    assert!(tried > 10, "{operation:?}: {tried}");
    assert!(effects > 0, "{operation:?}: no other write matters");
}

#[tokio::test]
async fn concurrent_writes_are_as_one_after_the_other() {
    for operation in OPERATIONS {
        agrees_with_one_after_the_other(*operation).await;
    }
}

/// What a user writes at the first start is the user's, whenever it comes.
#[tokio::test]
async fn defaults_never_replace_what_somebody_wrote() {
    let mut rounds = 0;
    for (kind, name) in [("Mesh", "default"), ("HostnameGenerator", "local-mesh-external-service")] {
        for position in 0.. {
            let catalog = started(&[]).await;
            let written = json!({ "written": "by a user" });
            let others = [vec![put(kind, name, &written).into()], vec![Transaction::default(); position]].concat();
            *catalog.interleaved.0.lock().unwrap() = others;
            catalog.ensure_defaults(Defaults::default()).await.unwrap();
            let stored = catalog.store().get(&key(kind, name)).unwrap();
            if !catalog.interleaved.is_empty() {
                break;
            }
            // After the default, a user's write replaces it.
            assert_eq!(*stored.spec, written.to_string(), "{kind} before commit {position}");
            rounds += 1;
            catalog.delete(target(kind, name)).await.unwrap();
            catalog.ensure_defaults(Defaults::default()).await.unwrap();
            assert_eq!(catalog.store().get(&key(kind, name)), None, "it was there once");
        }
    }
    assert!(rounds >= 8, "{rounds}");
}

#[tokio::test]
async fn several_control_planes_create_defaults_at_once() {
    let first = started(&[]).await;
    let instances = [first.clone(), first.clone(), first.clone()];
    let [one, two, three] = instances.each_ref().map(|catalog| catalog.ensure_defaults(Defaults::default()));
    let (one, two, three) = tokio::join!(one, two, three);
    let mut created = [one, two, three].map(|result| result.unwrap().created).concat();
    created.sort();
    let distinct: std::collections::BTreeSet<_> = created.iter().cloned().collect();
    assert_eq!(created, distinct.into_iter().collect::<Vec<_>>());
    assert_eq!(first.ensure_defaults(Defaults::default()).await.unwrap().created, Vec::<String>::new());
}

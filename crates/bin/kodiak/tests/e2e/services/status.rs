//! Proxy counts and state of a MeshService while proxies and workloads start and stop.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use serde_json::Value;
use tokio::task::JoinSet;

use super::until_service;
use crate::harness::{Dataplane, Door, MESH, Mesh, Mtls, Service, Setup, eventually, expect, get, workload_address};

/// Proxy counts and state of a MeshService.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    state: String,
    connected: u64,
    healthy: u64,
    total: u64,
}

impl Told {
    fn of(service: &Value) -> Self {
        let count = |name: &str| service["status"]["dataplaneProxies"][name].as_u64().unwrap_or_default();
        Self {
            state: service["spec"]["state"].as_str().unwrap_or_default().to_owned(),
            connected: count("connected"),
            healthy: count("healthy"),
            total: count("total"),
        }
    }

    fn available(proxies: u64) -> Self {
        Self { state: "Available".to_owned(), connected: proxies, healthy: proxies, total: proxies }
    }
}

async fn until_told(mesh: &Mesh, name: &str, expected: &Told) {
    eventually(&format!("{name} is {expected:?}"), async || {
        let service = mesh.mesh_service(name).await.unwrap_or_default();
        expect(Told::of(&service) == *expected, service)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn status_follows_the_proxies() {
    let setup = Setup { settings: &["meshService.connectionGracePeriod=2s"], ..Setup::default() };
    let Some(mesh) = Mesh::start_with(Mtls::Off, setup).await else { return };
    mesh.set_services("Everywhere").await;
    let (service, stays) = mesh.serving("stays", |service| Dataplane::serving("stays", service).stored()).await;
    until_told(&mesh, "backend", &Told::available(1)).await;
    let address = until_service(&mesh, "backend", "Available").await;

    let first = stays.dataplane.clone();
    let (_other, comes) = mesh.serving("comes", |service| Dataplane::serving("comes", service).beside(&first)).await;
    until_told(&mesh, "backend", &Told::available(2)).await;
    comes.terminate();
    comes.ended().await;
    until_told(&mesh, "backend", &Told::available(1)).await;

    // One whose Dataplane stays is still counted, and serves nobody.
    drop(stays);
    let away = Told { state: "Unavailable".to_owned(), connected: 0, healthy: 0, total: 1 };
    until_told(&mesh, "backend", &away).await;
    let _stays = mesh.sidecar(first).await;
    until_told(&mesh, "backend", &Told::available(1)).await;
    assert_eq!(until_service(&mesh, "backend", "Available").await, address, "what is called stays the same");
    drop(service);
}

#[tokio::test(flavor = "multi_thread")]
async fn status_does_not_flap_over_reconnects_and_a_restart() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    mesh.set_services("Everywhere").await;
    let (_one, first) = mesh.serving("one", |service| Dataplane::serving("one", service).stored()).await;
    let beside = |name, service: &Service| Dataplane::serving(name, service).stored().beside(&first.dataplane);
    let ((_two, _second), (_three, third)) = tokio::join!(
        mesh.serving("two", |service| beside("two", service)),
        mesh.serving("three", |service| beside("three", service))
    );
    until_told(&mesh, "backend", &Told::available(3)).await;
    until_service(&mesh, "backend", "Available").await;
    let watch = Watch::start(mesh.control_plane.api(), "backend");

    // A proxy goes down and comes back, as somebody else for all that is known.
    let dataplane = first.dataplane.clone();
    drop(first);
    let _first = mesh.sidecar(dataplane).await;
    eventually("all are connected", async || {
        let proxies = mesh.control_plane.metric("kodiak_xds_proxies").await;
        expect(proxies == 3, proxies)
    })
    .await;

    // One goes for good, so that it can be seen when the control plane has waited long enough for all of them.
    drop(third);
    eventually("it is known that it is gone", async || {
        let insight = mesh.insight("three").await;
        expect(insight["subscriptions"][0].get("disconnectTime").is_some(), insight)
    })
    .await;
    let mesh = mesh.crash(async || ()).await;
    let without_one = Told { total: 3, ..Told::available(2) };
    until_told(&mesh, "backend", &without_one).await;
    let seen = watch.end().await;
    assert_eq!(seen.told, [Told::available(3), without_one]);
    assert!(seen.writes.len() <= 3, "nothing else was to be written: {:?}", seen.writes);
}

#[tokio::test(flavor = "multi_thread")]
async fn service_without_healthy_workloads_is_unavailable() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    mesh.set_services("Everywhere").await;
    let service = Service::start("probed", workload_address()).await;
    let mut door = Door::open(service.address).await;
    let _sidecar = mesh.sidecar(Dataplane::serving("probed", &service).probed(door.address)).await;
    until_told(&mesh, "backend", &Told::available(1)).await;
    until_told(&mesh, "backend-tcp", &Told::available(1)).await;
    door.close().await;
    let dead = Told { state: "Unavailable".to_owned(), healthy: 0, ..Told::available(1) };
    until_told(&mesh, "backend", &dead).await;
    until_told(&mesh, "backend-tcp", &Told::available(1)).await;
    door.open_again().await;
    until_told(&mesh, "backend", &Told::available(1)).await;
}

/// All that a MeshService was, as far as can be seen by looking again and again.
struct Watch {
    api: SocketAddr,
    path: String,
    seen: Arc<Mutex<Seen>>,
    tasks: JoinSet<()>,
}

#[derive(Default, Clone)]
struct Seen {
    told: Vec<Told>,
    writes: BTreeSet<String>,
}

impl Watch {
    fn start(api: SocketAddr, name: &str) -> Self {
        let (seen, path) = (Arc::<Mutex<Seen>>::default(), format!("/meshes/{MESH}/meshservices/{name}"));
        let (shared, asked) = (Arc::clone(&seen), path.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                // The API does not answer while the control plane is down.
                if let Ok(answer) = get(api, &asked).await {
                    shared.lock().unwrap().note(&answer.fine().json());
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        });
        Self { api, path, seen, tasks }
    }

    async fn end(mut self) -> Seen {
        // A panic of the task is one of the test.
        while let Some(ended) = self.tasks.try_join_next() {
            ended.unwrap();
        }
        self.tasks.shutdown().await;
        // The last state may be newer than the last look.
        let last = get(self.api, &self.path).await.unwrap().fine().json();
        let mut seen = self.seen.lock().unwrap().clone();
        seen.note(&last);
        seen
    }
}

impl Seen {
    fn note(&mut self, service: &Value) {
        let told = Told::of(service);
        if self.told.last() != Some(&told) {
            self.told.push(told);
        }
        self.writes.insert(service["modificationTime"].to_string());
    }
}

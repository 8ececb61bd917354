//! Rounds of the engine, counted on a paused clock. The tests take the place of the streams.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use kodiak_ads::{Credential, Hello, Protocol, Proxies as _, Session, StreamReport};
use kodiak_catalog::{Catalog, CatalogSettings, Target};
use kodiak_envoy::{envoy::config::core::v3::Node, json};
use kodiak_metrics::Metrics;
use kodiak_model::{Place, ProxyKey};
use kodiak_proxies::{Authn, ProxySettings};
use kodiak_store::{Backend, StoreConfig};
use kodiak_xds_stream::{Counters, TypeUrl};
use serde_json::{Value, json};
use tokio::{sync::watch, time::sleep};

use super::*;
use crate::faults::EngineFault;

const CROWD: usize = 100;

struct Bed {
    catalog: Catalog,
    registry: Registry,
    metrics: Metrics,
    /// Whether streams send what is published.
    sending: watch::Sender<bool>,
    /// Proxies that were sent a snapshot.
    served: Arc<AtomicUsize>,
    /// Names of the changes that the engine applied.
    applied: Arc<Mutex<Vec<&'static str>>>,
    events: mpsc::UnboundedSender<ProxyEvent>,
}

impl Bed {
    async fn start() -> (Self, Writer) {
        let store = Store::open(StoreConfig::new(Backend::Memory)).await.unwrap();
        let settings = CatalogSettings { place: Place::Zone { name: "east".to_owned() }, unsafe_delete: true };
        let catalog = Catalog::new(store.clone(), settings);
        put(&catalog, json!({ "type": "Mesh", "name": "default" })).await;
        let mut settings = ProxySettings::new("cp-1");
        settings.authn = Authn::None;
        let (events, connections) = mpsc::unbounded_channel();
        let registry = Registry::new(catalog.clone(), settings, events.clone());
        let metrics = Metrics::new();
        let (addresses, _, found) = Addresses::new();
        let applied: Arc<Mutex<Vec<&'static str>>> = Arc::default();
        let seen = applied.clone();
        let again = events.clone();
        let engine: EngineFault = Arc::new(move |change| {
            if let EngineChange::Disconnected { key } = change
                && *key == endless()
            {
                again.send(ProxyEvent::Disconnected { key: endless() }).unwrap();
            }
            let name = match change {
                EngineChange::Tick => "tick",
                EngineChange::Dataplane { .. } => "dataplane",
                EngineChange::Policy { .. } => "policy",
                _ => "other",
            };
            seen.lock().unwrap().push(name);
        });
        let faults = Faults { engine: Some(engine), ..Faults::default() };
        let writer = Writer {
            store: store.clone(),
            settings: EngineSettings::default(),
            mesh_cas: MeshCas::new(store),
            registry: registry.clone(),
            metrics: metrics.xds.clone(),
            events: connections,
            addresses,
            found,
            quarantine: Quarantine::new(Box::new(|_| ())),
            faults,
            expiries: Expiries::default(),
            bulk: BULK,
            drain: CancellationToken::new(),
        };
        let served = Arc::default();
        (Self { catalog, registry, metrics, sending: watch::channel(true).0, served, applied, events }, writer)
    }

    fn rounds(&self) -> u64 {
        let text = self.metrics.scrape();
        let value = text.lines().find_map(|line| line.strip_prefix("kodiak_xds_engine_rounds_total "));
        value.unwrap().parse().unwrap()
    }

    fn applied(&self, name: &str) -> usize {
        self.applied.lock().unwrap().iter().filter(|applied| **applied == name).count()
    }

    /// Connects proxies that provide their Dataplanes, one every 3 ms, which is longer than the writer waits for a change.
    async fn arrive(&self) {
        let mut arriving = JoinSet::new();
        for n in 0..CROWD {
            let (registry, hello) = (self.registry.clone(), hello(&format!("web-{n}")));
            let (sending, served) = (self.sending.subscribe(), self.served.clone());
            arriving.spawn(async move {
                sleep(Duration::from_millis(3 * n as u64)).await;
                let session = registry.connect(hello).await.map_err(|closing| closing.message).unwrap();
                tokio::spawn(send(session, sending, served));
            });
        }
        arriving.join_all().await;
        sleep(Duration::from_millis(300)).await;
        assert_eq!(self.served.load(Ordering::SeqCst), CROWD);
    }
}

/// A proxy that leaves again whenever the engine was told that it left.
fn endless() -> ProxyKey {
    ProxyKey::new("default", "endless")
}

/// Reports every snapshot as sent, while streams send.
async fn send(mut session: Session, mut sending: watch::Receiver<bool>, served: Arc<AtomicUsize>) {
    let none = Counters::default();
    let mut first = true;
    while session.snapshots.changed().await.is_ok() {
        sending.wait_for(|sending| *sending).await.unwrap();
        let sent = session.snapshots.borrow_and_update().as_ref().map(|snapshot| snapshot.revision);
        let counters = TypeUrl::ALL.map(|type_url| (type_url, &none));
        session.report.report(StreamReport { counters, settled: None, sent, bytes: 0 });
        served.fetch_add(usize::from(std::mem::take(&mut first)), Ordering::SeqCst);
    }
}

fn hello(name: &str) -> Hello {
    let metadata = json::from_json(&json!({ "dataplane.resource": dataplane(name, 8080).to_string() })).unwrap();
    let node = Node { id: format!("default.{name}"), metadata: Some(metadata), ..Node::default() };
    let peer = "127.0.0.1:1".parse().unwrap();
    Hello { node, credential: Credential(None), protocol: Protocol::Delta, peer }
}

/// All proxies call the service that all provide.
fn dataplane(name: &str, port: usize) -> Value {
    let tags = json!({ "kuma.io/service": "web", "kuma.io/protocol": "http" });
    json!({
        "type": "Dataplane", "mesh": "default", "name": name,
        "networking": {
            "address": "10.0.0.1",
            "inbound": [{ "port": port, "tags": tags }],
            "outbound": [{ "port": 10001, "tags": { "kuma.io/service": "web" } }],
        },
    })
}

async fn put(catalog: &Catalog, document: Value) {
    let text = |field: &str| document[field].as_str().unwrap_or_default().to_owned();
    let (kind, mesh, name) = (text("type"), text("mesh"), text("name"));
    let kind = kodiak_kinds::kinds().by_name(&kind).unwrap();
    catalog.put(Target { kind, mesh: &mesh, name: &name }, document).await.unwrap();
}

/// Runs the test beside the writer.
async fn with_writer(test: impl AsyncFnOnce(&Bed)) {
    with_limit(BULK, test).await;
}

/// With this number of updates for policies that can wait.
async fn with_limit(bulk: usize, test: impl AsyncFnOnce(&Bed)) {
    let (bed, writer) = Bed::start().await;
    let writer = Writer { bulk, ..writer };
    tokio::select! {
        ended = writer.write() => panic!("the writer ended: {ended:?}"),
        () = test(&bed) => (),
    }
}

#[tokio::test(start_paused = true)]
async fn crowd_arrives_in_a_few_rounds() {
    with_writer(async |bed| {
        bed.arrive().await;
        let rounds = bed.rounds();
        assert!(rounds <= 12, "{rounds} rounds for {CROWD} proxies");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn changes_are_batched_while_proxies_are_sent_the_previous_ones() {
    with_writer(async |bed| {
        bed.arrive().await;
        let before = bed.rounds();
        bed.sending.send_replace(false);
        for n in 0..10 {
            put(&bed.catalog, dataplane("moving", 9000 + n)).await;
            sleep(Duration::from_millis(60)).await;
        }
        assert_eq!(bed.rounds() - before, 1, "nobody was sent the first change");
        bed.sending.send_replace(true);
        sleep(Duration::from_millis(100)).await;
        // The timer of certificates may be one more.
        let rounds = bed.rounds() - before;
        assert!((2..=3).contains(&rounds), "{rounds} rounds: all other changes are one");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn streams_that_do_not_send_delay_one_round() {
    with_writer(async |bed| {
        bed.arrive().await;
        bed.sending.send_replace(false);
        put(&bed.catalog, dataplane("moving", 9000)).await;
        // It is published, and never sent.
        sleep(MAX_PUSH * 2).await;
        let mut before = bed.rounds();
        for n in 1..5 {
            put(&bed.catalog, dataplane("moving", 9000 + n)).await;
            sleep(Duration::from_millis(20)).await;
            assert!(bed.rounds() > before, "change {n} is published at once");
            before = bed.rounds();
        }
    })
    .await;
}

fn timeout(seconds: u32) -> Value {
    let to = json!([{ "targetRef": { "kind": "Mesh" }, "default": { "idleTimeout": format!("{seconds}s") } }]);
    json!({ "type": "MeshTimeout", "mesh": "default", "name": "all", "spec": { "targetRef": { "kind": "Mesh" }, "to": to } })
}

#[tokio::test(start_paused = true)]
async fn change_of_the_whole_mesh_takes_several_rounds_and_ends() {
    with_limit(10, async |bed| {
        bed.arrive().await;
        let before = bed.rounds();
        put(&bed.catalog, timeout(7)).await;
        sleep(Duration::from_millis(500)).await;
        let rounds = bed.rounds() - before;
        // Each proxy once, and their classes.
        let least = u64::try_from(CROWD / 10).unwrap();
        assert!((least..=2 * least + 2).contains(&rounds), "{rounds} rounds");
        let ended = bed.rounds();
        sleep(Duration::from_millis(500)).await;
        // The timer of certificates may be one more.
        assert!(bed.rounds() - ended <= 1, "nothing is left");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn endpoint_does_not_wait_for_the_end_of_a_change_of_the_whole_mesh() {
    with_limit(1, async |bed| {
        bed.arrive().await;
        let before = bed.rounds();
        put(&bed.catalog, timeout(7)).await;
        sleep(Duration::from_millis(20)).await;
        let moved = bed.applied("dataplane");
        put(&bed.catalog, dataplane("moving", 9000)).await;
        sleep(Duration::from_millis(20)).await;
        assert!(bed.applied("dataplane") > moved);
        assert!(bed.rounds() - before < 50, "most proxies have the old timeout");
        sleep(Duration::from_secs(2)).await;
        assert!(bed.rounds() - before >= 100, "all have the new one");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn timer_of_certificates_is_served_while_changes_keep_coming() {
    with_writer(async |bed| {
        bed.events.send(ProxyEvent::Disconnected { key: endless() }).unwrap();
        let (ticks, others) = (bed.applied("tick"), bed.applied("other"));
        sleep(Duration::from_secs(4)).await;
        assert!(bed.applied("other") - others > 100, "whenever the writer looks, there is another change");
        let ticks = bed.applied("tick") - ticks;
        assert!((3..=5).contains(&ticks), "{ticks} in four seconds");
    })
    .await;
}

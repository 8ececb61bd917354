//! A registry on a store in memory, and proxies to connect to it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use jiff::{SignedDuration, Timestamp};
use kodiak_ads::{Closing, Credential, Hello, Protocol, Proxies, Session, StreamReport};
use kodiak_catalog::{Catalog, Target};
use kodiak_envoy::{envoy::config::core::v3::Node, json};
use kodiak_kinds::kinds;
use kodiak_model::{
    Place, ProxyKey, ResourceKey,
    kinds::{dataplane::Dataplane, dataplane_insight::DataplaneInsight},
};
use kodiak_proxies::{ProxyEvent, ProxySettings, Recheck, Registry};
use kodiak_store::{Backend, Leader, Observer, Record, Store, StoreConfig};
use kodiak_tokens::{DataplaneClaims, issue_dataplane, names::TokenKind};
use kodiak_xds_stream::{Counters, Snapshot, TypeUrl};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) struct Bed {
    pub(crate) catalog: Catalog,
    pub(crate) registry: Registry,
    events: Mutex<mpsc::UnboundedReceiver<ProxyEvent>>,
    clock: Arc<Mutex<Timestamp>>,
    commits: Arc<Commits>,
    drain: DropGuard,
}

/// Counts durable commits.
#[derive(Default)]
struct Commits(AtomicUsize);

impl Observer for Commits {
    fn committed(&self, _requests: usize, changes: usize, _took: Duration) {
        if changes > 0 {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn failed(&self) {}
}

impl Bed {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| ()).await
    }

    /// With the mesh `default`, in the zone `east`.
    pub(crate) async fn start_with(change: impl FnOnce(&mut ProxySettings)) -> Self {
        let commits = Arc::new(Commits::default());
        let mut config = StoreConfig::new(Backend::Memory);
        config.observer = Some(commits.clone());
        let store = Store::open(config).await.unwrap();
        let settings =
            kodiak_catalog::CatalogSettings { place: Place::Zone { name: "east".to_owned() }, unsafe_delete: true };
        let catalog = Catalog::new(store, settings);
        let clock = Arc::new(Mutex::new("2026-08-01T12:00:00Z".parse().unwrap()));
        let mut settings = ProxySettings::new("cp-1");
        settings.server_names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        settings.ca = Some("CA".to_owned());
        settings.now = Arc::new({
            let clock = clock.clone();
            move || *clock.lock().unwrap()
        });
        change(&mut settings);
        let (events, received) = mpsc::unbounded_channel();
        let registry = Registry::new(catalog.clone(), settings, events);
        let drain = CancellationToken::new();
        let bed =
            Self { catalog, registry, events: Mutex::new(received), clock, commits, drain: drain.clone().drop_guard() };
        // Keys of a mesh are made on a thread that paused time does not wait for, so timers start after that.
        bed.put(json!({ "type": "Mesh", "name": "default" })).await;
        let registry = bed.registry.clone();
        tokio::spawn(async move { registry.run(drain).await });
        bed
    }

    /// Another control plane over the same store. Its clock is this one's.
    pub(crate) fn another(&self, instance_id: &str) -> Registry {
        self.another_with(instance_id, |_| ())
    }

    pub(crate) fn another_with(&self, instance_id: &str, change: impl FnOnce(&mut ProxySettings)) -> Registry {
        let mut settings = ProxySettings::new(instance_id);
        let clock = self.clock.clone();
        settings.now = Arc::new(move || *clock.lock().unwrap());
        change(&mut settings);
        Registry::new(self.catalog.clone(), settings, mpsc::unbounded_channel().0)
    }

    /// Durable commits since the start.
    pub(crate) fn commits(&self) -> usize {
        self.commits.0.load(Ordering::SeqCst)
    }

    pub(crate) async fn put(&self, document: Value) {
        let text = |field: &str| document[field].as_str().unwrap_or_default().to_owned();
        let (kind, mesh, name) = (text("type"), text("mesh"), text("name"));
        let target = Target { kind: kinds().by_name(&kind).unwrap(), mesh: &mesh, name: &name };
        self.catalog.put(target, document).await.unwrap();
    }

    pub(crate) async fn delete(&self, kind: &str, mesh: &str, name: &str) {
        let target = Target { kind: kinds().by_name(kind).unwrap(), mesh, name };
        self.catalog.delete(target).await.unwrap();
    }

    /// Advances timers and the clock.
    pub(crate) async fn pass(&self, time: Duration) {
        self.turn_clock(time);
        tokio::time::sleep(time).await;
    }

    /// Advances only the clock: for long times, in which timers would have much to do.
    pub(crate) fn turn_clock(&self, time: Duration) {
        let mut clock = self.clock.lock().unwrap();
        *clock = clock.checked_add(SignedDuration::try_from(time).unwrap()).unwrap();
    }

    /// Long enough for everything that is to happen at once.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(300)).await;
    }

    /// The control plane begins to drain.
    pub(crate) fn drain(&self) {
        self.drain.token().cancel();
    }

    pub(crate) fn now(&self) -> Timestamp {
        *self.clock.lock().unwrap()
    }

    pub(crate) fn token(&self, claims: &DataplaneClaims) -> String {
        self.token_in("default", claims)
    }

    pub(crate) fn token_in(&self, mesh: &str, claims: &DataplaneClaims) -> String {
        let key = self.catalog.signing_key(TokenKind::Dataplane { mesh }).unwrap();
        issue_dataplane(claims, &key, Duration::from_hours(1000), self.now()).unwrap()
    }

    /// A proxy that provides its Dataplane, with a token that binds nothing.
    pub(crate) fn leads(&self) -> Leader {
        self.catalog.store().leader().expect("there is no election")
    }

    pub(crate) fn hello(&self, name: &str) -> Hello {
        let metadata = json!({ "dataplane.resource": dataplane(name).to_string() });
        hello(&format!("default.{name}"), &metadata, Some(self.token(&DataplaneClaims::default())))
    }

    pub(crate) async fn connect(&self, name: &str) -> Session {
        self.registry.connect(self.hello(name)).await.map_err(|closing| closing.message).unwrap()
    }

    pub(crate) async fn refused(&self, hello: Hello) -> Closing {
        self.registry.connect(hello).await.err().expect("the proxy is refused")
    }

    pub(crate) fn recheck(&self, concerned: Recheck) {
        self.registry.recheck(&[concerned].into());
    }

    pub(crate) fn event(&self) -> Option<ProxyEvent> {
        self.events.lock().unwrap().try_recv().ok()
    }

    pub(crate) fn events(&self) -> Vec<String> {
        std::iter::from_fn(|| self.event())
            .map(|event| match event {
                ProxyEvent::Connected { key, .. } => format!("+{}", key.name),
                ProxyEvent::Disconnected { key } => format!("-{}", key.name),
            })
            .collect()
    }

    /// Names of the records with observed traffic, with `NN` for their shards.
    pub(crate) fn traffic_records(&self) -> Vec<String> {
        let snapshot = self.catalog.store().snapshot();
        let names = snapshot.world().list_in("Config", "default").map(|resource| resource.key.name.clone());
        let names = names.filter_map(|name| {
            let rest = name.strip_prefix("traffic.")?;
            Some(format!("traffic.NN{}", &rest[2..]))
        });
        names.collect()
    }

    pub(crate) fn record(&self, kind: &str, name: &str) -> Option<Record> {
        self.catalog.store().get(&ResourceKey::in_mesh(kind, "default", name))
    }

    pub(crate) fn dataplane(&self, name: &str) -> Option<Dataplane> {
        let snapshot = self.catalog.store().snapshot();
        snapshot.world().proxy(&ProxyKey::new("default", name)).map(|proxy| (*proxy.dataplane).clone())
    }

    pub(crate) fn insight(&self, name: &str) -> Option<DataplaneInsight> {
        let snapshot = self.catalog.store().snapshot();
        snapshot.world().insight(&ProxyKey::new("default", name)).map(|insight| (*insight).clone())
    }

    /// A new process of the proxy starts: it asks for its bootstrap.
    pub(crate) async fn restart(&self, name: &str) {
        let token = self.token(&DataplaneClaims::default());
        let request = json!({ "mesh": "default", "name": name, "dataplaneToken": token });
        let (status, text) = self.post("/bootstrap", &[], &request.to_string()).await;
        assert_eq!(status, StatusCode::OK, "{text}");
    }

    pub(crate) async fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> (StatusCode, String) {
        self.post_to(&self.registry, path, headers, body).await
    }

    pub(crate) async fn post_to(
        &self,
        registry: &Registry,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (StatusCode, String) {
        let mut request = Request::builder().method(Method::POST).uri(path).header("host", "localhost:5678");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Bytes::from(body.to_owned())).unwrap();
        let reply = registry.answer(request, "127.0.0.1:1".parse().unwrap()).await;
        (reply.status(), String::from_utf8(reply.body().to_vec()).unwrap())
    }
}

pub(crate) fn key(name: &str) -> ProxyKey {
    ProxyKey::new("default", name)
}

pub(crate) fn hello(id: &str, metadata: &Value, token: Option<String>) -> Hello {
    let metadata = Some(json::from_json(metadata).unwrap());
    let node = Node { id: id.to_owned(), metadata, ..Node::default() };
    Hello { node, credential: Credential(token), protocol: Protocol::Delta, peer: "127.0.0.1:1".parse().unwrap() }
}

pub(crate) fn dataplane(name: &str) -> Value {
    json!({
        "type": "Dataplane", "mesh": "default", "name": name,
        "networking": {
            "address": "10.0.0.1",
            "inbound": [{ "port": 8080, "tags": { "kuma.io/service": "web", "kuma.io/protocol": "http" } }],
        },
    })
}

pub(crate) fn snapshot(revision: u64) -> Arc<Snapshot> {
    Arc::new(Snapshot { revision, ..Snapshot::default() })
}

/// Why the session must end.
pub(crate) fn closing(session: &Session) -> Option<(u8, String)> {
    session.closing.borrow().as_ref().map(|closing| (closing.code, closing.message.clone()))
}

/// Reports these counters for clusters, and nothing of other types.
pub(crate) fn report(session: &mut Session, clusters: &Counters, settled: Option<u64>) {
    report_of(session, TypeUrl::Cluster, clusters, settled);
}

/// Reports these counters for one type, and nothing of others.
pub(crate) fn report_of(session: &mut Session, reported: TypeUrl, counters: &Counters, settled: Option<u64>) {
    let none = Counters::default();
    let of = |type_url| if type_url == reported { counters } else { &none };
    let counters = TypeUrl::ALL.map(|type_url| (type_url, of(type_url)));
    session.report.report(StreamReport { counters, settled, sent: settled, bytes: 100 });
}

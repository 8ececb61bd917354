//! A server with a fake registry that the test controls, and that records all reports.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use kodiak_ads::proxies::Answer;
use kodiak_ads::{
    Closing, Credential, HealthHello, HealthReport, HealthSession, Hello, Limits, LoadHello, LoadReport, LoadSession,
    Proxies, Reply, Report, Session, StreamReport, serve,
};
use kodiak_envoy::envoy::config::endpoint::v3::ClusterStats;
use kodiak_envoy::envoy::service::health::v3::{EndpointHealthResponse, HealthCheckSpecifier};
use kodiak_listen::{ConnectionLimits, Listener, Server};
use kodiak_xds_stream::{Counters, Encoded, Snapshot, TypeUrl};
use rustls::pki_types::PrivateKeyDer;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Far longer than any operation takes, for machines under load.
/// Interval of load reports.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_mins(1);
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// A credential that is rejected.
pub(crate) const WRONG: &str = "wrong";

/// The id of a node whose stream panics.
pub(crate) const PANICS: &str = "panics";

pub(crate) struct Bed {
    pub(crate) address: SocketAddr,
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) ca_pem: String,
    pub(crate) control_plane: Arc<ControlPlane>,
    pub(crate) drain: CancellationToken,
    pub(crate) server: JoinHandle<()>,
}

#[derive(Default)]
pub(crate) struct ControlPlane {
    pub(crate) snapshots: watch::Sender<Option<Arc<Snapshot>>>,
    pub(crate) checks: watch::Sender<Option<Arc<HealthCheckSpecifier>>>,
    pub(crate) configured: watch::Sender<()>,
    pub(crate) closing: watch::Sender<Option<Closing>>,
    seen: watch::Sender<Seen>,
}

/// Reports of all streams.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) hellos: Vec<Hello>,
    pub(crate) health_hellos: Vec<HealthHello>,
    pub(crate) found: Vec<EndpointHealthResponse>,
    pub(crate) load_hellos: Vec<LoadHello>,
    /// Load reports.
    pub(crate) loads: Vec<Vec<ClusterStats>>,
    pub(crate) counters: BTreeMap<TypeUrl, Counters>,
    pub(crate) settled: Option<u64>,
    pub(crate) bytes: u64,
    pub(crate) ended: usize,
    pub(crate) most_at_once: usize,
}

impl Seen {
    pub(crate) fn of(&self, type_url: TypeUrl) -> Counters {
        self.counters.get(&type_url).cloned().unwrap_or_default()
    }
}

impl Bed {
    pub(crate) async fn start() -> Self {
        Self::start_with(Limits::default()).await
    }

    pub(crate) async fn start_with(limits: Limits) -> Self {
        Self::limited(limits, ConnectionLimits::proxies()).await
    }

    pub(crate) async fn limited(limits: Limits, connections: ConnectionLimits) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut tls = builder.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let control_plane = Arc::new(ControlPlane::default());
        let drain = CancellationToken::new();
        let server = Server {
            name: "proxies",
            listener: Listener::Tcp(listener),
            tls: Some(Arc::new(tls)),
            limits: connections,
            observer: None,
            drain: drain.clone(),
            grace: PATIENCE,
        };
        let server = tokio::spawn(serve(server, control_plane.clone(), limits));
        Self { address, roots: Arc::new(roots), ca_pem: made.cert.pem(), control_plane, drain, server }
    }

    /// With these resources as the first snapshot.
    pub(crate) async fn with(resources: &[(TypeUrl, Arc<Encoded>)]) -> Self {
        let bed = Self::start().await;
        bed.snapshot(1, resources);
        bed
    }

    pub(crate) fn snapshot(&self, revision: u64, resources: &[(TypeUrl, Arc<Encoded>)]) {
        let mut snapshot = Snapshot { revision, ..Snapshot::default() };
        for (type_url, resource) in resources {
            snapshot.resources.insert(*type_url, resource.clone());
        }
        self.control_plane.snapshots.send_replace(Some(Arc::new(snapshot)));
    }

    pub(crate) fn seen(&self) -> Seen {
        self.control_plane.seen.borrow().clone()
    }

    /// Waits until the condition holds, and returns all reports until then.
    pub(crate) async fn wait_for(&self, what: &str, is_so: impl Fn(&Seen) -> bool) -> Seen {
        let mut seen = self.control_plane.seen.subscribe();
        let Ok(found) = tokio::time::timeout(PATIENCE, seen.wait_for(is_so)).await else {
            panic!("not after {PATIENCE:?}: {what}; seen: {:?}", self.seen());
        };
        found.unwrap().clone()
    }
}

impl Proxies for ControlPlane {
    fn admit_headers(&self, credential: &Credential) -> Result<(), Closing> {
        refused(credential).map_or(Ok(()), Err)
    }

    fn connect(&self, hello: Hello) -> Answer<'_, Result<Session, Closing>> {
        assert!(hello.node.id != PANICS, "asked for by a test");
        let refused = refused(&hello.credential);
        self.seen.send_modify(|seen| {
            seen.hellos.push(hello);
            seen.most_at_once = seen.most_at_once.max(seen.hellos.len() - seen.ended);
        });
        let session = Session {
            snapshots: self.snapshots.subscribe(),
            closing: self.closing.subscribe(),
            report: Box::new(Recorder(self.seen.clone())),
        };
        Box::pin(async move { refused.map_or(Ok(session), Err) })
    }

    fn connect_health(&self, hello: HealthHello) -> Answer<'_, Result<HealthSession, Closing>> {
        let refused = refused(&hello.credential);
        self.seen.send_modify(|seen| seen.health_hellos.push(hello));
        let session = HealthSession {
            checks: self.checks.subscribe(),
            closing: self.closing.subscribe(),
            report: Box::new(Recorder(self.seen.clone())),
        };
        Box::pin(async move { refused.map_or(Ok(session), Err) })
    }

    fn connect_load(&self, hello: LoadHello) -> Answer<'_, Result<LoadSession, Closing>> {
        let refused = refused(&hello.credential);
        self.seen.send_modify(|seen| seen.load_hellos.push(hello));
        let session = LoadSession {
            interval: REPORT_INTERVAL,
            configured: self.configured.subscribe(),
            closing: self.closing.subscribe(),
            report: Box::new(Recorder(self.seen.clone())),
        };
        Box::pin(async move { refused.map_or(Ok(session), Err) })
    }

    /// Echoes the request.
    fn answer(&self, request: Request<Bytes>, peer: SocketAddr) -> Answer<'_, Reply> {
        assert!(peer.ip().is_loopback());
        let (method, path, length) = (request.method(), request.uri().path(), request.body().len());
        let text = format!("{method} {path} with {length} bytes");
        Box::pin(async move { Response::builder().status(418).body(text.into()).unwrap() })
    }
}

fn refused(credential: &Credential) -> Option<Closing> {
    let message = "authentication failed: 100 % wrong".to_owned();
    let refusal = Closing { code: Closing::UNAUTHENTICATED, message };
    (credential.0.as_deref() == Some(WRONG)).then_some(refusal)
}

struct Recorder(watch::Sender<Seen>);

impl HealthReport for Recorder {
    fn report(&mut self, found: EndpointHealthResponse) {
        self.0.send_modify(|seen| seen.found.push(found));
    }
}

impl LoadReport for Recorder {
    fn report(&mut self, clusters: Vec<ClusterStats>) {
        self.0.send_modify(|seen| seen.loads.push(clusters));
    }
}

impl Report for Recorder {
    fn report(&mut self, report: StreamReport<'_>) {
        self.0.send_modify(|seen| {
            seen.counters = report.counters.map(|(type_url, counters)| (type_url, counters.clone())).into();
            seen.settled = report.settled.or(seen.settled);
            seen.bytes += report.bytes;
        });
    }

    fn closed(&mut self, _: &Closing) {}
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.0.send_modify(|seen| seen.ended += 1);
    }
}

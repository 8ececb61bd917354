//! Simulated proxy: its own connection, and the requests that Envoy would send.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    net::SocketAddr,
    sync::Arc,
    time::Instant,
};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{
    Request, Response,
    body::{Frame, Incoming},
    client::conn::http2,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kodiak_envoy::envoy::config::core::v3::Node;
use kodiak_xds::names;
use kodiak_xds_stream::TypeUrl;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, mpsc},
};
use tokio_rustls::TlsConnector;

use super::{
    mesh::{MESH, SERVICE_PREFIX, is_service_listener},
    requests::{Answered, Protocol, write_name},
    scan::{Part, Scanner},
};

/// HTTP/2 flow-control window; Envoy's default is larger still.
const WINDOW: u32 = 4 * 1024 * 1024;

/// Secrets of a proxy beside those of its clusters: its certificate, and the validation context of its inbounds.
const SECRETS: usize = 2;

/// Settings shared by all proxies.
pub(super) struct Shared {
    pub(super) address: SocketAddr,
    pub(super) tls: Arc<ClientConfig>,
    pub(super) token: String,
    pub(super) protocol: Protocol,
    pub(super) services: usize,
    pub(super) mtls: bool,
}

/// Event of a proxy for the measurement.
#[derive(Debug)]
pub(super) enum Event {
    /// The proxy has its full configuration for the first time.
    Served,
    /// The proxy received a change after that.
    Changed(Instant),
    Failed(anyhow::Error),
}

/// Connected proxy.
struct SimulatedProxy {
    protocol: Protocol,
    services: usize,
    requests: mpsc::UnboundedSender<Bytes>,
    mtls: bool,
    /// Encoded names of its endpoint subscription.
    names: Vec<u8>,
    /// Encoded names of its secret subscription.
    secret_names: Vec<u8>,
    /// Resources of services that it has.
    clusters: Seen,
    assignments: Seen,
    listeners: Seen,
    secrets: usize,
    asked_for_listeners: bool,
    served: bool,
    /// Response being scanned.
    reading: Reading,
}

#[derive(Default)]
struct Reading {
    type_url: Option<TypeUrl>,
    version: String,
    nonce: String,
    resources: usize,
    removed: usize,
    /// Resources of services: hashes of their names, and the encoded names of clusters that the proxy did not have.
    counted: Vec<u64>,
    gone: Vec<u64>,
    clusters: Vec<u8>,
    /// Encoded names of the secrets of these clusters.
    secrets: Vec<u8>,
}

/// Hashes of names. A response may repeat a resource, or remove it, while other proxies arrive.
type Seen = HashSet<u64>;

fn hash(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// Connects, and runs until the stream ends, which is an error. Releases `starting` once connected.
pub(super) async fn run(
    shared: &Shared,
    node: Node,
    starting: OwnedSemaphorePermit,
    tell: impl Fn(Event),
) -> anyhow::Result<()> {
    let (requests, response) = open(shared).await?;
    drop(starting);
    let mut proxy = SimulatedProxy {
        protocol: shared.protocol,
        services: shared.services,
        requests,
        mtls: shared.mtls,
        names: Vec::new(),
        secret_names: Vec::new(),
        clusters: Seen::new(),
        assignments: Seen::new(),
        listeners: Seen::new(),
        secrets: 0,
        asked_for_listeners: false,
        served: false,
        reading: Reading::default(),
    };
    proxy.send(Some(&node), TypeUrl::Cluster, &[], &Answered::default());
    drop(node);
    proxy.read(response, tell).await
}

async fn open(shared: &Shared) -> anyhow::Result<(mpsc::UnboundedSender<Bytes>, Response<Incoming>)> {
    let stream = TcpStream::connect(shared.address).await.context("cannot connect")?;
    stream.set_nodelay(true)?;
    let name = ServerName::from(shared.address.ip());
    let stream = TlsConnector::from(shared.tls.clone()).connect(name, stream).await.context("TLS handshake failed")?;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let (requests, mut receiver) = mpsc::unbounded_channel::<Bytes>();
    let frames = futures_util::stream::poll_fn(move |context| {
        receiver.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok::<_, std::io::Error>(Frame::data(bytes))))
    });
    let request = Request::post(format!("https://{}{}", shared.address, shared.protocol.path()))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", &shared.token)
        .body(StreamBody::new(frames))?;
    let response = sender.send_request(request).await?;
    Ok((requests, response))
}

impl SimulatedProxy {
    async fn read(&mut self, mut response: Response<Incoming>, tell: impl Fn(Event)) -> anyhow::Result<()> {
        let mut scanner = Scanner::default();
        while let Some(frame) = response.frame().await {
            match frame?.into_data() {
                Ok(data) => {
                    let mut outcome = Ok(());
                    scanner.push(&data, |part| match part {
                        Part::Field { number, content } => self.field(number, content),
                        Part::End => outcome = self.take(&tell),
                    })?;
                    outcome?;
                }
                Err(frame) => anyhow::bail!("xDS stream closed: {:?}", frame.into_trailers().unwrap_or_default()),
            }
        }
        anyhow::bail!("xDS stream closed without a status")
    }

    fn field(&mut self, number: u64, content: &[u8]) {
        let text = || String::from_utf8_lossy(content);
        match (number, self.protocol) {
            (1, _) => self.reading.version = text().into_owned(),
            (2, _) => self.resource(content),
            (4, _) => self.reading.type_url = TypeUrl::ALL.into_iter().find(|each| *text() == *each.as_str()),
            (5, _) => self.reading.nonce = text().into_owned(),
            (6, Protocol::Delta) => {
                self.reading.removed += 1;
                self.reading.gone.push(hash(content));
            }
            _ => (),
        }
    }

    /// The type of a response precedes its resources.
    fn resource(&mut self, resource: &[u8]) {
        self.reading.resources += 1;
        if self.served {
            return;
        }
        let name = self.protocol.name(resource);
        let counts = match self.reading.type_url {
            Some(TypeUrl::Cluster) => name.starts_with(SERVICE_PREFIX),
            Some(TypeUrl::Listener) => is_service_listener(name),
            _ => true,
        };
        if !counts {
            return;
        }
        let hash = hash(name);
        self.reading.counted.push(hash);
        let whole = self.protocol == Protocol::StateOfTheWorld;
        if self.reading.type_url == Some(TypeUrl::Cluster) && (whole || !self.clusters.contains(&hash)) {
            write_name(name, &mut self.reading.clusters);
            if self.mtls {
                let secret = names::server_validation_secret(MESH, &String::from_utf8_lossy(name));
                write_name(secret.as_bytes(), &mut self.reading.secrets);
            }
        }
    }

    /// Acknowledges a complete response, and sends the subscriptions that Envoy would send.
    fn take(&mut self, tell: &impl Fn(Event)) -> anyhow::Result<()> {
        let Reading { type_url, version, nonce, resources, removed, counted, gone, clusters, secrets } =
            std::mem::take(&mut self.reading);
        let type_url = type_url.context("response has no type, or one without a subscription")?;
        if !self.served {
            self.count(type_url, counted, &gone, (clusters, secrets));
        }
        let repeated = match (self.protocol, type_url) {
            (Protocol::StateOfTheWorld, TypeUrl::Endpoint) => &self.names,
            (Protocol::StateOfTheWorld, TypeUrl::Secret) => &self.secret_names,
            _ => &Vec::new(),
        };
        self.send(None, type_url, repeated, &Answered { version: &version, nonce: &nonce });
        // Envoy subscribes to listeners when its clusters are warm.
        if !self.asked_for_listeners && self.clusters.is_subset(&self.assignments) {
            self.asked_for_listeners = true;
            self.send(None, TypeUrl::Listener, &[], &Answered::default());
        }
        if self.served {
            if resources + removed > 0 {
                tell(Event::Changed(Instant::now()));
            }
        } else if self.has_all() {
            self.served = true;
            tell(Event::Served);
        }
        Ok(())
    }

    /// Records resources, and subscribes to the endpoints and secrets of new clusters.
    fn count(
        &mut self,
        type_url: TypeUrl,
        counted: Vec<u64>,
        gone: &[u64],
        (clusters, mut secrets): (Vec<u8>, Vec<u8>),
    ) {
        let whole = self.protocol == Protocol::StateOfTheWorld;
        let seen = match type_url {
            TypeUrl::Cluster => &mut self.clusters,
            TypeUrl::Listener => &mut self.listeners,
            TypeUrl::Endpoint => &mut self.assignments,
            TypeUrl::Secret => {
                self.secrets += counted.len();
                return;
            }
            TypeUrl::Route => return,
        };
        let is_first = seen.is_empty();
        if whole && type_url != TypeUrl::Endpoint {
            seen.clear();
        }
        seen.extend(counted);
        for name in gone {
            seen.remove(name);
        }
        if type_url != TypeUrl::Cluster || clusters.is_empty() || clusters == self.names {
            return;
        }
        self.send(None, TypeUrl::Endpoint, &clusters, &Answered::default());
        if self.mtls {
            if is_first || whole {
                write_name(names::identity_secret(MESH).as_bytes(), &mut secrets);
                write_name(names::validation_secret(MESH).as_bytes(), &mut secrets);
            }
            self.send(None, TypeUrl::Secret, &secrets, &Answered::default());
        }
        if whole {
            self.names = clusters;
            self.secret_names = secrets;
        }
    }

    fn has_all(&self) -> bool {
        let has_secrets = self.secrets >= SECRETS + self.services || !self.mtls;
        self.assignments.len() >= self.services && self.listeners.len() >= self.services && has_secrets
    }

    /// A closed stream is detected by the reader.
    fn send(&self, node: Option<&Node>, type_url: TypeUrl, names: &[u8], answered: &Answered<'_>) {
        let _ = self.requests.send(self.protocol.request(node, type_url, names, answered));
    }
}

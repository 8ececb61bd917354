//! A small gRPC client that also sends invalid requests.

use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2;
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use kodiak_ads::Closing;
use kodiak_envoy::envoy::config::core::v3::Node;
use kodiak_envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use kodiak_xds_stream::TypeUrl;
use prost::Message;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::bed::{Bed, PATIENCE};

pub(crate) const DELTA: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
pub(crate) const SOTW: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
pub(crate) const HEALTH: &str = "/envoy.service.health.v3.HealthDiscoveryService/StreamHealthCheck";
pub(crate) const LOAD: &str = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";
/// Window of a client that does not read.
const WINDOW: u32 = 64 * 1024;

pub(crate) type Delta = Client<DeltaDiscoveryRequest, DeltaDiscoveryResponse>;
pub(crate) type Sotw = Client<DiscoveryRequest, DiscoveryResponse>;

/// One stream, on a connection of its own.
pub(crate) struct Client<Q, A> {
    requests: Option<mpsc::UnboundedSender<Bytes>>,
    response: Response<Incoming>,
    received: BytesMut,
    frozen: Arc<AtomicBool>,
    taken: Arc<AtomicBool>,
    of: PhantomData<(Q, A)>,
}

pub(crate) async fn connect(bed: &Bed, protocol: &str) -> TlsStream<TcpStream> {
    try_connect(bed, protocol).await.unwrap()
}

/// Fails when the port is at its limit.
async fn try_connect(bed: &Bed, protocol: &str) -> std::io::Result<TlsStream<TcpStream>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut tls = builder.with_root_certificates(bed.roots.clone()).with_no_client_auth();
    tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let stream = TcpStream::connect(bed.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connected = TlsConnector::from(Arc::new(tls)).connect(name, stream);
    tokio::time::timeout(PATIENCE, connected).await.expect("the server accepts")
}

impl<Q: Message, A: Message + Default> Client<Q, A> {
    pub(crate) async fn open(bed: &Bed, path: &str, headers: &[(&str, &str)]) -> Self {
        Self::open_over(connect(bed, "h2").await, path, headers).await
    }

    async fn open_over(stream: TlsStream<TcpStream>, path: &str, headers: &[(&str, &str)]) -> Self {
        let io = TokioIo::new(stream);
        let frozen = Arc::new(AtomicBool::new(false));
        let mut builder = http2::Builder::new(Freezable(frozen.clone()));
        builder.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
        let (mut sender, connection) = builder.handshake(io).await.unwrap();
        tokio::spawn(connection);
        let (requests, mut receiver) = mpsc::unbounded_channel::<Bytes>();
        let taken = Arc::new(AtomicBool::new(false));
        let frames = futures_util::stream::poll_fn({
            let taken = taken.clone();
            move |context| {
                // hyper asks for more once the server has opened its window.
                let next = receiver.poll_recv(context);
                taken.store(next.is_pending(), Ordering::Relaxed);
                next.map(|bytes| bytes.map(|bytes| Ok::<_, std::io::Error>(Frame::data(bytes))))
            }
        });
        let mut request = Request::post(format!("https://localhost{path}"));
        request = request.header("content-type", "application/grpc").header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = sender.send_request(request.body(StreamBody::new(frames)).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/grpc");
        Self { requests: Some(requests), response, received: BytesMut::new(), frozen, taken, of: PhantomData }
    }

    pub(crate) fn send(&self, request: &Q) {
        let content = request.encode_to_vec();
        let mut message = BytesMut::new();
        message.put_u8(0);
        message.put_u32(u32::try_from(content.len()).unwrap());
        message.put_slice(&content);
        self.send_bytes(message.freeze());
    }

    /// A server that has closed the stream accepts nothing any more.
    pub(crate) fn send_bytes(&self, bytes: Bytes) {
        let _ = self.requests.as_ref().unwrap().send(bytes);
    }

    /// Waits until hyper has put everything on the wire that was sent so far.
    pub(crate) async fn taken(&self) {
        while !self.taken.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
    }

    /// Half-closes the stream: there are no more requests.
    pub(crate) fn finish(&mut self) {
        self.requests = None;
    }

    /// Freezes the connection: it stays open, and nothing is sent or read any more.
    pub(crate) fn freeze(&self) {
        self.frozen.store(true, Ordering::Relaxed);
    }

    pub(crate) async fn next(&mut self) -> A {
        self.next_or_end().await.unwrap_or_else(|end| panic!("the stream ended: {end:?}"))
    }

    pub(crate) async fn end(&mut self) -> Closing {
        loop {
            if let Err(end) = self.next_or_end().await {
                return end;
            }
        }
    }

    pub(crate) async fn next_or_end(&mut self) -> Result<A, Closing> {
        tokio::time::timeout(PATIENCE, self.read()).await.expect("the server answers")
    }

    async fn read(&mut self) -> Result<A, Closing> {
        if self.response.headers().contains_key("grpc-status") {
            return Err(status(self.response.headers()));
        }
        loop {
            if let Some(mut header) = self.received.get(..5) {
                assert_eq!(header.get_u8(), 0);
                let whole = 5 + usize::try_from(header.get_u32()).unwrap();
                if self.received.len() >= whole {
                    return Ok(A::decode(self.received.split_to(whole).split_off(5)).unwrap());
                }
            }
            match self.response.frame().await.expect("a stream ends with trailers").unwrap().into_data() {
                Ok(data) => self.received.extend_from_slice(&data),
                Err(frame) => return Err(status(frame.trailers_ref().unwrap())),
            }
        }
    }
}

/// Drives hyper's connection, until it is frozen.
#[derive(Clone)]
struct Freezable(Arc<AtomicBool>);

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Freezable {
    fn execute(&self, task: F) {
        let (frozen, mut task) = (self.0.clone(), Box::pin(task));
        tokio::spawn(poll_fn(
            move |context| {
                if frozen.load(Ordering::Relaxed) { Poll::Pending } else { task.as_mut().poll(context) }
            },
        ));
    }
}

fn status(headers: &HeaderMap) -> Closing {
    let code = headers["grpc-status"].to_str().unwrap().parse().unwrap();
    let encoded = headers.get("grpc-message").map(|value| value.to_str().unwrap()).unwrap_or_default();
    let mut parts = encoded.split('%');
    let mut message = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        message.push(u8::from_str_radix(&part[..2], 16).unwrap());
        message.extend_from_slice(&part.as_bytes()[2..]);
    }
    Closing { code, message: String::from_utf8(message).unwrap() }
}

pub(crate) fn node() -> Node {
    Node { id: "default.web-1".to_owned(), cluster: "web".to_owned(), ..Node::default() }
}

impl Delta {
    /// Asks for these names, as the first request of the stream.
    pub(crate) async fn ask(bed: &Bed, type_url: TypeUrl, names: &[&str]) -> Self {
        let client = Self::open(bed, DELTA, &[]).await;
        client.send(&DeltaDiscoveryRequest { node: Some(node()), ..subscribe(type_url, names) });
        client
    }

    /// The same, as soon as the port accepts a connection.
    pub(crate) async fn ask_when_there_is_room(bed: &Bed, type_url: TypeUrl) -> Self {
        let stream = tokio::time::timeout(PATIENCE, async {
            loop {
                match try_connect(bed, "h2").await {
                    Ok(stream) => return stream,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        });
        let client = Self::open_over(stream.await.expect("there is room"), DELTA, &[]).await;
        client.send(&DeltaDiscoveryRequest { node: Some(node()), ..subscribe(type_url, &[]) });
        client
    }

    pub(crate) fn ack(&self, response: &DeltaDiscoveryResponse) {
        self.send(&DeltaDiscoveryRequest {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            ..DeltaDiscoveryRequest::default()
        });
    }
}

pub(crate) fn subscribe(type_url: TypeUrl, names: &[&str]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: type_url.as_str().to_owned(),
        resource_names_subscribe: names.iter().map(|name| (*name).to_owned()).collect(),
        ..DeltaDiscoveryRequest::default()
    }
}

/// Summary of a response: names of resources, and removed ones with a minus.
pub(crate) fn names(response: &DeltaDiscoveryResponse) -> String {
    let removed = response.removed_resources.iter().map(|name| format!("-{name}"));
    response.resources.iter().map(|resource| resource.name.clone()).chain(removed).collect::<Vec<_>>().join(" ")
}

//! Proxies that answer without end, slowly or not at all.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll},
};

use http_body_util::Either;
use hyper::{
    Request, Response,
    body::{Body, Frame, Incoming},
};
use jiff::{SignedDuration, Timestamp};
use kodiak_crypto::{
    CaKeyType, CaPair, IssuedLeaf, LeafSpec, LeafUsage, RootCaParams, TEN_YEARS, root_ca, server_config,
};
use kodiak_listen::{Client, ConnectionLimits, Listener, Server, Service};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{turns::AT_A_TIME, *};

const CHUNK: usize = 64 << 10;
/// Bytes in the buffers of TLS and of both sockets.
const ON_THE_WAY: usize = 16 << 20;

/// Answers that proxies are sending.
#[derive(Default)]
struct Sent {
    /// Of each proxy, by the address that was asked.
    open: BTreeMap<String, usize>,
    most_open: usize,
    most_of_one: usize,
    longest: usize,
    answers: usize,
}

/// A proxy's admin interface at all loopback addresses.
#[derive(Clone)]
struct FakeProxies {
    sent: Arc<Mutex<Sent>>,
    length: usize,
}

/// A body that takes note of what was taken from it.
struct Noted {
    host: String,
    sent: Arc<Mutex<Sent>>,
    length: usize,
    taken: usize,
}

impl Noted {
    fn new(host: String, proxies: &FakeProxies) -> Self {
        let FakeProxies { sent, length } = proxies.clone();
        {
            let mut noted = sent.lock().unwrap();
            *noted.open.entry(host.clone()).or_default() += 1;
            noted.answers += 1;
            noted.most_of_one = noted.most_of_one.max(noted.open[&host]);
            noted.most_open = noted.most_open.max(noted.open.values().sum());
        }
        Self { host, sent, length, taken: 0 }
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        let mut noted = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        noted.longest = noted.longest.max(self.taken);
        *noted.open.get_mut(&self.host).unwrap() -= 1;
    }
}

impl Body for Noted {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = CHUNK.min(self.length - self.taken);
        if length == 0 {
            return Poll::Ready(None);
        }
        self.taken += length;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b'x'; length])))))
    }
}

/// A body that never comes.
struct Silent;

impl Body for Silent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

impl Service for FakeProxies {
    type Body = Either<Noted, Silent>;

    async fn call(&self, request: Request<Incoming>, _: Client) -> Response<Self::Body> {
        if self.length == 0 {
            return Response::new(Either::Right(Silent));
        }
        let host = request.headers()["host"].to_str().unwrap().to_owned();
        Response::new(Either::Left(Noted::new(host, self)))
    }
}

fn ca() -> CaPair {
    let now = Timestamp::now();
    let params = RootCaParams { common_name: "ca", expires_after: TEN_YEARS, key: CaKeyType::P256, uri_san: None, now };
    let pair = root_ca(&params).unwrap();
    CaPair::from_pem(pair.cert_pem.as_bytes(), pair.key_pem.expose().as_bytes()).unwrap()
}

fn leaf(ca: &CaPair, purpose: &str, usage: LeafUsage) -> IssuedLeaf {
    let ips: Vec<IpAddr> = (1..64).map(|n| IpAddr::from([127, 0, 0, n])).collect();
    let now = Timestamp::now();
    let (not_before, not_after) = (now - SignedDuration::from_hours(1), now + SignedDuration::from_hours(1));
    let (subject, uris) = ("proxy", &[]);
    let dns_names = &["localhost".to_owned()];
    ca.issue(&LeafSpec {
        purpose,
        subject,
        incarnation: 0,
        epoch: 0,
        usage,
        not_before,
        not_after,
        uris,
        dns_names,
        ips: &ips,
    })
    .unwrap()
}

fn identity(ca: &CaPair) -> AdminClient {
    let leaf = leaf(ca, "client", LeafUsage::Client);
    AdminClient { certificate: leaf.cert_pem, key: leaf.key_pem, ca: ca.roots_pem() }
}

/// Serves answers of this length; nothing of an answer of the length 0 ever comes.
async fn serve(ca: &CaPair, length: usize) -> (u16, Arc<Mutex<Sent>>, DropGuard) {
    let leaf = leaf(ca, "server", LeafUsage::Server);
    let tls = server_config(leaf.cert_pem.as_bytes(), leaf.key_pem.expose().as_bytes(), None).unwrap();
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sent, drain) = (Arc::<Mutex<Sent>>::default(), CancellationToken::new());
    let server = Server {
        name: "fake",
        listener: Listener::Tcp(listener),
        tls: Some(tls),
        limits: ConnectionLimits::api(),
        observer: None,
        drain: drain.clone(),
        grace: Duration::ZERO,
    };
    tokio::spawn(server.serve(FakeProxies { sent: sent.clone(), length }));
    (port, sent, drain.drop_guard())
}

fn admin() -> EnvoyAdmin {
    let own_ports = OwnPorts::default();
    own_ports.set([SocketAddr::from(([0, 0, 0, 0], 1))]);
    EnvoyAdmin { total: Duration::from_mins(1), ..EnvoyAdmin::new(Vec::new(), own_ports) }
}

fn interface(n: u8, port: u16) -> AdminInterface {
    let proxy = ProxyKey::new("default", &format!("web-{n}"));
    let peer = IpAddr::from([127, 0, 0, 1]);
    AdminInterface { proxy, host: format!("127.0.0.{n}"), port: port.into(), peer }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_answers_of_many_proxies_take_bounded_memory() {
    let ca = ca();
    let (port, sent, _server) = serve(&ca, usize::MAX).await;
    let (admin, identity) = (admin(), Arc::new(identity(&ca)));
    let mut requests = JoinSet::new();
    for n in 0..48 {
        let (admin, identity) = (admin.clone(), identity.clone());
        // 12 proxies, with four callers each.
        requests.spawn(async move { admin.get(interface(1 + n % 12, port), "/stats", &identity).await });
    }
    let mut too_large = 0;
    for result in requests.join_all().await {
        let error = result.err().expect("an endless answer is refused");
        let InspectError::Unreachable(text) = error else { panic!("{error:?}") };
        assert!(text == "the response is larger than 8 MiB" || text == BUSY, "{text}");
        too_large += usize::from(text != BUSY);
    }
    assert!(too_large >= 12, "{too_large}");
    let sent = sent.lock().unwrap();
    assert_eq!(sent.answers, too_large);
    assert_eq!(sent.most_of_one, 1, "one answer of a proxy at a time");
    // The proxy sees the end of an exchange later than we do.
    assert!(sent.most_open <= 2 * AT_A_TIME, "{}", sent.most_open);
    assert!(sent.longest <= LARGEST + ON_THE_WAY, "{}", sent.longest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turn_lasts_until_the_client_has_the_answer() {
    let ca = ca();
    let (port, _, _server) = serve(&ca, LARGEST).await;
    let (admin, identity) = (admin(), identity(&ca));
    let mut answers = Vec::new();
    for n in 1..=u8::try_from(AT_A_TIME).unwrap() {
        let answer = admin.get(interface(n, port), "/stats", &identity).await.unwrap().into_bytes();
        assert_eq!(answer.len(), LARGEST);
        answers.push(answer);
    }
    let parts = answers.pop().unwrap();
    let half = parts.slice(..10);
    drop(parts);
    let waits = EnvoyAdmin { total: Duration::from_millis(100), ..admin.clone() };
    assert!(waits.get(interface(50, port), "/stats", &identity).await.is_err(), "all turns are taken");
    drop(half);
    assert!(admin.get(interface(50, port), "/stats", &identity).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_before_the_identity_is_proven_have_one_text() {
    let (ca, other_ca) = (ca(), ca());
    let identity = identity(&ca);
    let (of_another_ca, _, _one) = serve(&other_ca, 10).await;
    let (silent, _, _two) = serve(&ca, 0).await;
    let (good, _, _three) = serve(&ca, 10).await;
    let never_accepts = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let unanswered = never_accepts.local_addr().unwrap().port();
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let admin = admin();
    assert!(admin.get(interface(1, good), "/stats", &identity).await.is_ok());
    let elsewhere = |host: &str, peer: &str, port: u16| AdminInterface {
        host: host.to_owned(),
        peer: peer.parse().unwrap(),
        ..interface(1, port)
    };
    let cases = [
        ("refused", interface(1, closed)),
        ("no handshake", interface(1, unanswered)),
        ("certificate of another CA", interface(1, of_another_ca)),
        ("no response", interface(1, silent)),
        ("certificate for another address", interface(100, good)),
        ("peer elsewhere", elsewhere("127.0.0.1", "192.0.2.1", good)),
        ("address elsewhere", elsewhere("192.0.2.1", "127.0.0.1", good)),
        ("any address", elsewhere("0.0.0.0", "127.0.0.1", good)),
        ("unknown name", elsewhere("no-such-host.invalid", "127.0.0.1", good)),
        ("own port", interface(1, 1)),
        ("no port", AdminInterface { port: 70_000, ..interface(1, 1) }),
        ("no name", elsewhere("a b", "127.0.0.1", good)),
    ];
    let quick = EnvoyAdmin { total: Duration::from_millis(500), ..admin };
    for (name, interface) in cases {
        let error = quick.get(interface, "/stats", &identity).await.err();
        assert_eq!(error, Some(InspectError::Unreachable(UNREACHABLE.to_owned())), "{name}");
    }
}

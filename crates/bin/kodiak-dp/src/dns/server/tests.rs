//! Real sockets: names of the mesh, other names, and silent nameservers.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use kodiak_testkit::skip::{Need, skip};
use tempfile::TempDir;
use tokio::net::UnixListener;

use super::super::asked::Answer;
use super::super::message::tests::query;
use super::super::message::{TYPE_A, TYPE_AAAA};
use super::*;

const NAMES: &str =
    r#"{"records":[{"name":"web.mesh.local","ips":["240.0.0.1","::ffff:f000:1"]}],"ttl":30,"domains":["mesh.local"]}"#;
const SERVER_FAILURE: u8 = 2;

/// A control plane that knows one more name.
struct Fake;

impl Directory for Fake {
    fn resolve<'a>(&'a self, hostname: &'a str) -> Answer<'a> {
        let address = (hostname == "trimmed.mesh.local").then_some(Ipv4Addr::new(240, 0, 0, 2));
        Box::pin(async move { Ok(address) })
    }
}

/// A server with its Envoy and its nameserver; all of it ends with this value.
struct Bed {
    address: SocketAddr,
    asked: watch::Receiver<Vec<Option<String>>>,
    _tasks: JoinSet<()>,
    _folder: TempDir,
}

impl Bed {
    async fn start(ipv6: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut tasks = JoinSet::new();
        let records = folder.path().join("names.sock");
        let asked = envoy(&records, &mut tasks);
        let upstream = nameserver(&mut tasks).await;
        let resolv_conf = folder.path().join("resolv.conf");
        fs::write(&resolv_conf, format!("nameserver {upstream}\n")).unwrap();
        let settings = DnsSettings { records, resolv_conf, ipv6, directory: Arc::new(Fake) };
        let server = Server::bind((Ipv4Addr::LOCALHOST, 0).into(), settings).await.unwrap();
        let address = server.address();
        tasks.spawn(server.serve());
        let bed = Self { address, asked, _tasks: tasks, _folder: folder };
        // Names and nameservers are read in the background.
        while addresses(&bed.udp(&query("web.mesh.local", TYPE_A)).await) != [[240, 0, 0, 1]] {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bed
    }

    async fn udp(&self, request: &[u8]) -> Vec<u8> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        socket.send_to(request, self.address).await.unwrap();
        let mut buffer = vec![0; 65_535];
        let length = socket.recv(&mut buffer).await.unwrap();
        buffer[..length].to_vec()
    }

    async fn tcp(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        resolvers::write(&mut stream, request).await.unwrap();
        read_message(&mut stream).await.unwrap()
    }
}

/// Response of Envoy on its socket, and the versions that it was asked with.
fn envoy(socket: &Path, tasks: &mut JoinSet<()>) -> watch::Receiver<Vec<Option<String>>> {
    let listener = UnixListener::bind(socket).unwrap();
    let (sender, shown) = watch::channel(Vec::new());
    let sender = Arc::new(sender);
    tasks.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service_fn(|request: Request<Incoming>| {
                let version = request.headers().get("if-none-match").map(|value| value.to_str().unwrap().to_owned());
                assert_eq!(request.uri().path(), "/dns");
                let known = version.as_deref() == Some("\"v1\"");
                sender.send_modify(|all| all.push(version));
                let response = Response::builder().header("etag", "\"v1\"");
                let response = if known {
                    response.status(StatusCode::NOT_MODIFIED).body(Full::default())
                } else {
                    response.body(Full::<Bytes>::from(NAMES))
                };
                async { response }
            });
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        }
    });
    shown
}

/// Answers all queries with one address, except those for `silent`. Over TCP the address is another one.
async fn nameserver(tasks: &mut JoinSet<()>) -> SocketAddr {
    let (udp, tcp) = loop {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        // The same port may be taken there.
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
            break (udp, tcp);
        }
    };
    let address = udp.local_addr().unwrap();
    tasks.spawn(async move {
        let mut buffer = vec![0; 4096];
        loop {
            let (length, client) = udp.recv_from(&mut buffer).await.unwrap();
            if let Some(question) = Question::read(&buffer[..length]).filter(|question| question.name != "silent") {
                // A forged one comes first.
                let mut forged = question.answer(&[[6, 6, 6, 6].into()], 1, UDP_LIMIT);
                forged[0] ^= 1;
                udp.send_to(&forged, client).await.unwrap();
                let answer = question.answer(&[[192, 0, 2, 1].into()], 1, UDP_LIMIT);
                udp.send_to(&answer, client).await.unwrap();
            }
        }
    });
    tasks.spawn(async move {
        loop {
            let (mut stream, _) = tcp.accept().await.unwrap();
            let request = read_message(&mut stream).await.unwrap();
            let answer = Question::read(&request).unwrap().answer(&[[192, 0, 2, 2].into()], 1, TCP_LIMIT);
            resolvers::write(&mut stream, &answer).await.unwrap();
        }
    });
    address
}

/// The addresses of version 4 in an answer. All records of these tests have compressed names.
fn addresses(answer: &[u8]) -> Vec<[u8; 4]> {
    let count = usize::from(answer[7]);
    let records = answer.len().saturating_sub(count * 16);
    answer[records..].chunks(16).map(|record| record[12..].try_into().unwrap()).collect()
}

#[tokio::test]
async fn names_of_the_mesh_are_answered_and_others_forwarded() {
    let bed = Bed::start(false).await;
    for (name, by_udp, by_tcp) in [
        ("web.mesh.local", [240, 0, 0, 1], [240, 0, 0, 1]),
        ("WEB.mesh.LOCAL", [240, 0, 0, 1], [240, 0, 0, 1]),
        ("example.com", [192, 0, 2, 1], [192, 0, 2, 2]),
    ] {
        let request = query(name, TYPE_A);
        let (udp, tcp) = (bed.udp(&request).await, bed.tcp(&request).await);
        assert!(message::answers(&udp, &request) && message::answers(&tcp, &request));
        assert_eq!((addresses(&udp), addresses(&tcp)), (vec![by_udp], vec![by_tcp]), "{name}");
    }
    let nothing = bed.udp(&query("web.mesh.local", TYPE_AAAA)).await;
    assert_eq!((nothing[3] & 0x0f, nothing[7]), (0, 0), "no error, and no address");
}

#[tokio::test]
async fn version_6_is_answered_where_it_is_on() {
    let bed = Bed::start(true).await;
    let answer = bed.udp(&query("web.mesh.local", TYPE_AAAA)).await;
    assert!(answer.ends_with(&[0xff, 0xff, 240, 0, 0, 1]), "{answer:?}");
}

#[tokio::test]
async fn unchanged_names_are_not_sent_again() {
    let mut bed = Bed::start(false).await;
    let shown = bed.asked.wait_for(|shown| shown.len() > 1).await.unwrap();
    assert_eq!(shown[..2], [None, Some("\"v1\"".to_owned())]);
}

#[tokio::test]
async fn silent_nameservers_give_servfail() {
    let bed = Bed::start(false).await;
    let answer = bed.udp(&query("silent", TYPE_A)).await;
    assert_eq!(answer[3] & 0x0f, SERVER_FAILURE);
}

#[tokio::test]
async fn noise_is_survived() {
    let bed = Bed::start(false).await;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    for noise in [&b""[..], b"x", &[0xff; 300], &[0; 12], &[0; 4096]] {
        socket.send_to(noise, bed.address).await.unwrap();
    }
    let mut broken_off = TcpStream::connect(bed.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut broken_off, &[0xff, 0xff, 1]).await.unwrap();
    drop(broken_off);
    assert_eq!(addresses(&bed.udp(&query("web.mesh.local", TYPE_A)).await), [[240, 0, 0, 1]]);
}

/// dig accepts our responses.
#[tokio::test]
async fn dig_accepts_the_responses() {
    let bed = Bed::start(true).await;
    for (arguments, expected) in [
        (&["web.mesh.local", "A"][..], "240.0.0.1\n"),
        (&["web.mesh.local", "AAAA"], "::ffff:240.0.0.1\n"),
        (&["+tcp", "web.mesh.local", "A"], "240.0.0.1\n"),
        (&["web.mesh.local", "MX"], ""),
    ] {
        let mut dig = tokio::process::Command::new("dig");
        dig.args(["@127.0.0.1", "-p", &bed.address.port().to_string(), "+short", "+tries=1"]).args(arguments);
        let output = match dig.output().await {
            Ok(output) => output,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return skip(Need::Program, "dig is not there");
            }
            Err(error) => panic!("{error}"),
        };
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed == expected, "{arguments:?}: {printed}");
    }
}

#[tokio::test]
async fn names_of_the_mesh_that_the_proxy_lacks_are_those_of_the_control_plane() {
    let bed = Bed::start(true).await;
    for (name, expected) in [
        ("trimmed.mesh.local", [240, 0, 0, 2]),
        // The nameserver answers for what does not exist in the mesh.
        ("missing.mesh.local", [192, 0, 2, 1]),
        ("trimmed.example", [192, 0, 2, 1]),
    ] {
        assert_eq!(addresses(&bed.udp(&query(name, TYPE_A)).await), [expected], "{name}");
    }
    assert_eq!(addresses(&bed.tcp(&query("trimmed.mesh.local", TYPE_A)).await), [[240, 0, 0, 2]]);
    let answer = bed.udp(&query("trimmed.mesh.local", TYPE_AAAA)).await;
    assert!(answer.ends_with(&[0xff, 0xff, 240, 0, 0, 2]), "{answer:?}");
}

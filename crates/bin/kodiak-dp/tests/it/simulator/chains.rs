//! Which filter chain matches a connection, shown by its cluster.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use kodiak_testkit::envoy::envoy;
use kodiak_testkit::simulate::{Connection, Refusal, Request, SimulatedProxy, TlsPeer};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::backend::Backend;
use super::start;
use crate::running::PATIENCE;

/// Server name and protocols of each; an empty name is not sent.
const HELLOS: &[(&str, &[&str])] = &[
    ("", &[]),
    ("", &["kuma"]),
    ("", &["h2"]),
    ("", &["h2", "kuma"]),
    ("", &["kuma", "h2"]),
    ("", &["other"]),
    ("a.test", &[]),
    ("a.test", &["kuma"]),
    ("A.test", &[]),
    ("b.test", &["h2"]),
    ("b.a.test", &[]),
    ("test", &["h2"]),
    ("b.long.test", &["h2"]),
    ("b.long.test", &["http/1.1"]),
    ("b.long.test", &[]),
    ("long.test", &["h2"]),
    ("elsewhere", &["http/1.1"]),
];

#[test]
fn simulator_matches_the_filter_chain_that_envoy_matches() {
    let Some(envoy) = envoy() else { return };
    let backends = ["a", "b", "c", "d", "e", "f"].map(|name| (name, Backend::start(name)));
    let (proxy, running) = start(envoy, include_str!("chains.yaml"), &backends);
    let address = running.listener("chains");
    let hello = |(sni, alpn): &(&str, &[&str])| {
        let alpn = alpn.iter().map(|protocol| (*protocol).to_owned()).collect();
        Connection { tls: Some(TlsPeer { uris: Vec::new(), issuer: None, sni: (*sni).to_owned(), alpn }) }
    };
    for connection in HELLOS.iter().map(hello).chain([Connection::default()]) {
        assert_eq!(simulated(&proxy, &connection), real(&address, &connection), "{connection:?}");
    }
}

fn simulated(proxy: &SimulatedProxy, connection: &Connection) -> Option<String> {
    match proxy.inbound("127.0.0.1", 0, &Request::bytes(), connection) {
        Ok(sent) => Some(sent.forwarded().unwrap().cluster.clone()),
        Err(Refusal::NoChain { .. }) => None,
        Err(other) => panic!("{connection:?}: {other}"),
    }
}

/// `None` where the connection is closed.
fn real(address: &str, connection: &Connection) -> Option<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let Some(peer) = &connection.tls else {
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = [0; 1024];
        let length = stream.read(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        return answer.split_once("\r\n\r\n").map(|(_, body)| body.lines().next().unwrap().to_owned());
    };
    stream.write_all(&hello(peer)).unwrap();
    let mut name = String::new();
    // It may be closed with unread bytes.
    let _ = stream.read_to_string(&mut name);
    (!name.is_empty()).then_some(name)
}

/// ClientHello of a client. No more is needed to match a filter chain.
fn hello(peer: &TlsPeer) -> Vec<u8> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    config.enable_sni = !peer.sni.is_empty();
    config.alpn_protocols = peer.alpn.iter().map(|protocol| protocol.clone().into_bytes()).collect();
    let name = if peer.sni.is_empty() { "none" } else { peer.sni.as_str() };
    let mut client = ClientConnection::new(Arc::new(config), name.to_owned().try_into().unwrap()).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

//! DNS names of the mesh, as workloads and the sidecar process get them from a running Envoy.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

use kodiak_testkit::envoy::envoy;
use kodiak_xds::input::DnsListener;
use kodiak_xds::{dns, dynamic_config, names};

use super::inputs::{self, Certificates};
use super::{start, with};
use crate::running::PATIENCE;

/// Types of records.
const A: u8 = 1;
const AAAA: u8 = 28;

#[test]
fn sidecar_process_reads_dns_names_from_envoy() {
    let Some(program) = envoy() else { return };
    let made = Certificates::make();
    let folder = tempfile::tempdir().unwrap();
    let socket = names::dynamic_config_socket(folder.path().to_str().unwrap());
    let input = inputs::dynamic_config(socket.clone());
    let mut bootstrap = inputs::bootstrap("127.0.0.1", folder.path(), &made);
    bootstrap.admin = inputs::any_admin();
    let message = with(bootstrap.message(), vec![dynamic_config::listener(&input)], vec![], &made);
    let running = start(program, message);
    let document = &input.documents[dns::PATH];
    let (table, etag) = (document.body(), document.etag());
    let first = get(&socket, "").unwrap();
    assert!(first.starts_with("HTTP/1.1 200 ") && first.contains(&format!("etag: {etag}")), "{first}");
    assert!(first.ends_with(table), "{first}");
    let second = get(&socket, &format!("If-None-Match: {etag}\r\n")).unwrap();
    assert!(second.starts_with("HTTP/1.1 304 ") && second.ends_with("\r\n\r\n"), "{second}");
    assert!(get(&socket, "If-None-Match: older\r\n").unwrap().starts_with("HTTP/1.1 200 "));
    let permissions = fs::symlink_metadata(&socket).unwrap().permissions();
    assert_eq!(permissions.mode() & 0o777, 0o600, "only the runner reads it");
    let traces = running.end();
    assert!(traces.is_empty(), "left behind: {traces:?}");
}

#[test]
fn envoy_answers_dns_names_of_the_mesh() {
    let Some(program) = envoy() else { return };
    let made = Certificates::make();
    let folder = tempfile::tempdir().unwrap();
    let mut bootstrap = inputs::bootstrap("127.0.0.1", folder.path(), &made);
    bootstrap.admin = inputs::any_admin();
    let input = DnsListener { table: inputs::dns_table(), port: 0 };
    let message = with(bootstrap.message(), vec![dns::listener(&input)], vec![], &made);
    let running = start(program, message);
    let server = running.listener(names::DNS);
    assert!(query(&server, &["backend", "mesh"], A).ends_with(&[0, 0, 0, 30, 0, 4, 240, 0, 0, 1]));
    assert!(
        query(&server, &["web", "mesh"], AAAA)
            .ends_with(&[0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 240, 0, 0, 2])
    );
    // In another case than in the table: names are case-insensitive.
    assert!(query(&server, &["BackEnd", "MESH"], A).ends_with(&[240, 0, 0, 1]));
    let no_such_name = 3;
    assert_eq!(query(&server, &["nobody", "mesh"], A)[3] & 0x0f, no_such_name);
    let traces = running.end();
    assert!(traces.is_empty(), "left behind: {traces:?}");
}

/// Queries one record over UDP, and returns the whole response.
fn query(server: &str, name: &[&str], kind: u8) -> Vec<u8> {
    let labels = name.iter().flat_map(|label| [&[u8::try_from(label.len()).unwrap()][..], label.as_bytes()].concat());
    let header = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let question: Vec<u8> = header.into_iter().chain(labels).chain([0, 0, kind, 0, 1]).collect();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send_to(&question, server).unwrap();
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer).unwrap();
    answer[..length].to_vec()
}

/// The request of the sidecar process.
fn get(socket: &str, header: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    write!(stream, "GET {} HTTP/1.1\r\nHost: localhost\r\n{header}Connection: close\r\n\r\n", dns::PATH)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

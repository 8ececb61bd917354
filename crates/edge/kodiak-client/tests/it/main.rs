//! The public API of the client, against a server that records requests.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use kodiak_client::{Address, Client, ClientError, ConnectFailure, Endpoint, ListQuery, PutResult, ResourceId};
use kodiak_kinds::kinds;
use serde_json::json;

/// Serves one connection per response, and passes on the request of each.
fn serve(responses: Vec<String>) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (requests, received) = channel();
    std::thread::spawn(move || {
        for response in responses {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 1024];
            while !is_complete(&request) {
                let read = stream.read(&mut buffer).unwrap();
                if read == 0 {
                    break;
                }
                request.extend_from_slice(&buffer[..read]);
            }
            requests.send(String::from_utf8(request).unwrap()).unwrap();
            stream.write_all(response.as_bytes()).unwrap();
        }
    });
    (address, received)
}

/// Whether the head, and the body that it announces, are there.
fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn response(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn endpoint(address: impl std::fmt::Display) -> Endpoint {
    Endpoint::anonymous(Address::parse(&format!("http://{address}")).unwrap())
}

fn timeout_policy(name: &str) -> ResourceId<'_> {
    ResourceId { kind: kinds().by_name("MeshTimeout").unwrap(), mesh: "default", name }
}

#[tokio::test]
async fn sends_credentials_and_reads_warnings() {
    let (address, requests) = serve(vec![response("201 Created", r#"{"warnings": ["deprecated"]}"#)]);
    let endpoint = Endpoint {
        token: Some("secret\n".to_owned()),
        headers: vec![("x-team".to_owned(), "mesh".to_owned())],
        ..endpoint(address)
    };
    let client = Client::new(&endpoint, None).unwrap();
    let result = client.put(timeout_policy("slow"), json!({ "name": "slow" }).to_string().into()).await.unwrap();
    assert_eq!(result, PutResult { created: true, warnings: vec!["deprecated".to_owned()] });
    let request = requests.recv().unwrap();
    assert!(request.starts_with("PUT /meshes/default/meshtimeouts/slow HTTP/1.1\r\n"), "{request}");
    for line in ["authorization: Bearer secret\r\n", "x-team: mesh\r\n", "content-type: application/json\r\n"] {
        assert!(request.contains(line), "{line}: {request}");
    }
    assert!(request.ends_with(r#"{"name":"slow"}"#), "{request}");
}

#[tokio::test]
async fn lists_all_pages() {
    let first = json!({ "total": 2, "items": [{ "name": "a" }], "next": "http://elsewhere/meshtimeouts?offset=1" });
    let second = json!({ "total": 2, "items": [{ "name": "b" }], "next": null });
    let (address, requests) = serve([first, second].map(|page| response("200 OK", &page.to_string())).into());
    let client = Client::new(&endpoint(address), None).unwrap();
    let mut progress = Vec::new();
    let query = ListQuery::all_of(kinds().by_name("MeshTimeout").unwrap(), None);
    let items = client.list_all(&query, |seen, total| progress.push((seen, total))).await.unwrap();
    assert_eq!(items, [json!({ "name": "a" }), json!({ "name": "b" })]);
    assert_eq!(progress, [(1, 2), (2, 2)]);
    let paths =
        [requests.recv().unwrap(), requests.recv().unwrap()].map(|request| request.lines().next().unwrap().to_owned());
    assert_eq!(paths, ["GET /meshtimeouts?size=1000 HTTP/1.1", "GET /meshtimeouts?size=1000&offset=1 HTTP/1.1"]);
}

#[tokio::test]
async fn missing_resource_is_none_and_a_rejected_one_has_its_problems() {
    let body = json!({ "title": "Invalid", "detail": "", "invalid_parameters": [{ "field": "spec", "reason": "must be set" }] });
    let (address, _requests) =
        serve(vec![response("404 Not Found", "{}"), response("400 Bad Request", &body.to_string())]);
    let client = Client::new(&endpoint(address), None).unwrap();
    assert_eq!(client.get(timeout_policy("none")).await.unwrap(), None);
    let error = client.put(timeout_policy("wrong"), "{}".into()).await.unwrap_err();
    let refusal = error.refusal().unwrap();
    assert_eq!((refusal.title.as_str(), refusal.problems[0].to_string().as_str()), ("Invalid", "spec: must be set"));
    assert!(!error.is_unreachable());
}

#[tokio::test]
async fn unreachable_control_plane_is_reported_with_advice() {
    let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let client = Client::new(&endpoint(closed), Some(Duration::from_mins(1))).unwrap();
    let error = client.info().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { failure: ConnectFailure::Connection, .. }), "{error:?}");
    assert!(error.source().unwrap().to_string().contains("refused"), "{error:?}");
    assert!(error.advice().unwrap().contains("control plane runs"));
}

#[tokio::test]
async fn request_without_a_response_times_out() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let client = Client::new(&endpoint(silent.local_addr().unwrap()), Some(Duration::from_millis(50))).unwrap();
    let error = client.info().await.unwrap_err();
    assert!(matches!(error, ClientError::TimedOut { .. }), "{error:?}");
    assert!(error.to_string().ends_with("did not answer within 50ms"), "{error}");
}

#[test]
fn rejects_unusable_files_and_credentials_before_any_request() {
    let setup = |endpoint: &Endpoint| Client::new(endpoint, None).err().unwrap();
    let anonymous = || endpoint("localhost:1");
    let missing = setup(&Endpoint { ca_cert_file: Some("/none/ca.pem".into()), ..anonymous() });
    assert_eq!(missing.to_string(), "cannot read /none/ca.pem");
    let header = setup(&Endpoint { headers: vec![("x-key".to_owned(), "a\nb".to_owned())], ..anonymous() });
    assert!(header.to_string().contains("\"x-key\"") && !header.to_string().contains("a\nb"), "{header}");
    let token = setup(&Endpoint { token: Some("a\u{1}b".to_owned()), ..anonymous() });
    assert!(token.to_string().contains("token") && !token.to_string().contains("a\u{1}b"), "{token}");
}

//! HTTP/2 clients that reset their streams, and idle ones.

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kodiak_listen::{ConnectionLimits, Refused};

use tokio::io::AsyncWriteExt as _;

use crate::bed::{Bed, PATIENCE, SHORT, closed, exchange};

async fn client(bed: &Bed) -> (SendRequest<Empty<Bytes>>, tokio::task::JoinHandle<hyper::Result<()>>) {
    let io = TokioIo::new(bed.connect().await);
    let (sender, connection) = http2::Builder::new(TokioExecutor::new()).handshake(io).await.unwrap();
    (sender, tokio::spawn(connection))
}

fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://x{path}")).body(Empty::new()).unwrap()
}

#[tokio::test]
async fn rapid_resets_close_the_connection_and_others_are_served() {
    let bed = Bed::start(ConnectionLimits { resets: 20, ..ConnectionLimits::api() }, None).await;
    let (mut sender, connection) = client(&bed).await;
    let mut sent = 0_u64;
    let flood = async {
        while !sender.is_closed() {
            // Each is dropped while it is active, which resets its stream: the answer to the next one shows that it is.
            let request = sender.send_request(get("/never"));
            let answered = sender.send_request(get("/")).await;
            drop(request);
            sent += u64::from(answered.is_ok());
        }
    };
    tokio::time::timeout(PATIENCE, flood).await.expect("the port ends the connection");
    let _ = connection.await.unwrap();
    assert!(sent < 10_000, "{sent} were reset");
    bed.seen.until_open(0).await;
    assert_eq!(bed.seen.refused(), [Refused::Resets]);
    exchange(&mut bed.connect().await).await;
}

#[tokio::test]
async fn idle_connection_is_closed_although_it_answers_pings() {
    let limits = ConnectionLimits { idle: 4 * SHORT, ping_every: SHORT / 5, ..ConnectionLimits::api() };
    let bed = Bed::start(limits, None).await;
    let (mut sender, connection) = client(&bed).await;
    assert_eq!(sender.send_request(get("/")).await.unwrap().status(), 200);
    let _ = tokio::time::timeout(PATIENCE, connection).await.expect("the port closes").unwrap();
}

#[tokio::test]
async fn client_that_does_not_answer_pings_is_disconnected() {
    let limits = ConnectionLimits {
        ping_every: SHORT,
        ping_answer: SHORT,
        request_head: PATIENCE * 10,
        ..ConnectionLimits::api()
    };
    let bed = Bed::start(limits, None).await;
    let mut stream = bed.connect().await;
    // The preface and empty settings only.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    closed(&mut stream).await;
    bed.seen.until_open(0).await;
}

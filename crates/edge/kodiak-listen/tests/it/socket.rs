//! Unix sockets: by user.

use std::sync::Arc;

use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use kodiak_listen::{ConnectionLimits, Listener, Refused, Server};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use crate::bed::{Answers, PATIENCE, Seen};

async fn ask(uids: impl FnOnce(u32) -> Vec<u32>) -> (Option<u16>, Vec<Refused>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let (listener, seen, drain) =
        (UnixListener::bind(&path).unwrap(), Arc::new(Seen::default()), CancellationToken::new());
    let own = UnixStream::pair().unwrap().0.peer_cred().unwrap().uid();
    let server = Server {
        name: "socket",
        listener: Listener::Unix { listener, uids: uids(own) },
        tls: None,
        limits: ConnectionLimits::api(),
        observer: Some(seen.clone()),
        drain: drain.clone(),
        grace: PATIENCE,
    };
    let server = tokio::spawn(server.serve(Answers));
    let stream = TokioIo::new(UnixStream::connect(&path).await.unwrap());
    let answered = async {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.ok()?;
        tokio::spawn(connection);
        let request = http::Request::get("/").header("host", "x").body(Empty::<bytes::Bytes>::new()).unwrap();
        Some(sender.send_request(request).await.ok()?.status().as_u16())
    };
    let answered = tokio::time::timeout(PATIENCE, answered).await.unwrap();
    drain.cancel();
    server.await.unwrap();
    (answered, seen.refused())
}

#[tokio::test]
async fn a_process_of_the_right_user_is_served() {
    assert_eq!(ask(|own| vec![own]).await, (Some(200), vec![]));
}

#[tokio::test]
async fn a_process_of_another_user_is_refused() {
    assert_eq!(ask(|own| vec![own + 1]).await, (None, vec![Refused::User]));
}

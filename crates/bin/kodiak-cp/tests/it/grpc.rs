//! gRPC streams of a proxy.

use std::{collections::BTreeMap, marker::PhantomData, time::Duration};

use http_body_util::{BodyExt as _, StreamBody};
use hyper::{
    HeaderMap, Method, Request, StatusCode,
    body::{Bytes, Frame, Incoming},
};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use prost::Message;
use serde_json::json;
use tokio::sync::mpsc;

use crate::harness::TestControlPlane;

/// Generous timeout, for busy machines.
const PATIENCE: Duration = Duration::from_mins(1);

/// Stream of requests `Q` and responses `A`, on a connection of its own.
pub(crate) struct GrpcStream<Q, A> {
    headers: HeaderMap,
    response: Incoming,
    received: Vec<u8>,
    requests: mpsc::UnboundedSender<Bytes>,
    of: PhantomData<(Q, A)>,
}

/// Token of a proxy.
pub(crate) async fn token(cp: &TestControlPlane, mesh: &str, name: &str) -> String {
    let body = json!({ "mesh": mesh, "name": name, "validFor": "1h" }).to_string();
    let token = cp.send(Method::POST, "/tokens/dataplane", &[], body).await;
    assert_eq!(token.status, StatusCode::OK, "{}", token.text);
    token.text
}

impl<Q: Message, A: Message + Default> GrpcStream<Q, A> {
    /// With its first request.
    pub(crate) async fn open(cp: &TestControlPlane, path: &str, token: &str, first: &Q) -> Self {
        let roots = std::fs::read(cp.folder().join("kodiak.crt")).unwrap();
        let tls = kodiak_crypto::client_config(&roots).unwrap();
        let connector =
            hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http2().build();
        let (requests, mut receiver) = mpsc::unbounded_channel::<Bytes>();
        let frames = futures_util::stream::poll_fn(move |context| {
            receiver.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok::<_, std::io::Error>(Frame::data(bytes))))
        });
        let request = Request::post(format!("https://localhost:{}{path}", cp.control_plane.proxies.port()))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("authorization", token)
            .body(StreamBody::new(frames))
            .unwrap();
        let client = Client::builder(TokioExecutor::new()).http2_only(true).build(connector);
        send(&requests, first);
        let response = client.request(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let (head, response) = response.into_parts();
        Self { headers: head.headers, response, received: Vec::new(), requests, of: PhantomData }
    }

    pub(crate) fn send(&self, request: &Q) {
        send(&self.requests, request);
    }

    pub(crate) async fn next(&mut self) -> A {
        self.message().await.unwrap_or_else(|trailers| panic!("the stream ended: {trailers:?}"))
    }

    /// The gRPC status with which the stream ends. Messages before it are skipped.
    pub(crate) async fn status(&mut self) -> String {
        loop {
            if let Err(trailers) = self.message().await {
                return trailers.get("grpc-status").cloned().unwrap_or_default();
            }
        }
    }

    /// The next message, or the trailers.
    async fn message(&mut self) -> Result<A, BTreeMap<String, String>> {
        loop {
            if let Some(length) = self.received.get(1..5) {
                let whole = 5 + usize::try_from(u32::from_be_bytes(length.try_into().unwrap())).unwrap();
                if self.received.len() >= whole {
                    let message: Vec<u8> = self.received.drain(..whole).skip(5).collect();
                    return Ok(A::decode(message.as_slice()).unwrap());
                }
            }
            // A stream that is refused at once has its status in the headers.
            let frame = tokio::time::timeout(PATIENCE, self.response.frame()).await;
            let Some(frame) = frame.expect("the control plane answers") else { return Err(text(&self.headers)) };
            match frame.unwrap().into_data() {
                Ok(data) => self.received.extend_from_slice(&data),
                Err(frame) => return Err(frame.trailers_ref().map(text).unwrap_or_default()),
            }
        }
    }
}

fn text(headers: &HeaderMap) -> BTreeMap<String, String> {
    let text = |value: &hyper::header::HeaderValue| value.to_str().unwrap_or_default().to_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

fn send(requests: &mpsc::UnboundedSender<Bytes>, request: &impl Message) {
    let content = request.encode_to_vec();
    let mut message = vec![0];
    message.extend_from_slice(&u32::try_from(content.len()).unwrap().to_be_bytes());
    message.extend_from_slice(&content);
    requests.send(message.into()).unwrap();
}

//! Minimal xDS client: an ADS stream that subscribes to all clusters, and to more types if it is told so.

use http_body_util::{BodyExt as _, StreamBody};
use hyper::{
    Method, Request, StatusCode,
    body::{Bytes, Frame, Incoming},
};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use kodiak_envoy::envoy::{
    config::core::v3::Node,
    service::discovery::v3::{DiscoveryRequest, DiscoveryResponse},
};
use kodiak_xds_stream::TypeUrl;
use prost::Message as _;
use serde_json::json;
use tokio::sync::mpsc;

use crate::harness::TestControlPlane;

const ADS: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

/// Connected proxy.
pub(crate) struct Stream {
    response: Incoming,
    received: Vec<u8>,
    requests: mpsc::UnboundedSender<Bytes>,
}

impl Stream {
    /// Connects as a stored Dataplane, and subscribes to its clusters.
    pub(crate) async fn connect(cp: &TestControlPlane, mesh: &str, name: &str) -> Self {
        let body = json!({ "mesh": mesh, "name": name, "validFor": "1h" }).to_string();
        let token = cp.send(Method::POST, "/tokens/dataplane", &[], body).await;
        assert_eq!(token.status, StatusCode::OK, "{}", token.text);
        let roots = std::fs::read(cp.folder().join("kodiak.crt")).unwrap();
        let tls = kodiak_crypto::client_config(&roots).unwrap();
        let connector =
            hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http2().build();
        let (requests, mut receiver) = mpsc::unbounded_channel::<Bytes>();
        let frames = futures_util::stream::poll_fn(move |context| {
            receiver.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok::<_, std::io::Error>(Frame::data(bytes))))
        });
        let request = Request::post(format!("https://localhost:{}{ADS}", cp.control_plane.proxies.port()))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("authorization", token.text)
            .body(StreamBody::new(frames))
            .unwrap();
        let client = Client::builder(TokioExecutor::new()).http2_only(true).build(connector);
        let node = Node { id: format!("{mesh}.{name}"), ..Node::default() };
        let first = DiscoveryRequest {
            node: Some(node),
            type_url: TypeUrl::Cluster.as_str().to_owned(),
            ..DiscoveryRequest::default()
        };
        send(&requests, &first);
        let response = client.request(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Self { response: response.into_body(), received: Vec::new(), requests }
    }

    /// Subscribes to all resources of one more type.
    pub(crate) fn request(&self, type_url: TypeUrl) {
        let request = DiscoveryRequest { type_url: type_url.as_str().to_owned(), ..DiscoveryRequest::default() };
        send(&self.requests, &request);
    }

    /// Waits for the next resources, and acknowledges them.
    pub(crate) async fn receive(&mut self) -> DiscoveryResponse {
        let response = self.next().await;
        self.acknowledge(&response);
        response
    }

    pub(crate) fn acknowledge(&self, response: &DiscoveryResponse) {
        let ack = DiscoveryRequest {
            type_url: response.type_url.clone(),
            version_info: response.version_info.clone(),
            response_nonce: response.nonce.clone(),
            ..DiscoveryRequest::default()
        };
        send(&self.requests, &ack);
    }

    pub(crate) async fn next(&mut self) -> DiscoveryResponse {
        loop {
            if let Some(length) = self.received.get(1..5) {
                let whole = 5 + usize::try_from(u32::from_be_bytes(length.try_into().unwrap())).unwrap();
                if self.received.len() >= whole {
                    let message: Vec<u8> = self.received.drain(..whole).skip(5).collect();
                    return DiscoveryResponse::decode(message.as_slice()).unwrap();
                }
            }
            let frame = self.response.frame().await.expect("the stream goes on").unwrap();
            match frame.into_data() {
                Ok(data) => self.received.extend_from_slice(&data),
                Err(frame) => panic!("the stream ended: {:?}", frame.trailers_ref()),
            }
        }
    }
}

fn send(requests: &mpsc::UnboundedSender<Bytes>, request: &DiscoveryRequest) {
    let content = request.encode_to_vec();
    let mut message = vec![0];
    message.extend_from_slice(&u32::try_from(content.len()).unwrap().to_be_bytes());
    message.extend_from_slice(&content);
    requests.send(message.into()).unwrap();
}

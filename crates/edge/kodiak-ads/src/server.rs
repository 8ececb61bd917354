//! Requests of the proxy port: gRPC streams, and plain HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Version, header};
use http_body_util::{BodyExt as _, Either, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use kodiak_listen::{Client, Peer, Server, Service};
use kodiak_xds_stream::{delta, sotw};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::body::StreamBody;
use crate::budget::Budget;
use crate::grpc;
use crate::health;
use crate::limits::Limits;
use crate::load;
use crate::outbox::Outbox;
use crate::proxies::{Closing, Proxies};
use crate::requests::Requests;
use crate::stream::{self, StreamContext};

const DELTA: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
const STATE_OF_THE_WORLD: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
const HEALTH: &str = "/envoy.service.health.v3.HealthDiscoveryService/StreamHealthCheck";
const LOAD: &str = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";

type ResponseBody = Either<StreamBody, Full<Bytes>>;

/// Serves until the server drains, then ends streams, and lets requests and trailers finish.
pub async fn serve(server: Server, proxies: Arc<dyn Proxies>, limits: Limits) {
    let (drain, budget) = (server.drain.clone(), Budget::new(limits.unadmitted_bytes));
    server.serve(Port { proxies, limits, budget, drain }).await;
}

/// Shared by all requests.
#[derive(Clone)]
struct Port {
    proxies: Arc<dyn Proxies>,
    limits: Limits,
    budget: Budget,
    drain: CancellationToken,
}

impl Service for Port {
    type Body = ResponseBody;

    async fn call(&self, request: Request<Incoming>, client: Client) -> Response<ResponseBody> {
        self.answer(request, client).await
    }
}

impl Port {
    async fn answer(&self, request: Request<Incoming>, client: Client) -> Response<ResponseBody> {
        let Peer::Tcp(peer) = client.peer else { return unimplemented("proxies connect over TCP") };
        if !grpc::is_grpc(&request) {
            return self.plain(request, peer).await.map(Either::Right);
        }
        if request.version() != Version::HTTP_2 {
            return unimplemented("gRPC needs HTTP/2");
        }
        match request.uri().path() {
            DELTA => self.open(request, peer, client.cut, stream::run::<delta::Subscription>),
            STATE_OF_THE_WORLD => self.open(request, peer, client.cut, stream::run::<sotw::Subscription>),
            HEALTH => self.open(request, peer, client.cut, health::run),
            LOAD => self.open(request, peer, client.cut, load::run),
            _ => unimplemented(
                "this port serves AggregatedDiscoveryService, HealthDiscoveryService and LoadReportingService, all v3",
            ),
        }
    }

    fn open<F: Future<Output = ()> + Send + 'static>(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
        cut: CancellationToken,
        run: impl FnOnce(StreamContext, Requests, Arc<Outbox>) -> F,
    ) -> Response<ResponseBody> {
        let Self { proxies, limits, budget, drain } = self.clone();
        let credential = grpc::credential(request.headers());
        if let Err(closing) = proxies.admit_headers(&credential) {
            tracing::debug!(%peer, code = closing.code, reason = closing.message, "stream refused by its headers");
            return only_end(&closing);
        }
        let context = StreamContext { proxies, limits, drain, peer, credential, cut };
        let outbox = Arc::new(Outbox::default());
        let mut task = JoinSet::new();
        task.spawn(run(context, Requests::new(request.into_body(), budget), outbox.clone()));
        grpc::opening(Either::Left(StreamBody::new(outbox, task)))
    }

    /// Reads the whole request, then answers it.
    async fn plain(&self, request: Request<Incoming>, peer: SocketAddr) -> Response<Full<Bytes>> {
        let Limits { http_body, http_body_time, .. } = self.limits;
        let (head, body) = request.into_parts();
        let announced = head.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let length = if body.is_end_stream() { 0 } else { announced.unwrap_or(http_body).min(http_body) };
        let read = async {
            let reserved = self.budget.reserve(length).await;
            (Limited::new(body, http_body).collect().await, reserved)
        };
        let (body, _reserved) = match tokio::time::timeout(http_body_time, read).await {
            Ok((Ok(body), reserved)) => (body.to_bytes(), reserved),
            Ok((Err(error), _)) if error.is::<LengthLimitError>() => {
                return refusal(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is longer than {http_body} bytes\n"));
            }
            Ok((Err(error), _)) => return refusal(StatusCode::BAD_REQUEST, format!("cannot read the body: {error}\n")),
            Err(_) => {
                let message = format!("the body was not sent within {http_body_time:?}\n");
                return refusal(StatusCode::REQUEST_TIMEOUT, message);
            }
        };
        self.proxies.answer(Request::from_parts(head, body), peer).await.map(Full::new)
    }
}

fn unimplemented(message: &str) -> Response<ResponseBody> {
    only_end(&Closing { code: Closing::UNIMPLEMENTED, message: message.to_owned() })
}

fn only_end(closing: &Closing) -> Response<ResponseBody> {
    grpc::only_trailers::<Full<Bytes>>(closing).map(Either::Right)
}

fn refusal(status: StatusCode, message: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(message));
    *response.status_mut() = status;
    response
}

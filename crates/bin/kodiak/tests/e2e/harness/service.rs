//! Workload: responds with its name in a configurable way, and records requests.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    http::request::Parts,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

use super::get_with;

pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    /// The same once more: what proxies do for HTTP and for TCP in front of one port would differ.
    pub(crate) address_tcp: SocketAddr,
    workload: Arc<Workload>,
    _tasks: JoinSet<()>,
}

/// How requests are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    AtOnce,
    /// So many more of them with 503.
    Failing(u64),
    /// After a while.
    Late(Duration),
    /// Not before it is told otherwise.
    Held,
    /// With the answer of another service, called here with the trace headers of the request.
    Forwarding(SocketAddr),
}

/// Headers that applications forward, so that their requests belong to the trace of the request that they serve.
const TRACE_HEADERS: [&str; 12] = [
    "x-request-id",
    "traceparent",
    "tracestate",
    "b3",
    "x-b3-traceid",
    "x-b3-spanid",
    "x-b3-parentspanid",
    "x-b3-sampled",
    "x-datadog-trace-id",
    "x-datadog-parent-id",
    "x-datadog-sampling-priority",
    "x-datadog-tags",
];

struct Workload {
    name: Bytes,
    manner: watch::Sender<Manner>,
    counted: AtomicU64,
    last: Mutex<Option<Parts>>,
}

impl Service {
    pub(crate) async fn start(name: &str, address: Ipv4Addr) -> Self {
        let workload = Arc::new(Workload {
            name: Bytes::from(name.to_owned()),
            manner: watch::Sender::new(Manner::AtOnce),
            counted: AtomicU64::new(0),
            last: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        let mut serve = async || {
            let listener = TcpListener::bind((address, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            tasks.spawn(serve(listener, Arc::clone(&workload)));
            address
        };
        let (address, address_tcp) = (serve().await, serve().await);
        Self { address, address_tcp, workload, _tasks: tasks }
    }

    /// How many requests came.
    pub(crate) fn counted(&self) -> u64 {
        self.workload.counted.load(Ordering::Relaxed)
    }

    /// From now on, and for requests that are held.
    pub(crate) fn answers(&self, manner: Manner) {
        self.workload.manner.send_replace(manner);
    }

    /// The last request, as it came here.
    pub(crate) fn last(&self) -> Parts {
        self.workload.last.lock().unwrap().clone().expect("a request came")
    }
}

async fn serve(listener: TcpListener, workload: Arc<Workload>) {
    while let Ok((stream, _)) = listener.accept().await {
        let workload = Arc::clone(&workload);
        let answer = service_fn(move |request: Request<Incoming>| {
            let workload = Arc::clone(&workload);
            async move { Ok::<_, Infallible>(workload.answer(request).await) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}

impl Workload {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, _) = request.into_parts();
        *self.last.lock().unwrap() = Some(head.clone());
        self.counted.fetch_add(1, Ordering::Relaxed);
        let mut response = Response::new(Full::new(self.name.clone()));
        let manner = *self.manner.borrow();
        match manner {
            Manner::AtOnce => (),
            Manner::Failing(_) => {
                if self.manner.send_if_modified(Manner::fail) {
                    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                }
            }
            Manner::Late(time) => tokio::time::sleep(time).await,
            Manner::Held => {
                let mut manner = self.manner.subscribe();
                manner.wait_for(|manner| *manner != Manner::Held).await.expect("who answers keeps the sender");
            }
            Manner::Forwarding(address) => return forward(&head, address).await,
        }
        response
    }
}

async fn forward(head: &Parts, address: SocketAddr) -> Response<Full<Bytes>> {
    let headers = TRACE_HEADERS.iter().filter_map(|name| Some((*name, head.headers.get(*name)?.to_str().ok()?)));
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let answer = get_with(address, path, &headers.collect::<Vec<_>>()).await;
    let (status, text) = match answer {
        Ok(answer) => (answer.status, answer.text),
        Err(error) => (StatusCode::BAD_GATEWAY, error),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response
}

impl Manner {
    /// Whether one more fails.
    fn fail(&mut self) -> bool {
        let Self::Failing(left @ 1..) = self else { return false };
        *left -= 1;
        true
    }
}

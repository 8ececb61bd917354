//! A workload: it answers every request with its name, and counts.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use http_body_util::Full;
use hyper::{Request, Response, body::Bytes, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, task::JoinSet};

pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    /// The same once more: what proxies do for HTTP and for TCP in front of one port would differ.
    pub(crate) address_tcp: SocketAddr,
    counted: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Service {
    pub(crate) async fn start(name: &str, address: Ipv4Addr) -> Self {
        let counted = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        let mut serve = async || {
            let listener = TcpListener::bind((address, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            tasks.spawn(answer(listener, Bytes::from(name.to_owned()), Arc::clone(&counted)));
            address
        };
        let (address, address_tcp) = (serve().await, serve().await);
        Self { address, address_tcp, counted, _tasks: tasks }
    }

    /// How many requests came.
    pub(crate) fn counted(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }
}

async fn answer(listener: TcpListener, name: Bytes, counted: Arc<AtomicU64>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (name, counted) = (name.clone(), Arc::clone(&counted));
        let answer = service_fn(move |_: Request<Incoming>| {
            counted.fetch_add(1, Ordering::Relaxed);
            let name = name.clone();
            async move { Ok::<_, Infallible>(Response::new(Full::new(name))) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}

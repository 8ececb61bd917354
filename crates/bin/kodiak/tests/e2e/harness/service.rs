//! A workload: it answers every request with its name, and counts.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http_body_util::Full;
use hyper::{Request, Response, body::Bytes, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, task::JoinHandle};

const SLOW_TIME: Duration = Duration::from_secs(2);

pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    counted: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Service {
    /// What is asked for here takes its time, and is not counted.
    pub(crate) const SLOW: &str = "/slow";

    pub(crate) async fn start(name: &str, address: Ipv4Addr) -> Self {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (name, counted) = (Bytes::from(name.to_owned()), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&counted);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (name, count) = (name.clone(), Arc::clone(&count));
                let answer = service_fn(move |request: Request<Incoming>| {
                    let name = name.clone();
                    let is_slow = request.uri().path() == Self::SLOW;
                    count.fetch_add(u64::from(!is_slow), Ordering::Relaxed);
                    async move {
                        if is_slow {
                            tokio::time::sleep(SLOW_TIME).await;
                        }
                        Ok::<_, Infallible>(Response::new(Full::new(name)))
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
            }
        });
        Self { address, counted, task }
    }

    /// How many requests came.
    pub(crate) fn counted(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

//! Constant requests, each of which must be answered by the workload.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use http_body_util::{BodyExt as _, Empty};
use hyper::{Request, body::Bytes};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::task::JoinSet;

use super::{Sidecar, eventually, expect, get};

/// Of each caller: together about two hundred in a second.
const EVERY: Duration = Duration::from_millis(15);
/// Those after are only counted.
const SHOWN: usize = 5;

type Connections = Client<HttpConnector, Empty<Bytes>>;

pub(crate) struct Load {
    callers: Vec<Arc<Caller>>,
    tasks: JoinSet<()>,
}

struct Caller {
    how: How,
    target: SocketAddr,
    started: Instant,
    is_over: AtomicBool,
    answered: AtomicU64,
    failed: AtomicU64,
    failures: Mutex<Vec<String>>,
}

#[derive(Debug)]
enum How {
    /// HTTP, over connections that are kept.
    Kept(Box<Connections>),
    /// HTTP, each request over a new connection; between the proxies connections are kept.
    New,
    /// TCP, where also the proxies make a new connection for each request: with mTLS, each is a handshake.
    NewAllTheWay,
}

impl Load {
    /// One caller of each kind calls `backend` through this proxy.
    pub(crate) fn on(client: &Sidecar) -> Self {
        let kept = How::Kept(Box::new(Client::builder(TokioExecutor::new()).build_http()));
        let (http, tcp) = (client.outbound(), client.outbound_tcp());
        let callers = [(kept, http), (How::New, http), (How::NewAllTheWay, tcp)];
        let callers: Vec<_> = callers.into_iter().map(|(how, target)| Arc::new(Caller::new(how, target))).collect();
        let tasks = callers.iter().map(|caller| Arc::clone(caller).call()).collect();
        Self { callers, tasks }
    }

    /// Lets every caller have so many more answers, so that what was changed before is in use.
    pub(crate) async fn go_on(&self, requests: u64) {
        let answered = || self.callers.iter().map(|caller| caller.answered.load(Ordering::Relaxed));
        let enough: Vec<_> = answered().map(|before| before + requests).collect();
        eventually("requests are answered", async || {
            self.check();
            let now: Vec<_> = answered().collect();
            expect(now.iter().zip(&enough).all(|(now, enough)| now >= enough), now)
        })
        .await;
    }

    /// Ends it when all is answered. Nothing may have failed.
    pub(crate) async fn end(mut self) {
        for caller in &self.callers {
            caller.is_over.store(true, Ordering::Relaxed);
        }
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        self.check();
        for Caller { how, answered, .. } in self.callers.iter().map(AsRef::as_ref) {
            assert!(answered.load(Ordering::Relaxed) > 0, "nothing was tried: {how:?}");
        }
    }

    fn check(&self) {
        let failed: Vec<_> = self.callers.iter().filter_map(|caller| caller.failed()).collect();
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    }
}

impl Caller {
    fn new(how: How, target: SocketAddr) -> Self {
        Self {
            how,
            target,
            started: Instant::now(),
            is_over: AtomicBool::new(false),
            answered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            failures: Mutex::default(),
        }
    }

    /// Does not wait for an answer before it asks again: while a proxy stands still, requests to it come nevertheless.
    async fn call(self: Arc<Self>) {
        let mut every = tokio::time::interval(EVERY);
        let mut requests = JoinSet::new();
        while !self.is_over.load(Ordering::Relaxed) {
            every.tick().await;
            let caller = Arc::clone(&self);
            requests.spawn(async move { caller.note(caller.request().await) });
            while requests.try_join_next().is_some() {}
        }
        requests.join_all().await;
    }

    async fn request(&self) -> Result<(), String> {
        let How::Kept(connections) = &self.how else {
            let answer = get(self.target, "/").await?;
            return expect(answer.status.is_success(), answer);
        };
        let exchange = async {
            let request = Request::get(format!("http://{}/", self.target)).body(Empty::new()).unwrap();
            let response = connections.request(request).await.map_err(|error| format!("{error:?}"))?;
            let status = response.status();
            let body = response.into_body().collect().await.map_err(|error| format!("{error:?}"))?.to_bytes();
            expect(status.is_success(), (status, body))
        };
        tokio::time::timeout(super::PATIENCE, exchange).await.unwrap_or_else(|_| Err("no answer".to_owned()))
    }

    fn note(&self, outcome: Result<(), String>) {
        let Err(failure) = outcome else {
            self.answered.fetch_add(1, Ordering::Relaxed);
            return;
        };
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut failures = self.failures.lock().unwrap();
        if failures.len() < SHOWN {
            failures.push(format!("after {:?}: {failure}", self.started.elapsed()));
        }
    }

    fn failed(&self) -> Option<String> {
        let (answered, failed) = (self.answered.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed));
        let failures = self.failures.lock().unwrap().join("\n  ");
        let tried = answered + failed;
        (failed > 0).then(|| format!("{:?}: of {tried} requests {failed} failed:\n  {failures}", self.how))
    }
}

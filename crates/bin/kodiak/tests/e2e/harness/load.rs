//! Constant load; every request must be answered by the workload.

use std::{
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
use tokio::{task::JoinSet, time::MissedTickBehavior};

use super::{Sidecar, eventually, expect};

/// Of each of three callers: together about two hundred in a second.
const EVERY: Duration = Duration::from_millis(15);
/// Of each of six callers: together more than two hundred in a second.
const HALF_AS_OFTEN: Duration = Duration::from_millis(25);
/// Of each of two callers: together more than two hundred in a second.
const MORE_OFTEN: Duration = Duration::from_millis(9);
/// Of each of two callers of a destination, where many are called.
const SELDOM: Duration = Duration::from_millis(200);
/// Those after are only counted.
const SHOWN: usize = 5;

type Connections = Client<HttpConnector, Empty<Bytes>>;

pub(crate) struct Load {
    callers: Vec<Arc<Caller>>,
    tasks: JoinSet<()>,
}

struct Caller {
    how: How,
    connections: Connections,
    every: Duration,
    /// Host and port. As many own it as requests to it are not answered yet, and the caller.
    target: Mutex<Arc<str>>,
    started: Instant,
    is_over: AtomicBool,
    answered: AtomicU64,
    failed: AtomicU64,
    failures: Mutex<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    /// HTTP, over connections that are kept.
    Kept,
    /// HTTP, each request over a new connection; between the proxies connections are kept.
    New,
    /// TCP, where also the proxies make a new connection for each request: with mTLS, each is a handshake.
    NewAllTheWay,
}

impl Load {
    /// One caller of each kind calls `backend` through this proxy.
    pub(crate) fn on(client: &Sidecar) -> Self {
        let (http, tcp) = (client.outbound().to_string(), client.outbound_tcp().to_string());
        let callers = [(How::Kept, &http), (How::New, &http), (How::NewAllTheWay, &tcp)];
        Self::start(callers.map(|(how, target)| Caller::new(how, target, EVERY)))
    }

    /// One caller of each kind calls through each of these proxies.
    pub(crate) fn between<'a>(clients: impl IntoIterator<Item = &'a Sidecar>) -> Self {
        let callers = clients.into_iter().flat_map(|client| {
            let (http, tcp) = (client.outbound().to_string(), client.outbound_tcp().to_string());
            [(How::Kept, http.clone()), (How::New, http), (How::NewAllTheWay, tcp)]
        });
        Self::start(callers.map(|(how, target)| Caller::new(how, &target, HALF_AS_OFTEN)))
    }

    /// Calls this host and port, which is looked up for each new connection.
    pub(crate) fn calling(target: &str) -> Self {
        Self::start([How::Kept, How::New].map(|how| Caller::new(how, target, MORE_OFTEN)))
    }

    /// Calls all of these hosts and ports, each ten times in a second.
    pub(crate) fn visiting<'a>(targets: impl IntoIterator<Item = &'a str>) -> Self {
        let callers = |target| [How::Kept, How::New].map(|how| Caller::new(how, target, SELDOM));
        Self::start(targets.into_iter().flat_map(callers))
    }

    fn start(callers: impl IntoIterator<Item = Caller>) -> Self {
        let callers: Vec<_> = callers.into_iter().map(Arc::new).collect();
        let tasks = callers.iter().map(|caller| Arc::clone(caller).call()).collect();
        Self { callers, tasks }
    }

    /// Calls this host and port from now on. Afterwards all that was sent to the one before is answered.
    pub(crate) async fn switch(&self, target: &str) {
        for caller in &self.callers {
            let before = std::mem::replace(&mut *caller.target.lock().unwrap(), target.into());
            eventually("what was sent is answered", async || {
                let waiting = Arc::strong_count(&before) - 1;
                expect(waiting == 0, waiting)
            })
            .await;
        }
    }

    /// How many requests were answered, how many were not, and what became of the first of those.
    pub(crate) fn counted(&self) -> (u64, u64, Vec<String>) {
        let sum = |count: fn(&Caller) -> &AtomicU64| {
            self.callers.iter().map(|caller| count(caller).load(Ordering::Relaxed)).sum::<u64>()
        };
        let failures = self.callers.iter().filter_map(|caller| caller.failed());
        (sum(|caller| &caller.answered), sum(|caller| &caller.failed), failures.collect())
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
    fn new(how: How, target: &str, every: Duration) -> Self {
        let mut connections = Client::builder(TokioExecutor::new());
        if how != How::Kept {
            connections.pool_max_idle_per_host(0);
        }
        Self {
            how,
            connections: connections.build_http(),
            every,
            target: Mutex::new(target.into()),
            started: Instant::now(),
            is_over: AtomicBool::new(false),
            answered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            failures: Mutex::default(),
        }
    }

    /// Does not wait for an answer before it asks again: while a proxy stands still, requests to it come nevertheless.
    async fn call(self: Arc<Self>) {
        let mut every = tokio::time::interval(self.every);
        // Constant, also on a machine that does much else: requests that were not sent in time do not come all at once.
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
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
        let target = Arc::clone(&self.target.lock().unwrap());
        call(&self.connections, &target).await.map(drop)
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

/// The answer, where it is a good one.
async fn call(connections: &Connections, target: &str) -> Result<Bytes, String> {
    let exchange = async {
        let request = Request::get(format!("http://{target}/")).body(Empty::new()).unwrap();
        let response = connections.request(request).await.map_err(|error| format!("{error:?}"))?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| format!("{error:?}"))?.to_bytes();
        expect(status.is_success(), (status, &body)).map(|()| body)
    };
    tokio::time::timeout(super::PATIENCE, exchange).await.unwrap_or_else(|_| Err("no answer".to_owned()))
}

/// Calls this host and port once, over a connection of its own.
pub(crate) async fn try_once(target: &str) -> Result<String, String> {
    let body = call(&Client::builder(TokioExecutor::new()).build_http(), target).await?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

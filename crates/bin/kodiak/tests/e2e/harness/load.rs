//! Constant requests, each of which must be answered by the workload.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use http_body_util::{BodyExt as _, Empty};
use hyper::{Request, body::Bytes};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{io::AsyncWriteExt as _, net::TcpStream, task::JoinSet};

use super::{Service, eventually, expect, get};

/// Of each of the two kinds of callers: together well above a hundred in a second.
const EVERY: Duration = Duration::from_millis(15);
/// How often somebody hangs up.
const HANG_UP_EVERY: Duration = Duration::from_millis(50);
/// Those after are only counted.
const SHOWN: usize = 5;

pub(crate) struct Load {
    seen: Arc<Seen>,
    callers: JoinSet<()>,
}

struct Seen {
    started: Instant,
    answered: AtomicU64,
    failed: AtomicU64,
    failures: Mutex<Vec<String>>,
}

impl Load {
    /// One caller keeps its connections, one makes a new one for each request, and one hangs up.
    pub(crate) fn on(target: SocketAddr) -> Self {
        let seen = Arc::new(Seen {
            started: Instant::now(),
            answered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            failures: Mutex::default(),
        });
        let mut callers = JoinSet::new();
        callers.spawn(keep_alive(target, Arc::clone(&seen)));
        callers.spawn(fresh(target, Arc::clone(&seen)));
        callers.spawn(hang_up(target));
        Self { seen, callers }
    }

    /// Lets so many more requests be answered, so that what was changed before is in use.
    pub(crate) async fn go_on(&self, requests: u64) {
        let enough = self.seen.answered.load(Ordering::Relaxed) + requests;
        eventually("requests are answered", async || {
            self.seen.check();
            let answered = self.seen.answered.load(Ordering::Relaxed);
            expect(answered >= enough, answered)
        })
        .await;
    }

    /// Ends it. Nothing may have failed.
    pub(crate) fn end(self) {
        drop(self.callers);
        self.seen.check();
        assert!(self.seen.answered.load(Ordering::Relaxed) > 0, "nothing was tried");
    }
}

impl Seen {
    fn check(&self) {
        let (answered, failed) = (self.answered.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed));
        let failures = self.failures.lock().unwrap().join("\n  ");
        assert_eq!(failed, 0, "of {} requests {failed} failed:\n  {failures}", answered + failed);
    }

    fn note(&self, kind: &str, outcome: Result<(), String>) {
        let Err(failure) = outcome else {
            self.answered.fetch_add(1, Ordering::Relaxed);
            return;
        };
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut failures = self.failures.lock().unwrap();
        if failures.len() < SHOWN {
            failures.push(format!("after {:?}, {kind}: {failure}", self.started.elapsed()));
        }
    }
}

async fn keep_alive(target: SocketAddr, seen: Arc<Seen>) {
    let client: Client<HttpConnector, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let mut every = tokio::time::interval(EVERY);
    loop {
        every.tick().await;
        let call = async {
            let request = Request::get(format!("http://{target}/")).body(Empty::new()).unwrap();
            let response = client.request(request).await.map_err(|error| format!("{error:?}"))?;
            let status = response.status();
            let body = response.into_body().collect().await.map_err(|error| format!("{error:?}"))?.to_bytes();
            if status.is_success() { Ok(()) } else { Err(format!("{status}: {}", String::from_utf8_lossy(&body))) }
        };
        let outcome = tokio::time::timeout(super::PATIENCE, call).await;
        seen.note("kept connection", outcome.unwrap_or_else(|_| Err("no answer".to_owned())));
    }
}

/// Asks for something slow, and does not wait for it: nobody else may notice.
async fn hang_up(target: SocketAddr) {
    let mut every = tokio::time::interval(HANG_UP_EVERY);
    loop {
        every.tick().await;
        let Ok(mut stream) = TcpStream::connect(target).await else { continue };
        let request = format!("GET {} HTTP/1.1\r\nHost: {target}\r\n\r\n", Service::SLOW);
        // Whether it works, the others see.
        let _ = stream.write_all(request.as_bytes()).await;
        tokio::time::sleep(HANG_UP_EVERY / 2).await;
    }
}

async fn fresh(target: SocketAddr, seen: Arc<Seen>) {
    let mut every = tokio::time::interval(EVERY);
    loop {
        every.tick().await;
        let answer = get(target, "/").await;
        let outcome = answer.and_then(|answer| expect(answer.status.is_success(), answer));
        seen.note("new connection", outcome);
    }
}

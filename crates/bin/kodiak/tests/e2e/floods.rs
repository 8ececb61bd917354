//! Floods of a control plane with real proxies: its memory stays bounded, and changes still reach the proxies.
//!
//! Sizes are such that all floods together take less than a minute; `KODIAK_SOAK=1` runs them in full.

mod client;
mod memory;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use hyper::StatusCode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpSocket, TcpStream},
    task::JoinSet,
};

use crate::harness::{Mesh, Mtls, Sidecar, eventually, expect};
use client::Attacker;
use memory::Memory;

/// More than all floods may take, at the peak.
const MOST_MEMORY: u64 = 256 * 1024 * 1024;
/// Floods that are made of requests have so many under way.
const AT_ONCE: usize = 32;
const IDLE: usize = 10_000;
const RECONNECTS: usize = 5000;
const LONG_BODY: usize = 10 * 1024 * 1024;

/// The first number, or with `KODIAK_SOAK=1` the second.
fn size(short: usize, full: usize) -> usize {
    if is_soak() { full } else { short }
}

fn is_soak() -> bool {
    std::env::var_os("KODIAK_SOAK").is_some_and(|value| value == "1")
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_stays_bounded_and_changes_reach_proxies_in_floods() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    if !is_soak() {
        println!("this is the short version of the floods; KODIAK_SOAK=1 runs them in full");
    }
    let flooded = Flooded::start(mesh).await;
    let attacker = Attacker::of(&flooded.mesh.control_plane);

    let idle = idle_connections(&attacker).await;
    flooded.takes_changes(&format!("{} idle connections", idle.len())).await;
    drop(idle);
    let slow = slow_readers(&attacker, size(200, 1000)).await;
    flooded.takes_changes(&format!("{} slow readers", slow.len())).await;
    drop(slow);
    flooded.under("reconnects without a token", RECONNECTS, || attacker.clone().stream_without_token()).await;
    flooded.under("connections that reset streams", size(20, 400), || attacker.clone().rapid_resets()).await;
    flooded.under("bodies of 10 MB", size(100, 1000), || attacker.clone().long_body(LONG_BODY)).await;
}

/// A mesh while its control plane is flooded.
struct Flooded {
    mesh: Mesh,
    client: Sidecar,
    memory: Memory,
    _served: Box<dyn Send>,
}

impl Flooded {
    async fn start(mesh: Mesh) -> Self {
        mesh.permit_all().await;
        let served = mesh.backend("backend-1").await;
        let client = mesh.client().await;
        let memory = Memory::of(mesh.control_plane.log().id());
        Self { mesh, client, memory, _served: Box::new(served) }
    }

    /// Does something so many times, while the mesh changes.
    async fn under<F: Future<Output = ()> + Send + 'static>(
        &self,
        what: &str,
        count: usize,
        mut one: impl FnMut() -> F,
    ) {
        let done = Arc::new(AtomicUsize::new(0));
        let mut running = JoinSet::new();
        let mut spawn_one = |running: &mut JoinSet<()>| {
            let (one, done) = (one(), done.clone());
            running.spawn(async move {
                one.await;
                done.fetch_add(1, Ordering::Relaxed);
            });
        };
        for _ in 0..AT_ONCE.min(count) {
            spawn_one(&mut running);
        }
        let mut begun = AT_ONCE.min(count);
        let flood = async {
            while let Some(ended) = running.join_next().await {
                ended.unwrap();
                if begun < count {
                    spawn_one(&mut running);
                    begun += 1;
                }
            }
        };
        // Each round of changes begins while the flood goes on; it goes on to its end in any case.
        tokio::join!(flood, self.takes_changes(what));
        assert_eq!(done.load(Ordering::Relaxed), count);
        self.is_bounded(&format!("{count} {what}"));
    }

    /// A change and its opposite take effect in a proxy.
    async fn takes_changes(&self, what: &str) {
        for (permitted, status) in [(false, StatusCode::FORBIDDEN), (true, StatusCode::OK)] {
            if permitted {
                self.mesh.permit_all().await;
            } else {
                self.mesh.forbid().await;
            }
            eventually(&format!("a change reaches the proxy: {what}"), async || {
                let answer = self.client.call().await?;
                expect(answer.status == status, answer)
            })
            .await;
        }
        self.is_bounded(what);
    }

    #[track_caller]
    fn is_bounded(&self, what: &str) {
        let (growth, before) = (self.memory.peak_growth(), self.memory.before());
        let mib = |bytes: u64| bytes / 1024 / 1024;
        println!("{what}: peak {} MiB over {} MiB", mib(growth), mib(before));
        assert!(growth < MOST_MEMORY, "{what}: {} MiB more than {} MiB", mib(growth), mib(before));
    }
}

/// More than the port serves at a time: those that are closed for others stay open here.
async fn idle_connections(attacker: &Attacker) -> Vec<TcpStream> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let allowed = maximum.map_or(usize::MAX, |files| usize::try_from(files).unwrap().saturating_sub(1000));
    let mut idle = Vec::new();
    for index in 0..IDLE.min(allowed) {
        let port = if index % 2 == 0 { attacker.proxies } else { attacker.api };
        idle.push(TcpStream::connect(port).await.unwrap());
    }
    idle
}

/// Ask for long answers, several at a time, and take none.
async fn slow_readers(attacker: &Attacker, count: usize) -> Vec<TcpStream> {
    let request = format!("GET /openapi.json HTTP/1.1\r\nhost: {}\r\n\r\n", attacker.api).repeat(20);
    let mut slow = Vec::new();
    for _ in 0..count {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(attacker.api).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    slow
}

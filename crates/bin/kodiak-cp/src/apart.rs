//! A runtime of its own for the diagnostics ports: health, readiness and metrics are answered while all threads that serve
//! other ports, and all threads of the pool, are busy.

use std::{net::TcpListener as StdListener, thread};

use anyhow::Context as _;
use axum::Router;
use kodiak_api::server::Routed;
use kodiak_listen::{ConnectionLimits, Listener, Server};
use tokio::{net::TcpListener, runtime::Builder, sync::oneshot, task::JoinSet};

/// One computes metrics, which read every mesh; the other one answers probes meanwhile.
const THREADS: usize = 2;

/// A port that is served apart.
pub(crate) struct ApartPort {
    name: &'static str,
    listener: StdListener,
    limits: ConnectionLimits,
    router: Router,
}

impl ApartPort {
    /// Takes the listener away from the runtime that bound it.
    pub(crate) fn new(
        name: &'static str,
        listener: TcpListener,
        limits: ConnectionLimits,
        router: Router,
    ) -> anyhow::Result<Self> {
        let listener = listener.into_std().with_context(|| format!("cannot serve the {name} port"))?;
        Ok(Self { name, listener, limits, router })
    }
}

/// Serves the ports until their drain. Dropping the future ends them.
pub(crate) async fn serve(
    ports: Vec<ApartPort>,
    server: impl Fn(&'static str, Listener, ConnectionLimits) -> Server + Send + 'static,
) -> anyhow::Result<()> {
    let (_dropped_with_this, stop) = oneshot::channel::<()>();
    let (send, ended) = oneshot::channel();
    let run = move || -> anyhow::Result<()> {
        let runtime =
            Builder::new_multi_thread().worker_threads(THREADS).thread_name("diagnostics").enable_all().build()?;
        let outcome = runtime.block_on(async {
            let mut servers = JoinSet::new();
            for ApartPort { name, listener, limits, router } in ports {
                let listener = Listener::Tcp(TcpListener::from_std(listener)?);
                servers.spawn(server(name, listener, limits).serve(Routed(router)));
            }
            let all = async {
                while let Some(ended) = servers.join_next().await {
                    ended?;
                }
                Ok(())
            };
            tokio::select! {
                ended = all => ended,
                _ = stop => Ok(()),
            }
        });
        runtime.shutdown_background();
        outcome
    };
    let thread = thread::Builder::new().name("diagnostics".to_owned());
    thread.spawn(move || send.send(run())).context("cannot start the thread of the diagnostics ports")?;
    ended.await.context("the thread of the diagnostics ports panicked")?
}

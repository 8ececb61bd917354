//! All simulated proxies.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use kodiak_envoy::envoy::config::core::v3::Node;
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::{timeout, timeout_at},
};

use super::proxy::{self, Event, Shared};

/// Timeout of each phase.
const PATIENCE: Duration = Duration::from_mins(5);
/// A change is complete when no proxy received anything for this long.
const QUIET: Duration = Duration::from_millis(400);

/// Closes all connections when dropped.
pub(super) struct Crowd {
    proxies: JoinSet<()>,
    events: mpsc::UnboundedReceiver<(usize, Event)>,
    count: usize,
}

impl Crowd {
    /// Connects all proxies, `at_once` of them concurrently, and waits until each has its full
    /// configuration. `node` is their metadata.
    pub(super) async fn connect(
        shared: Shared,
        count: usize,
        at_once: usize,
        node: impl Fn(usize) -> Node,
    ) -> anyhow::Result<Self> {
        let (teller, events) = mpsc::unbounded_channel();
        let (shared, slots) = (Arc::new(shared), Arc::new(Semaphore::new(at_once)));
        let mut proxies = JoinSet::new();
        for n in 0..count {
            let (shared, slots, teller, node) = (shared.clone(), slots.clone(), teller.clone(), node(n));
            proxies.spawn(async move {
                let slot = slots.acquire_owned().await.expect("the semaphore is never closed");
                let tell = |event| drop(teller.send((n, event)));
                if let Err(error) = proxy::run(&shared, node, slot, tell).await {
                    tell(Event::Failed(error));
                }
            });
        }
        let mut crowd = Self { proxies, events, count };
        let waiting = format!("not all proxies were served within {PATIENCE:?}");
        timeout(PATIENCE, crowd.all_served()).await.context(waiting)??;
        Ok(crowd)
    }

    async fn all_served(&mut self) -> anyhow::Result<()> {
        let mut served = 0;
        while served < self.count {
            if let (_, Event::Served) = self.next().await? {
                served += 1;
            }
        }
        Ok(())
    }

    /// Waits until no proxy receives anything, and returns when the last one did.
    pub(super) async fn settle(&mut self) -> anyhow::Result<Instant> {
        let mut last = Instant::now();
        while let Ok(event) = timeout(QUIET, self.next()).await {
            if let (_, Event::Changed(at)) = event? {
                last = last.max(at);
            }
        }
        Ok(last)
    }

    /// Waits until every proxy received a change, and returns the time from `start` to its last response for each.
    pub(super) async fn changed(&mut self, start: Instant) -> anyhow::Result<Vec<Duration>> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let mut told = BTreeMap::new();
        loop {
            let all = told.len() == self.count;
            let until = if all { tokio::time::Instant::now() + QUIET } else { deadline };
            match timeout_at(until, self.next()).await {
                Ok(event) => {
                    if let (proxy, Event::Changed(at)) = event? {
                        told.insert(proxy, at.saturating_duration_since(start));
                    }
                }
                Err(_) if all => break,
                Err(_) => anyhow::bail!("only {} of {} proxies received the change", told.len(), self.count),
            }
        }
        let mut times: Vec<_> = told.into_values().collect();
        times.sort();
        Ok(times)
    }

    async fn next(&mut self) -> anyhow::Result<(usize, Event)> {
        match self.events.recv().await.context("all proxies are disconnected")? {
            (proxy, Event::Failed(error)) => Err(error.context(format!("proxy {proxy}"))),
            event => Ok(event),
        }
    }

    /// Closes all connections.
    pub(super) async fn leave(mut self) {
        self.proxies.shutdown().await;
    }
}

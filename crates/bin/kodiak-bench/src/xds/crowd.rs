//! All simulated proxies.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::{timeout, timeout_at},
};

use super::{
    mesh,
    proxy::{self, Event, Shared},
};

/// So many connect at the same time. More would only wait for the same cores.
const AT_ONCE: usize = 64;
/// Longer than this nothing takes, unless something is wrong.
const PATIENCE: Duration = Duration::from_mins(5);
/// A change has arrived when nobody was told anything for so long.
const QUIET: Duration = Duration::from_millis(400);

/// Dropping it closes all connections.
pub(super) struct Crowd {
    proxies: JoinSet<()>,
    events: mpsc::UnboundedReceiver<(usize, Event)>,
    count: usize,
}

impl Crowd {
    /// Connects them all, and waits until each has all that it should have.
    pub(super) async fn connect(shared: Shared, count: usize, dns: bool) -> anyhow::Result<Self> {
        let (teller, events) = mpsc::unbounded_channel();
        let (shared, slots) = (Arc::new(shared), Arc::new(Semaphore::new(AT_ONCE)));
        let mut proxies = JoinSet::new();
        for n in 0..count {
            let (shared, slots, teller) = (shared.clone(), slots.clone(), teller.clone());
            proxies.spawn(async move {
                let slot = slots.acquire_owned().await.expect("the semaphore is never closed");
                let tell = |event| drop(teller.send((n, event)));
                if let Err(error) = proxy::run(&shared, mesh::node(n, dns), slot, tell).await {
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

    /// Waits until nothing arrives any more.
    pub(super) async fn settle(&mut self) -> anyhow::Result<()> {
        while let Ok(event) = timeout(QUIET, self.next()).await {
            event?;
        }
        Ok(())
    }

    /// Waits until every proxy was told of a change, and gives for each how long after `start` the last of it came.
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
                Err(_) => anyhow::bail!("{} of {} proxies were told of the change", told.len(), self.count),
            }
        }
        let mut times: Vec<_> = told.into_values().collect();
        times.sort();
        Ok(times)
    }

    async fn next(&mut self) -> anyhow::Result<(usize, Event)> {
        match self.events.recv().await.context("all proxies are gone")? {
            (proxy, Event::Failed(error)) => Err(error.context(format!("proxy {proxy}"))),
            event => Ok(event),
        }
    }

    /// Closes all connections.
    pub(super) async fn leave(mut self) {
        self.proxies.shutdown().await;
    }
}

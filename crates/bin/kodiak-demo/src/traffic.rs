//! Sends requests of flows at a constant rate, without waiting for responses.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::call::{Caller, Connection};
use super::flow::Flow;
use super::tally::Tally;

/// One of this many requests uses a new connection.
const FRESH: usize = 4;
/// With more requests in flight the rate is not kept, so that a hanging mesh does not use up all sockets.
const MAX_UNDER_WAY: usize = 256;

/// Stops immediately when dropped.
pub(super) struct Traffic {
    tallies: Vec<Arc<Mutex<Tally>>>,
    stop: watch::Sender<()>,
    tasks: JoinSet<()>,
}

impl Traffic {
    /// `rate` is in requests per second, spread evenly.
    pub(super) fn start(flows: &[Flow], rate: u32, caller: &Caller) -> Self {
        let count = u32::try_from(flows.len()).expect("flows are few");
        let period = Duration::from_secs(1) * count / rate.max(1);
        // Slightly different per flow: in lockstep, one flow would get every other turn of a round robin.
        let periods = (0..count).map(|number| period * (64 + 2 * number + 1).saturating_sub(count) / 64);
        let (stop, stopped) = watch::channel(());
        let mut this = Self { tallies: Vec::new(), stop, tasks: JoinSet::new() };
        let mut start = Instant::now();
        for (flow, period) in flows.iter().zip(periods) {
            let tally = Arc::new(Mutex::default());
            this.tallies.push(Arc::clone(&tally));
            let pace = Pace { start, period, stopped: stopped.clone() };
            this.tasks.spawn(send(flow.clone(), pace, caller.clone(), tally));
            start += period / count;
        }
        this
    }

    /// In the order of the flows.
    pub(super) fn tallies(&self) -> Vec<Tally> {
        self.tallies.iter().map(|tally| tally.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect()
    }

    /// Stops sending, and waits for requests in flight.
    pub(super) async fn stop(mut self) -> Vec<Tally> {
        self.stop.send_replace(());
        while self.tasks.join_next().await.is_some() {}
        self.tallies()
    }
}

struct Pace {
    start: Instant,
    period: Duration,
    stopped: watch::Receiver<()>,
}

async fn send(flow: Flow, mut pace: Pace, caller: Caller, tally: Arc<Mutex<Tally>>) {
    let flow = Arc::new(flow);
    let mut clock = interval_at(pace.start, pace.period);
    clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut under_way = JoinSet::new();
    for number in 0.. {
        while under_way.try_join_next().is_some() {}
        if under_way.len() >= MAX_UNDER_WAY {
            under_way.join_next().await;
        }
        tokio::select! {
            biased;
            _ = pace.stopped.changed() => break,
            _ = clock.tick() => (),
        }
        let (flow, caller, tally) = (Arc::clone(&flow), caller.clone(), Arc::clone(&tally));
        under_way.spawn(async move {
            let connection = if number % FRESH == 0 { Connection::Fresh } else { Connection::Kept };
            // Both kinds of connections are used for each address.
            let uri = flow.uris[number / FRESH % flow.uris.len()].clone();
            let started = Instant::now();
            let answer = caller.get(uri, connection).await;
            let took = started.elapsed();
            tally.lock().unwrap_or_else(PoisonError::into_inner).add(&flow, &answer, took);
        });
    }
    while under_way.join_next().await.is_some() {}
}

//! The only task that changes the store.
//!
//! It takes all waiting requests, decides them one after the other on a working state, makes the result durable in one
//! write, publishes it, and only then answers. When the write fails, the working state is dropped and all requests
//! fail. Requests that come in crowds wait a moment for others (`gather`).

#[cfg(test)]
mod tests;

mod gather;

use std::{collections::BTreeSet, mem, sync::Arc, time::Instant};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant as TokioInstant;
use tokio_util::sync::CancellationToken;

use crate::{
    config::Observer,
    decide::decide,
    engine::Engine,
    error::StoreError,
    event::{Batch, Event},
    health::Health,
    history::Published,
    id::Id,
    leader::Term,
    names::Names,
    record::{Transaction, Write, Written},
    row,
    state::State,
    unreadable,
};

/// Maximum number of requests in one durable write, and of requests that wait for the next.
pub(crate) const MAX_BATCH: usize = 1024;

pub(crate) struct Request {
    /// Decided one by one. An empty one probes whether the store can persist, with a durable write of nothing.
    pub(crate) transactions: Vec<Transaction>,
    pub(crate) answer: oneshot::Sender<Vec<Answer>>,
    /// When it was made, if it may wait for others.
    pub(crate) gathers: Option<TokioInstant>,
    /// The transactions are those of the leader in this term.
    pub(crate) fence: Option<Term>,
}

pub(crate) type Answer = Result<Written, StoreError>;

pub(crate) struct Writer {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) published: Arc<ArcSwap<Published>>,
    /// Wakes watchers. Dropped with the writer, which ends all watches.
    pub(crate) wake: watch::Sender<()>,
    pub(crate) queue: mpsc::Receiver<Request>,
    /// Another instance may have stored changes.
    pub(crate) nudge: Arc<Notify>,
    /// Answer queued requests, then end.
    pub(crate) closing: CancellationToken,
    pub(crate) tombstone_capacity: usize,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) names: Names,
    pub(crate) health: watch::Sender<Health>,
    /// Whether the last read of other instances' changes succeeded. Logged only when it changes.
    pub(crate) reads_others: bool,
}

impl Writer {
    pub(crate) async fn run(mut self) {
        let mut requests = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = self.closing.cancelled(), if !self.queue.is_closed() => self.queue.close(),
                taken = self.queue.recv_many(&mut requests, MAX_BATCH) => {
                    if taken == 0 {
                        break; // closed, and all answered
                    }
                    self.gather(&mut requests).await;
                    self.commit(mem::take(&mut requests)).await;
                }
                () = self.nudge.notified() => self.catch_up().await,
            }
        }
        self.engine.close().await;
    }

    /// Reads changes of other instances. When the back end is unavailable, the next nudge tries again.
    async fn catch_up(&mut self) {
        let before = self.published.load_full();
        let changes = self.engine.changes(before.state.head()).await;
        let read_others_before = mem::replace(&mut self.reads_others, changes.is_ok());
        match changes {
            Ok(changes) => {
                if !read_others_before {
                    tracing::info!("store change feed recovered");
                }
                if let Some(changes) = changes {
                    self.publish(before.with_changes(changes));
                }
            }
            Err(error) if read_others_before => {
                tracing::warn!(error = error.with_causes(), "failed to read changes of other instances, retrying");
            }
            Err(_) => (), // already logged
        }
    }

    async fn commit(&mut self, requests: Vec<Request>) {
        let started = Instant::now();
        let (mut transactions, mut callers) = (Vec::new(), Vec::new());
        for request in requests {
            callers.push((request.answer, request.transactions.len()));
            transactions.extend(request.transactions.into_iter().map(|transaction| (transaction, request.fence)));
        }
        let count = transactions.len();
        let mut answers = match self.try_commit(transactions).await {
            Ok((answers, changes)) => {
                if let Some(observer) = &self.observer {
                    observer.committed(count, changes, started.elapsed());
                }
                answers.into_iter()
            }
            Err(error) => {
                let error = error.into_unavailable();
                self.report(Some(error.clone()));
                tracing::error!(error = error.with_causes(), requests = count, "failed to persist, rejecting writes");
                if let Some(observer) = &self.observer {
                    observer.failed();
                }
                vec![Err(error); count].into_iter()
            }
        };
        for (caller, count) in callers {
            drop(caller.send(answers.by_ref().take(count).collect())); // the caller may have gone
        }
    }

    fn report(&self, read_only: Option<StoreError>) {
        if read_only.is_none() && self.health.borrow().read_only.is_some() {
            tracing::info!("store is writable again");
        }
        self.health.send_replace(Health::now(read_only));
    }

    /// The answers, and the number of changes.
    async fn try_commit(
        &mut self,
        transactions: Vec<(Transaction, Option<Term>)>,
    ) -> Result<(Vec<Answer>, usize), StoreError> {
        let before = self.published.load_full();
        let base = match self.engine.begin(before.state.head()).await? {
            Some(changes) => Arc::new(before.with_changes(changes)),
            None => before.clone(),
        };
        let deposed = self.deposed(&transactions).await?;
        let asked_to_persist = transactions.iter().any(|(transaction, _)| transaction.0.is_empty());
        let mut work = Work { state: State::clone(&base.state), events: Vec::new() };
        let now = row::now();
        let mut decide = |(transaction, fence): (Transaction, Option<Term>)| match fence {
            Some(term) if deposed.contains(&term) => Err(StoreError::Deposed),
            Some(_) | None => work.decide(self.shared(transaction), now),
        };
        let answers = transactions.into_iter().map(&mut decide).collect();

        let Work { mut state, events } = work;
        state.trim(self.tombstone_capacity);
        if !events.is_empty() {
            state.stamp(Id::random());
        }
        if events.is_empty() && !asked_to_persist {
            self.engine.release().await;
        } else {
            self.engine.persist(Batch::new(&events, state.head())).await?;
            self.report(None);
        }
        let changes = events.len();
        if changes > 0 || !Arc::ptr_eq(&base, &before) {
            self.publish(base.with_events(state, events));
        }
        Ok((answers, changes))
    }

    /// Terms in which this instance does not lead any more.
    async fn deposed(&mut self, transactions: &[(Transaction, Option<Term>)]) -> Result<BTreeSet<Term>, StoreError> {
        let mut deposed = BTreeSet::new();
        for term in transactions.iter().filter_map(|(_, fence)| *fence).collect::<BTreeSet<_>>() {
            if !self.engine.leads(term).await? {
                deposed.insert(term);
            }
        }
        Ok(deposed)
    }

    fn publish(&self, next: Published) {
        let before = self.published.load();
        if let Some(changes) = next.forked_from(&before) {
            let (was, is) = (before.state.head(), next.state.head());
            tracing::warn!(
                history = %is.history,
                history_before = %was.history,
                revision = is.revision,
                revision_before = was.revision,
                changes,
                "store has another history, reloaded all records"
            );
        }
        unreadable::report(before.state.world(), next.state.world());
        self.published.store(Arc::new(next));
        self.wake.send_replace(());
    }

    /// Interns the names of the transaction.
    fn shared(&mut self, mut transaction: Transaction) -> Transaction {
        for write in &mut transaction.0 {
            match write {
                Write::Put { key, owner, .. } => {
                    self.names.share(key);
                    if let Some(owner) = owner {
                        self.names.share_owner(owner);
                    }
                }
                // They keep the key that is there.
                Write::PutStatus { .. }
                | Write::Delete { .. }
                | Write::Require { .. }
                | Write::RequireStatus { .. } => (),
            }
        }
        transaction
    }
}

/// Working state of a batch.
struct Work {
    state: State,
    events: Vec<Event>,
}

impl Work {
    fn decide(&mut self, transaction: Transaction, now: Timestamp) -> Answer {
        let decision = decide(&self.state, transaction, now)?;
        self.state = decision.state;
        self.events.extend(decision.events);
        Ok(Written { revision: self.state.revision(), records: decision.records })
    }
}

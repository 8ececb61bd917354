//! Public interface of the store.

use std::{fmt, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use kodiak_model::ResourceKey;
use kodiak_world::World;
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{
    backup::Backup,
    config::{Backend, PostgresConfig, StoreConfig},
    engine::{self, Engine},
    error::StoreError,
    event::Head,
    health::Health,
    history::Published,
    leader::{CurrentTerm, Leader, Term},
    names::Names,
    presence::Presence,
    record::{Record, Transaction, Written},
    seal::Sealer,
    snapshot::Snapshot,
    supervisor::Supervisor,
    unreadable,
    watch::Watch,
    writer::{Answer, MAX_BATCH, Request, Writer},
};

/// Handle of the store. When the last one is dropped, its tasks end as by [`Store::close`], but without waiting.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
    /// Commits are rejected in any other term.
    fence: Option<Term>,
}

struct Inner {
    published: Arc<ArcSwap<Published>>,
    wake: watch::Receiver<()>,
    queue: mpsc::Sender<Request>,
    leadership: watch::Receiver<bool>,
    term: CurrentTerm,
    sealer: Arc<Sealer>,
    health: watch::Receiver<Health>,
    presence: watch::Receiver<Presence>,
    /// Held so that waiters for a leadership change keep waiting, where there is no election.
    _always_leads: Option<watch::Sender<bool>>,
    closing: DropGuard,
    tasks: TaskTracker,
    failure: watch::Receiver<Option<&'static str>>,
}

impl Store {
    /// Opens the back end and reads all of it. On failure, nothing was changed.
    pub async fn open(config: StoreConfig) -> Result<Self, StoreError> {
        let StoreConfig { backend, seal, log_capacity, tombstone_capacity, observer } = config;
        let sealer = Arc::new(Sealer::new(seal));
        let mut postgres = None;
        let term = CurrentTerm::default();
        let mut engine: Box<dyn Engine> = match backend {
            Backend::Memory => Box::new(engine::Memory),
            Backend::File { path } => Box::new(engine::File::new(path, sealer.clone())),
            Backend::Postgres(config) => {
                let holder = engine::postgres::Holder::new(&config, term.clone());
                let (config, holder) = postgres.insert((config, holder));
                Box::new(engine::Postgres::open(config, holder.name.clone(), sealer.clone()).await?)
            }
        };
        if postgres.is_none() {
            term.set(Some(Term::ONLY));
        }
        let published = match engine.changes(Head::default()).await? {
            Some(changes) => Published::open(log_capacity, &changes),
            None => Published::new(log_capacity),
        };
        unreadable::report(&World::default(), published.state.world());

        let published = Arc::new(ArcSwap::from_pointee(published));
        let (wake, woken) = watch::channel(());
        let (requests, queue) = mpsc::channel(MAX_BATCH);
        let (lead, leadership) = watch::channel(postgres.is_none());
        let (health, reported) = watch::channel(Health::now(None));
        let expiry = postgres.as_ref().map_or(Duration::ZERO, |(config, _): &(PostgresConfig, _)| config.lease_ttl);
        let (presence, heard) = watch::channel(Presence::new(expiry));
        let nudge = Arc::new(Notify::new());
        let closing = CancellationToken::new();
        let writer = Writer {
            engine,
            published: published.clone(),
            wake,
            queue,
            nudge: nudge.clone(),
            closing: closing.clone(),
            tombstone_capacity,
            observer,
            names: Names::default(),
            health,
            reads_others: true,
        };

        let tasks = TaskTracker::new();
        // The lease is held until the last queued write is done, so that the next leader starts after it.
        let drained = CancellationToken::new();
        let done = drained.clone().drop_guard();
        let supervisor = Supervisor::new(closing.clone());
        let failure = supervisor.failure();
        tasks.spawn(supervisor.watch("writer", async move {
            writer.run().await;
            drop(done);
        }));
        let always_leads = match postgres {
            Some((config, holder)) => {
                let listen = engine::postgres::listen(config.clone(), published.clone(), nudge, drained.clone());
                tasks.spawn(supervisor.watch("change feed", listen));
                let lease = engine::postgres::hold_lease(config, holder, lead, presence, drained);
                tasks.spawn(supervisor.watch("lease", lease));
                None
            }
            None => Some(lead),
        };
        tasks.close();
        let inner = Inner {
            published,
            wake: woken,
            queue: requests,
            leadership,
            term,
            sealer,
            health: reported,
            presence: heard,
            _always_leads: always_leads,
            closing: closing.drop_guard(),
            tasks,
            failure,
        };
        Ok(Self { inner: Arc::new(inner), fence: None })
    }

    /// Returns when the transaction is durable and reads of this store see it.
    ///
    /// On `Unavailable` it is unknown whether it happened: read again when the store is back.
    pub async fn commit(&self, transaction: Transaction) -> Result<Written, StoreError> {
        let mut answers = self.request(vec![transaction], None).await;
        answers.pop().unwrap_or_else(|| Err(StoreError::closed()))
    }

    /// Like [`Self::commit`], for writes that come in crowds: they wait a few milliseconds for each other, at most a tenth
    /// of a second, and become durable together. Each transaction is decided by itself: one that is refused does not fail
    /// the others. The answers have the order of the transactions.
    pub async fn commit_gathered(&self, transactions: Vec<Transaction>) -> Vec<Result<Written, StoreError>> {
        self.request(transactions, Some(Instant::now())).await
    }

    async fn request(&self, transactions: Vec<Transaction>, gathers: Option<Instant>) -> Vec<Answer> {
        let count = transactions.len();
        if count == 0 {
            return Vec::new();
        }
        let (answer, answered) = oneshot::channel();
        let asked = self.inner.queue.send(Request { transactions, answer, gathers, fence: self.fence }).await;
        let answers = if asked.is_ok() { answered.await.ok() } else { None };
        answers.unwrap_or_else(|| (0..count).map(|_| Err(StoreError::closed())).collect())
    }

    pub fn get(&self, key: &ResourceKey) -> Option<Record> {
        self.inner.published.load().state.get(key).map(|record| Record::clone(record))
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.inner.published.load().state.clone())
    }

    /// The whole content at one revision. Does not block writes.
    pub fn backup(&self) -> Backup {
        Backup::of_state(&self.inner.published.load().state, self.inner.sealer.clone())
    }

    /// Every change with a revision above `after`; `0` for the whole state.
    pub fn watch(&self, after: u64) -> Result<Watch, StoreError> {
        Watch::new(self.inner.published.clone(), self.inner.wake.clone(), after)
    }

    /// Whether this process is the leader. Always true when it is the only one with access to the data. To wait for; the
    /// leader writes by [`Self::leader`].
    pub fn leadership(&self) -> watch::Receiver<bool> {
        self.inner.leadership.clone()
    }

    /// For work that only the leader does. `None` while another instance leads.
    pub fn leader(&self) -> Option<Leader> {
        let term = self.inner.term.get()?;
        Some(Leader(Self { inner: self.inner.clone(), fence: Some(term) }))
    }

    /// Result of the last durable write. Costs nothing.
    pub fn health(&self) -> Health {
        self.inner.health.borrow().clone()
    }

    /// Other control planes that share this store and are alive. Updated at every read of their numbers.
    pub fn presence(&self) -> watch::Receiver<Presence> {
        self.inner.presence.clone()
    }

    /// Whether a write would be made durable now. Makes a durable write; use [`Self::health`] for frequent checks.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.commit(Transaction::default()).await.map(drop)
    }

    /// Waits until a task of the store panics, and returns its name. The store closes itself then.
    pub async fn failed(&self) -> &'static str {
        let mut failure = self.inner.failure.clone();
        match failure.wait_for(Option::is_some).await.map(|name| *name) {
            Ok(Some(name)) => name,
            // All tasks ended regularly.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Answers queued writes, releases the lease and ends all tasks. Later writes fail; reads continue to work.
    pub async fn close(&self) {
        self.inner.closing.token().cancel();
        self.inner.tasks.wait().await;
    }
}

/// Hides the contents.
impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.snapshot()).finish()
    }
}

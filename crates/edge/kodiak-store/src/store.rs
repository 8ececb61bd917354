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
pub struct Store(Arc<Inner>);

struct Inner {
    published: Arc<ArcSwap<Published>>,
    wake: watch::Receiver<()>,
    queue: mpsc::Sender<Request>,
    leadership: watch::Receiver<bool>,
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
        let mut engine: Box<dyn Engine> = match backend {
            Backend::Memory => Box::new(engine::Memory),
            Backend::File { path } => Box::new(engine::File::new(path, sealer.clone())),
            Backend::Postgres(config) => {
                Box::new(engine::Postgres::open(postgres.insert(config), sealer.clone()).await?)
            }
        };
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
        let expiry = postgres.as_ref().map_or(Duration::ZERO, |config: &PostgresConfig| config.lease_ttl);
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
            Some(config) => {
                let listen = engine::postgres::listen(config.clone(), published.clone(), nudge, drained.clone());
                tasks.spawn(supervisor.watch("change feed", listen));
                tasks.spawn(supervisor.watch("lease", engine::postgres::hold_lease(config, lead, presence, drained)));
                None
            }
            None => Some(lead),
        };
        tasks.close();
        Ok(Self(Arc::new(Inner {
            published,
            wake: woken,
            queue: requests,
            leadership,
            sealer,
            health: reported,
            presence: heard,
            _always_leads: always_leads,
            closing: closing.drop_guard(),
            tasks,
            failure,
        })))
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
        let asked = self.0.queue.send(Request { transactions, answer, gathers }).await;
        let answers = if asked.is_ok() { answered.await.ok() } else { None };
        answers.unwrap_or_else(|| (0..count).map(|_| Err(StoreError::closed())).collect())
    }

    pub fn get(&self, key: &ResourceKey) -> Option<Record> {
        self.0.published.load().state.get(key).map(|record| Record::clone(record))
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.0.published.load().state.clone())
    }

    /// The whole content at one revision. Does not block writes.
    pub fn backup(&self) -> Backup {
        Backup::of_state(&self.0.published.load().state, self.0.sealer.clone())
    }

    /// Every change with a revision above `after`; `0` for the whole state.
    pub fn watch(&self, after: u64) -> Result<Watch, StoreError> {
        Watch::new(self.0.published.clone(), self.0.wake.clone(), after)
    }

    /// Whether this process is the leader. Always true when it is the only one with access to the data.
    pub fn leadership(&self) -> watch::Receiver<bool> {
        self.0.leadership.clone()
    }

    /// Result of the last durable write. Costs nothing.
    pub fn health(&self) -> Health {
        self.0.health.borrow().clone()
    }

    /// Other control planes that share this store and are alive. Updated at every read of their numbers.
    pub fn presence(&self) -> watch::Receiver<Presence> {
        self.0.presence.clone()
    }

    /// Whether a write would be made durable now. Makes a durable write; use [`Self::health`] for frequent checks.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.commit(Transaction::default()).await.map(drop)
    }

    /// Waits until a task of the store panics, and returns its name. The store closes itself then.
    pub async fn failed(&self) -> &'static str {
        let mut failure = self.0.failure.clone();
        match failure.wait_for(Option::is_some).await.map(|name| *name) {
            Ok(Some(name)) => name,
            // All tasks ended regularly.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Answers queued writes, releases the lease and ends all tasks. Later writes fail; reads continue to work.
    pub async fn close(&self) {
        self.0.closing.token().cancel();
        self.0.tasks.wait().await;
    }
}

/// Hides the contents.
impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.snapshot()).finish()
    }
}

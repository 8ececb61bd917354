//! Configuration of a store.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use kodiak_metrics::StoreMetrics;

use crate::seal::Seal;

#[derive(Clone)]
pub struct StoreConfig {
    pub backend: Backend,
    /// Encrypts the specs of some kinds at rest.
    pub seal: Option<Seal>,
    /// Number of changes that are kept in memory for lagging watchers.
    pub log_capacity: usize,
    /// Number of deletions that are kept, also over restarts. A watch can resume from before them.
    pub tombstone_capacity: usize,
    pub observer: Option<Arc<dyn Observer>>,
}

impl StoreConfig {
    pub fn new(backend: Backend) -> Self {
        Self { backend, seal: None, log_capacity: 100_000, tombstone_capacity: 100_000, observer: None }
    }
}

#[derive(Debug, Clone)]
pub enum Backend {
    /// Lost when the process ends.
    Memory,
    /// One file, for one process at a time. Survives `kill -9`.
    File { path: PathBuf },
    /// Shared by several control planes.
    Postgres(PostgresConfig),
}

/// A store opens three connections: one to write, one to listen, one for the lease.
#[derive(Debug, Clone)]
pub struct PostgresConfig {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: Option<Secret>,
    pub database: String,
    pub tls: Tls,
    /// Timeout of database operations, after which a write fails.
    pub timeout: Duration,
    /// How often to poll for changes of other instances, in case a notification was lost.
    pub poll_interval: Duration,
    /// Time after the last renewal at which another instance takes over from the leader.
    pub lease_ttl: Duration,
    /// Name of this process in the lease, for display.
    pub instance_id: String,
}

impl Default for PostgresConfig {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".into(),
            port: 5432,
            user: "kodiak".into(),
            password: None,
            database: "kodiak".into(),
            tls: Tls::Disable,
            timeout: Duration::from_secs(10),
            poll_interval: Duration::from_secs(3),
            lease_ttl: Duration::from_secs(15),
            instance_id: "kodiak".into(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tls {
    Disable,
    /// The server's certificate must be valid for its host name, and signed by this CA or a public one.
    Verify {
        ca: Option<PathBuf>,
    },
}

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// Receives the writer's events, for metrics. Called between commits, so it must be quick.
pub trait Observer: Send + Sync {
    /// One durable write of `changes` answered `requests` callers.
    fn committed(&self, requests: usize, changes: usize, took: Duration);
    /// A durable write failed, and with it all requests in its batch.
    fn failed(&self);
}

impl Observer for StoreMetrics {
    fn committed(&self, requests: usize, changes: usize, took: Duration) {
        self.committed(requests, changes, took);
    }

    fn failed(&self) {
        self.failed();
    }
}

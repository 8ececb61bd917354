//! Stores records: (kind, mesh, name) -> spec, status, labels, versions, times, owner.
//!
//! Input: transactions; output: snapshots, and changes in order. All back ends share one design:
//!
//! ```text
//!  commit --> queue --> writer --decide--> persist (one durable transaction) --> publish --> answer
//!                         ^                     |                                   |
//!                others' changes             engine: memory, file, PostgreSQL       +--> snapshots, watches
//! ```
//!
//! - `state` is the whole content as one immutable value; `decide` is the pure function from it to the next one.
//! - `writer` is the only task that replaces it. It batches waiting requests into one durable write.
//! - `engine` makes changes durable, and reads those of other instances. It decides nothing.
//! - `history` serves watches, from the published value alone.
//!
//! **Invariant:** reads never touch a back end, so they work while it is unavailable.
//! **Invariant:** a write succeeds only after it is durable and visible to reads of this store.
//! **Invariant:** every change has a revision of its own, so a watch can resume after any of them.
//! **Invariant:** a write of a former leader is rejected by the back end (`leader`).
//! **Invariant:** this crate does not interpret specs: it stores their text, and `kodiak-world` decodes it.

mod backup;
mod config;
mod damage;
mod decide;
mod engine;
mod error;
mod event;
mod health;
mod history;
mod id;
mod leader;
mod names;
mod presence;
mod record;
mod row;
mod seal;
mod snapshot;
mod state;
mod store;
mod supervisor;
mod unreadable;
mod watch;
mod write_probe;
mod writer;

pub use backup::{Backup, Totals};
pub use config::{Backend, Observer, PostgresConfig, Secret, StoreConfig, Tls};
pub use damage::Damaged;
pub use engine::file::offline;
pub use error::StoreError;
pub use health::Health;
pub use leader::Leader;
pub use presence::Presence;
pub use record::{ChangeKind, Expect, Record, StoreChange, Transaction, Write, Written};
pub use seal::Seal;
pub use snapshot::Snapshot;
pub use store::Store;
pub use watch::Watch;
pub use write_probe::WriteProbe;

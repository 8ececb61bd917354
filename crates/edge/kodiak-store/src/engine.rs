//! Back ends, which make changes durable.

#[cfg(test)]
pub(crate) mod fake;
pub(crate) mod file;
mod memory;
pub(crate) mod postgres;

use async_trait::async_trait;

pub(crate) use self::{
    file::{EntryDamage, File},
    memory::Memory,
    postgres::Postgres,
};
use crate::{
    error::StoreError,
    event::{Batch, Changes, Head},
    leader::Term,
};

/// A back end: `begin`, then `persist` or `release`, one commit after the other.
///
/// **Invariant:** after a failed call it may be used again. It may or may not have stored the failed batch; the next
/// `begin` or `changes` reports which.
#[async_trait]
pub(crate) trait Engine: Send {
    /// Stored changes beyond `known`; `None` when `known` is the last commit. Complete when `known` is of another
    /// history.
    async fn changes(&mut self, known: Head) -> Result<Option<Changes>, StoreError>;

    /// Like `changes`, and then blocks the writes of other instances.
    async fn begin(&mut self, known: Head) -> Result<Option<Changes>, StoreError>;

    /// Makes the batch durable as a whole, or fails, and unblocks other instances.
    async fn persist(&mut self, batch: Batch) -> Result<(), StoreError>;

    /// Between `begin` and `persist`: whether this instance leads in this term. It does until the batch is durable.
    async fn leads(&mut self, term: Term) -> Result<bool, StoreError>;

    /// Unblocks other instances.
    async fn release(&mut self);

    /// No call follows.
    async fn close(&mut self) {}
}

//! Where changes are made durable.

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
};

/// A back end, as the writer uses it: `begin`, then `persist` or `release`, one commit after the other.
///
/// **Invariant:** after a failed call it may be used again. What it then holds may or may not include the batch that
/// failed, and the next `begin` or `changes` tells.
#[async_trait]
pub(crate) trait Engine: Send {
    /// What is stored beyond `known`; `None` when that is the last commit. Complete when `known` is of another history.
    async fn changes(&mut self, known: Head) -> Result<Option<Changes>, StoreError>;

    /// The same, and from then on nobody else can store anything.
    async fn begin(&mut self, known: Head) -> Result<Option<Changes>, StoreError>;

    /// Makes the batch durable as a whole, or fails, and lets others go on.
    async fn persist(&mut self, batch: Batch) -> Result<(), StoreError>;

    /// Lets others go on.
    async fn release(&mut self);

    /// Nothing will follow.
    async fn close(&mut self) {}
}

//! Back end that stores nothing: the published state is all there is.

use async_trait::async_trait;

use super::Engine;
use crate::{
    error::StoreError,
    event::{Batch, Changes, Head},
    leader::Term,
};

pub(crate) struct Memory;

#[async_trait]
impl Engine for Memory {
    async fn changes(&mut self, _known: Head) -> Result<Option<Changes>, StoreError> {
        Ok(None)
    }

    async fn begin(&mut self, _known: Head) -> Result<Option<Changes>, StoreError> {
        Ok(None)
    }

    async fn persist(&mut self, _batch: Batch) -> Result<(), StoreError> {
        Ok(())
    }

    async fn leads(&mut self, term: Term) -> Result<bool, StoreError> {
        Ok(term == Term::ONLY)
    }

    async fn release(&mut self) {}
}

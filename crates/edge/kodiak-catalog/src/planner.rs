//! Documents that would be written together, each on top of those before it. Nothing is stored.

use kodiak_model::{Cancellation, ResourceKey};
use kodiak_store::{Snapshot, Transaction, Write};
use serde_json::Value;

use crate::{
    Catalog, Put, Refusal, Rights, Stage, Target,
    rules::{self, TooMany},
};

/// The store as it would be. The cost is proportional to the documents: the rules about all policies of a mesh are
/// checked once, in [`finish`](Self::finish).
pub struct Planner<'a> {
    catalog: &'a Catalog,
    rights: Rights,
    after: Snapshot,
    changed: Vec<ResourceKey>,
    writes: Vec<Write>,
    cancellation: &'a Cancellation,
}

/// Effect of the documents on the store.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Store after the writes.
    pub after: Snapshot,
    /// All writes, for one commit on top of the same snapshot.
    pub transaction: Transaction,
}

/// The documents cannot be written together.
#[derive(Debug)]
pub struct Unfit {
    /// The one that causes it, if one does.
    pub key: Option<Box<ResourceKey>>,
    pub refusal: Refusal,
}

impl Catalog {
    /// Plans documents on top of `before`. `rights` are those of their author.
    pub fn planner<'a>(&'a self, before: &Snapshot, rights: Rights, cancellation: &'a Cancellation) -> Planner<'a> {
        let (changed, writes) = (Vec::new(), Vec::new());
        Planner { catalog: self, rights, after: before.clone(), changed, writes, cancellation }
    }
}

impl Planner<'_> {
    /// The store after the documents so far.
    pub fn after(&self) -> &Snapshot {
        &self.after
    }

    pub fn write(&mut self, target: Target<'_>, document: Value) -> Result<Put, Refusal> {
        self.cancellation.check()?;
        let (put, transaction) = self.catalog.plan(&self.after, target, document, self.rights)?;
        if put.changed {
            self.changed.push(target.key());
        }
        self.add(transaction)?;
        Ok(put)
    }

    pub fn delete(&mut self, target: Target<'_>) -> Result<(), Refusal> {
        self.cancellation.check()?;
        let deletion = self.catalog.plan_delete(&self.after, target)?;
        self.add(deletion)
    }

    fn add(&mut self, transaction: Transaction) -> Result<(), Refusal> {
        self.after = self.after.with(transaction.clone())?;
        self.writes.extend(transaction.0);
        Ok(())
    }

    /// Checks what only all documents together show.
    pub fn finish(self) -> Result<Planned, Unfit> {
        let unfit = |key, refusal| Unfit { key, refusal };
        let found = rules::too_many(&self.after, &self.changed, self.cancellation);
        match found.map_err(|cancelled| unfit(None, cancelled.into()))? {
            Some(TooMany { key, problems }) => {
                Err(unfit(Some(Box::new(key)), Refusal::invalid(Stage::Update, problems)))
            }
            None => Ok(Planned { after: self.after, transaction: Transaction(self.writes) }),
        }
    }
}

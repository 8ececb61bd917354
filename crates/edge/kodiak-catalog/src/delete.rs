//! Deleting resources.

use kodiak_store::{Expect, Transaction, Write};

use crate::{Catalog, Refusal, Target, rules};

impl Catalog {
    /// Deletes the resource and all resources that it owns.
    pub async fn delete(&self, target: Target<'_>) -> Result<(), Refusal> {
        self.plan_delete(target)?;
        let write = Write::Delete { key: target.key(), expect: Expect::Any };
        self.store().commit(Transaction::from(write)).await?;
        Ok(())
    }

    /// Whether it would be deleted, for those who want to know before. Nothing is.
    pub fn plan_delete(&self, target: Target<'_>) -> Result<(), Refusal> {
        self.require_mesh(target.kind, target.mesh)?;
        let snapshot = self.store().snapshot();
        if snapshot.get(&target.key()).is_none() {
            return Err(Refusal::NotFound);
        }
        rules::before_delete(self, &snapshot, target)
    }
}

//! Deleting resources.

use kodiak_store::{Expect, Snapshot, Transaction, Write};

use crate::{Catalog, Refusal, Target, rules};

impl Catalog {
    /// Deletes the resource and all resources that it owns.
    pub async fn delete(&self, target: Target<'_>) -> Result<(), Refusal> {
        self.require_mesh(target.kind, target.mesh)?;
        self.plan_delete(&self.store().snapshot(), target)?;
        let write = Write::Delete { key: target.key(), expect: Expect::Any };
        self.store().commit(Transaction::from(write)).await?;
        Ok(())
    }

    /// Whether the resource may be deleted from `snapshot`. Nothing is.
    pub fn plan_delete(&self, snapshot: &Snapshot, target: Target<'_>) -> Result<(), Refusal> {
        if snapshot.get(&target.key()).is_none() {
            return Err(Refusal::NotFound);
        }
        rules::before_delete(self, snapshot, target)
    }
}

//! Deleting resources.

use kodiak_store::{Expect, Transaction, Write};

use crate::{Catalog, Refusal, Target, rules};

impl Catalog {
    /// Deletes the resource and all that it owns.
    pub async fn delete(&self, target: Target<'_>) -> Result<(), Refusal> {
        self.require_mesh(target.kind, target.mesh)?;
        let snapshot = self.store().snapshot();
        let Some(record) = snapshot.get(&target.key()) else { return Err(Refusal::NotFound) };
        rules::before_delete(self, &snapshot, target)?;
        let write = Write::Delete { key: record.key.clone(), expect: Expect::Any };
        self.store().commit(Transaction::from(write)).await?;
        Ok(())
    }
}

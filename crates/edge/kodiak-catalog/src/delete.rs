//! Deleting resources.

use kodiak_store::{Snapshot, Transaction, Write};

use crate::{Catalog, Refusal, Target, put::TRIES, require_mesh, rules};

impl Catalog {
    /// Deletes the resource and all resources that it owns. When another write comes in between, everything is decided
    /// again on what that one left.
    pub async fn delete(&self, target: Target<'_>) -> Result<(), Refusal> {
        let mut tries = 1..TRIES;
        loop {
            let transaction = self.plan_delete(&self.store().snapshot(), target)?;
            match self.commit(transaction, false).await {
                Err(Refusal::Conflict(_) | Refusal::NotFound) if tries.next().is_some() => (),
                other => return other,
            }
        }
    }

    /// The deletion, decided on `snapshot`. Nothing is stored.
    pub fn plan_delete(&self, snapshot: &Snapshot, target: Target<'_>) -> Result<Transaction, Refusal> {
        require_mesh(snapshot, target.kind, target.mesh)?;
        let key = target.key();
        if snapshot.get(&key).is_none() {
            return Err(Refusal::NotFound);
        }
        let mut writes = rules::before_delete(self, snapshot, target)?;
        writes.push(Write::Delete { expect: snapshot.expect(&key), key });
        Ok(Transaction(writes))
    }
}

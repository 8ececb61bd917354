//! Many writes in few transactions.

use kodiak_store::{Store, StoreError, Transaction, Write};

/// Largest transaction, so that no other writer waits long.
const MOST_WRITES: usize = 200;

/// Commits all writes, and returns the outcome of each. A write that fails does not fail others.
pub(crate) async fn commit(store: &Store, writes: &[Write]) -> Vec<Result<(), StoreError>> {
    let mut outcomes = Vec::with_capacity(writes.len());
    for batch in writes.chunks(MOST_WRITES) {
        match store.commit(Transaction(batch.to_vec())).await {
            Ok(_) => outcomes.extend(batch.iter().map(|_| Ok(()))),
            Err(error @ StoreError::Unavailable { .. }) => outcomes.extend(batch.iter().map(|_| Err(error.clone()))),
            Err(_) => {
                for write in batch {
                    outcomes.push(store.commit(write.clone().into()).await.map(drop));
                }
            }
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use kodiak_model::ResourceKey;
    use kodiak_store::{Backend, Expect, StoreConfig};

    use super::*;

    fn put(name: &str, expect: Expect) -> Write {
        let key = ResourceKey::global("Zone", name);
        Write::Put { key, spec: "{}".into(), labels: [].into(), owner: None, expect }
    }

    #[tokio::test]
    async fn failed_write_does_not_fail_others() {
        let store = Store::open(StoreConfig::new(Backend::Memory)).await.unwrap();
        let is_refused = |number: usize| number == 7 || number == 450;
        let expect = |number| if is_refused(number) { Expect::Version(9) } else { Expect::Absent };
        let writes: Vec<_> = (0..500).map(|number| put(&format!("zone-{number:03}"), expect(number))).collect();
        let outcomes = commit(&store, &writes).await;
        assert_eq!(outcomes.len(), 500);
        for (number, outcome) in outcomes.iter().enumerate() {
            assert_eq!(matches!(outcome, Err(StoreError::Conflict(_))), is_refused(number), "{number}: {outcome:?}");
        }
        assert_eq!(store.snapshot().len(), 498);
    }

    #[tokio::test]
    async fn unavailable_store_fails_all_writes() {
        let store = Store::open(StoreConfig::new(Backend::Memory)).await.unwrap();
        store.close().await;
        let writes = [put("a", Expect::Any), put("b", Expect::Any)];
        let outcomes = commit(&store, &writes).await;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(StoreError::Unavailable { .. }))), "{outcomes:?}");
    }
}

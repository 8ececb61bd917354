//! Many writes in few commits.

use kodiak_store::{Store, StoreError, Transaction};

/// Most writes of one durable commit, so that no other writer waits long.
const MOST_WRITES: usize = 1000;

/// Commits all writes or transactions, together with those of proxies that arrive, and returns the outcome of each. One that
/// is refused does not fail others.
pub(crate) async fn commit(store: &Store, writes: Vec<impl Into<Transaction>>) -> Vec<Result<(), StoreError>> {
    let mut outcomes = Vec::with_capacity(writes.len());
    let mut writes = writes.into_iter().peekable();
    while writes.peek().is_some() {
        let batch = writes.by_ref().take(MOST_WRITES).map(Into::into).collect();
        let answers = store.commit_gathered(batch).await;
        outcomes.extend(answers.into_iter().map(|answer| answer.map(drop)));
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use kodiak_model::ResourceKey;
    use kodiak_store::{Backend, Expect, Observer, StoreConfig, Write};

    use super::*;

    #[derive(Default)]
    struct Commits(AtomicUsize);

    impl Observer for Commits {
        fn committed(&self, _requests: usize, _changes: usize, _took: Duration) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }

        fn failed(&self) {}
    }

    fn put(name: &str, expect: Expect) -> Write {
        let key = ResourceKey::global("Zone", name);
        Write::Put { key, spec: "{}".into(), labels: [].into(), owner: None, expect }
    }

    #[tokio::test]
    async fn refused_write_fails_alone_and_costs_no_commit() {
        let commits = Arc::new(Commits::default());
        let mut config = StoreConfig::new(Backend::Memory);
        config.observer = Some(commits.clone());
        let store = Store::open(config).await.unwrap();
        let is_refused = |number: usize| number == 7 || number == 450;
        let expect = |number| if is_refused(number) { Expect::Version(9) } else { Expect::Absent };
        let writes: Vec<_> = (0..1500).map(|number| put(&format!("zone-{number:04}"), expect(number))).collect();
        let outcomes = commit(&store, writes).await;
        assert_eq!(outcomes.len(), 1500);
        for (number, outcome) in outcomes.iter().enumerate() {
            assert_eq!(matches!(outcome, Err(StoreError::Conflict(_))), is_refused(number), "{number}: {outcome:?}");
        }
        assert_eq!(store.snapshot().len(), 1498);
        assert_eq!(commits.0.load(Ordering::SeqCst), 2, "one for each 1000 writes");
    }

    #[tokio::test]
    async fn unavailable_store_fails_all_writes() {
        let store = Store::open(StoreConfig::new(Backend::Memory)).await.unwrap();
        store.close().await;
        let writes = vec![put("a", Expect::Any), put("b", Expect::Any)];
        let outcomes = commit(&store, writes).await;
        assert_eq!(outcomes.len(), 2);
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(StoreError::Unavailable { .. }))), "{outcomes:?}");
    }
}

//! When a back end fails, no request succeeds, and nothing is visible that is not stored.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use kodiak_model::ResourceKey;

use super::*;
use crate::{
    engine::fake::{Fake, Outcome},
    event::Head,
    record::Expect,
};

#[derive(Default)]
struct Failures(Mutex<usize>);

impl Observer for Failures {
    fn committed(&self, _requests: usize, _changes: usize, _took: Duration) {}

    fn failed(&self) {
        *self.0.lock().unwrap() += 1;
    }
}

/// A writer that tests call directly.
fn writer(engine: &Fake, observer: &Arc<Failures>) -> Writer {
    Writer {
        engine: Box::new(engine.clone()),
        published: Arc::new(ArcSwap::from_pointee(Published::new(100))),
        wake: watch::channel(()).0,
        queue: mpsc::channel(1).1,
        nudge: Arc::default(),
        closing: CancellationToken::new(),
        tombstone_capacity: 100,
        observer: Some(observer.clone()),
        names: Names::default(),
        health: watch::channel(Health::now(None)).0,
        reads_others: true,
    }
}

fn create(name: &str) -> Transaction {
    let key = ResourceKey::global("Mesh", name);
    Write::Put { key, spec: "{}".into(), labels: BTreeMap::new(), owner: None, expect: Expect::Absent }.into()
}

/// Answers to the requests of one batch.
async fn commit(writer: &mut Writer, transactions: Vec<Transaction>) -> Vec<Answer> {
    let (requests, answers): (Vec<_>, Vec<_>) = transactions
        .into_iter()
        .map(|transaction| {
            let (answer, answered) = oneshot::channel();
            (Request { transactions: vec![transaction], answer, gathers: None, fence: None }, answered)
        })
        .unzip();
    writer.commit(requests).await;
    answers.into_iter().flat_map(|mut answered| answered.try_recv().unwrap()).collect()
}

fn seen(writer: &Writer) -> (u64, usize) {
    let published = writer.published.load();
    (published.state.revision(), published.state.len())
}

#[tokio::test]
async fn failed_writes_are_not_visible() {
    for outcome in [Outcome::CannotBegin, Outcome::Lost] {
        let (engine, failures) = (Fake::default(), Arc::default());
        let mut writer = writer(&engine, &failures);
        engine.failures.lock().unwrap().push_back(outcome);
        // The second one conflicts with the first, which fails: a conflict would be a wrong answer too.
        let answers = commit(&mut writer, vec![create("a"), create("a"), create("b")]).await;
        assert!(answers.iter().all(|answer| matches!(answer, Err(StoreError::Unavailable { .. }))), "{answers:?}");
        assert_eq!((seen(&writer), *failures.0.lock().unwrap()), ((0, 0), 1));

        let answers = commit(&mut writer, vec![create("a"), create("a"), create("b")]).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 2);
        assert_eq!(seen(&writer), (2, 2));
    }
}

#[tokio::test]
async fn writes_of_an_earlier_term_fail_alone() {
    let (engine, failures) = (Fake::default(), Arc::default());
    let mut writer = writer(&engine, &failures);
    engine.term.set(Some(Term(7)));
    let fences = [None, Some(Term(6)), Some(Term(7)), Some(Term(8))];
    let (requests, answers): (Vec<_>, Vec<_>) = (["a", "b", "c", "d"].into_iter().zip(fences))
        .map(|(name, fence)| {
            let (answer, answered) = oneshot::channel();
            (Request { transactions: vec![create(name)], answer, gathers: None, fence }, answered)
        })
        .unzip();
    writer.commit(requests).await;
    let answers: Vec<Answer> = answers.into_iter().flat_map(|mut answered| answered.try_recv().unwrap()).collect();
    let deposed: Vec<bool> = answers.iter().map(|answer| matches!(answer, Err(StoreError::Deposed))).collect();
    assert_eq!((deposed, seen(&writer)), (vec![false, true, false, true], (2, 2)));
}

#[tokio::test]
async fn writes_with_a_lost_answer_are_found() {
    let (engine, failures) = (Fake::default(), Arc::default());
    let mut writer = writer(&engine, &failures);
    let mut watch = crate::Watch::new(writer.published.clone(), writer.wake.subscribe(), 0).unwrap();
    engine.failures.lock().unwrap().push_back(Outcome::StoredWithoutAnswer);
    assert!(commit(&mut writer, vec![create("a")]).await[0].is_err());
    assert_eq!(seen(&writer), (0, 0));

    let answers = commit(&mut writer, vec![create("a"), create("b")]).await;
    assert!(matches!(answers[0], Err(StoreError::Conflict(_))), "it exists after all");
    assert_eq!((answers[1].as_ref().unwrap().revision, seen(&writer)), (2, (2, 2)));
    let revisions: Vec<_> = std::iter::from_fn(|| watch.try_next().unwrap()).map(|change| change.revision).collect();
    assert_eq!(revisions, [1, 2]);
}

#[tokio::test]
async fn requests_of_a_batch_see_each_other() {
    let (engine, failures) = (Fake::default(), Arc::default());
    let mut writer = writer(&engine, &failures);
    let answers = commit(&mut writer, vec![create("a"), create("a"), Transaction::default(), create("b")]).await;
    let revisions: Vec<_> = answers.iter().map(|answer| answer.as_ref().ok().map(|written| written.revision)).collect();
    assert_eq!(revisions, [Some(1), None, Some(1), Some(2)]);
    assert_eq!(engine.rows.lock().unwrap().changes(Head::default()).events.len(), 2);
}

//! Writes that come in crowds share commits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kodiak_store::{Expect, Observer, Store, StoreError};
use tokio::{task::JoinSet, time::sleep};

use crate::bed::*;

#[derive(Default)]
struct Commits(AtomicUsize);

impl Observer for Commits {
    fn committed(&self, _requests: usize, _changes: usize, _took: Duration) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn failed(&self) {}
}

async fn open(bed: &Bed) -> (Store, Arc<Commits>) {
    let commits = Arc::new(Commits::default());
    let observer = commits.clone();
    (bed.open_with(|config| config.observer = Some(observer)).await, commits)
}

pub(crate) async fn refused_transaction_of_a_batch_fails_alone(bed: Bed) {
    let (store, commits) = open(&bed).await;
    let batch = vec![
        put_if("a", "{}", Expect::Absent).into(),
        put_if("a", r#"{"n":2}"#, Expect::Absent).into(),
        put_owned("b", "missing").into(),
        delete("missing").into(),
        put("c", "{}").into(),
    ];
    let answers = store.commit_gathered(batch).await;
    assert!(answers[0].is_ok() && answers[4].is_ok(), "{answers:?}");
    assert!(matches!(answers[1], Err(StoreError::Conflict(_))), "{answers:?}");
    assert!(matches!(answers[2], Err(StoreError::OwnerMissing { .. })), "{answers:?}");
    assert!(matches!(answers[3], Err(StoreError::NotFound(_))), "{answers:?}");
    assert_eq!(commits.0.load(Ordering::SeqCst), 1);
    let names: Vec<_> = bed.open_again(store).await.into_keys().map(|key| key.name.to_string()).collect();
    assert_eq!(names, ["a", "c"]);
}

pub(crate) async fn batch_has_the_order_of_its_transactions(bed: Bed) {
    let (store, _) = open(&bed).await;
    let mut watch = store.watch(0).unwrap();
    let batch = vec![put("a", r#"{"n":1}"#).into(), delete("a").into(), put("a", r#"{"n":2}"#).into()];
    assert!(store.commit_gathered(batch).await.iter().all(Result::is_ok));
    assert_eq!(names(&read_all(&mut watch)), ["a", "-a", "a"]);
    let records = bed.open_again(store).await;
    assert_eq!((&*records[&key("a")].spec, records[&key("a")].version), (r#"{"n":2}"#, 3));
}

#[tokio::test(start_paused = true)]
async fn crowd_shares_commits() {
    let (store, commits) = open(&Bed::memory()).await;
    let mut crowd = JoinSet::new();
    for n in 0..200 {
        let store = store.clone();
        crowd.spawn(async move {
            sleep(Duration::from_millis(n)).await;
            store.commit_gathered(vec![put(&format!("a-{n}"), "{}").into()]).await.pop().unwrap().unwrap();
        });
    }
    crowd.join_all().await;
    assert_eq!(store.snapshot().len(), 200);
    let commits = commits.0.load(Ordering::SeqCst);
    assert!(commits <= 3, "{commits} commits of 200 writes within 200 ms");
}

#[tokio::test(start_paused = true)]
async fn write_that_does_not_wait_takes_the_crowd_along() {
    let (store, commits) = open(&Bed::memory()).await;
    let gathered = {
        let store = store.clone();
        tokio::spawn(async move { store.commit_gathered(vec![put("a", "{}").into()]).await })
    };
    sleep(Duration::from_millis(1)).await;
    assert!(!gathered.is_finished());
    write(&store, put("b", "{}")).await;
    assert_eq!((store.snapshot().len(), commits.0.load(Ordering::SeqCst)), (2, 1));
    assert!(gathered.await.unwrap()[0].is_ok());
}

#[tokio::test(start_paused = true)]
async fn crowd_is_answered_when_the_store_closes() {
    let (store, _) = open(&Bed::memory()).await;
    let gathered = {
        let store = store.clone();
        tokio::spawn(async move { store.commit_gathered(vec![put("a", "{}").into()]).await })
    };
    sleep(Duration::from_millis(1)).await;
    store.close().await;
    assert!(gathered.await.unwrap()[0].is_ok());
    assert!(matches!(store.commit_gathered(vec![put("b", "{}").into()]).await[0], Err(StoreError::Unavailable { .. })));
}

/// Two control planes, to both of which the same proxies connect.
#[tokio::test(flavor = "multi_thread")]
async fn crowds_of_two_stores_do_not_overwrite_each_other() {
    let Some(bed) = Bed::postgres() else { return };
    let stores = [bed.open().await, bed.open().await];
    let mut crowd = JoinSet::new();
    for n in 0..100 {
        for store in stores.clone() {
            crowd.spawn(async move {
                store.commit_gathered(vec![put_if(&format!("a-{n}"), "{}", Expect::Absent).into()]).await.pop().unwrap()
            });
        }
    }
    let answers = crowd.join_all().await;
    let conflicts = answers.iter().filter(|answer| matches!(answer, Err(StoreError::Conflict(_)))).count();
    assert_eq!((answers.iter().filter(|answer| answer.is_ok()).count(), conflicts), (100, 100));
    eventually("that both stores have all", || stores.iter().all(|store| store.snapshot().len() == 100)).await;
    assert!(all(&stores[0]).values().all(|record| record.version == record.revision), "each was written once");
    assert_eq!(all(&stores[0]), all(&stores[1]));
}

//! Leader election and takeover.

use std::{thread, time::Duration};

use kodiak_store::Store;
use tokio::{runtime::Runtime, sync::watch::Receiver, time::timeout};

use super::{NEVER, bed};
use crate::bed::*;

fn lease_bed(ttl: Duration) -> Option<Bed> {
    let mut bed = bed(NEVER)?;
    bed.postgres_config().lease_ttl = ttl;
    Some(bed)
}

async fn until(leadership: &mut Receiver<bool>, leads: bool) {
    let reached = leadership.wait_for(|now| *now == leads);
    timeout(Duration::from_secs(20), reached).await.expect("leadership changes").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_moves_when_the_leader_closes() {
    // Long: waiting for its expiry would be too late.
    let Some(bed) = lease_bed(Duration::from_secs(6)) else { return };
    let first = bed.open().await;
    let mut first_leads = first.leadership();
    until(&mut first_leads, true).await;
    let second = bed.open().await;
    let mut second_leads = second.leadership();
    assert!(timeout(Duration::from_millis(300), second_leads.wait_for(|leads| *leads)).await.is_err());

    first.close().await;
    assert!(!*first_leads.borrow());
    timeout(Duration::from_secs(4), second_leads.wait_for(|leads| *leads)).await.expect("not only at the end").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_moves_when_the_leader_is_killed() {
    let Some(bed) = lease_bed(Duration::from_millis(900)) else { return };
    let (runtime, first) = open_apart(&bed);
    until(&mut first.leadership(), true).await;
    let second = bed.open().await;
    let mut second_leads = second.leadership();
    // Only one leads through several renewals.
    let early = async {
        until(&mut second_leads, true).await;
    };
    assert!(timeout(Duration::from_secs(2), early).await.is_err());

    runtime.shutdown_background(); // its tasks just stop, as if killed
    until(&mut second_leads, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnected_leader_steps_down_first() {
    let Some(mut bed) = lease_bed(Duration::from_secs(1)) else { return };
    let first = bed.open().await;
    let mut first_leads = first.leadership();
    until(&mut first_leads, true).await;
    // The locked row blocks renewals, so the lease expires.
    let mut hog = super::connect(bed.postgres_config()).await;
    sqlx::raw_sql("BEGIN; SELECT * FROM kodiak_lease FOR UPDATE").execute(&mut hog).await.unwrap();
    timeout(Duration::from_millis(1500), first_leads.wait_for(|leads| !*leads)).await.expect("in time").unwrap();
    sqlx::raw_sql("ROLLBACK").execute(&mut hog).await.unwrap();
    until(&mut first_leads, true).await;
}

/// As when the database's clock jumps ahead by an hour: the lease has expired, whatever its holder assumes.
#[tokio::test(flavor = "multi_thread")]
async fn database_clock_that_jumps_ahead_moves_the_lease_and_leaves_one_leader() {
    let Some(mut bed) = lease_bed(Duration::from_secs(1)) else { return };
    let (one, two) = (bed.open().await, bed.open().await);
    let leaders = || [&one, &two].map(|store| *store.leadership().borrow());
    eventually("that one leads", || leaders().contains(&true)).await;
    for _ in 0..3 {
        super::execute(bed.postgres_config(), "UPDATE kodiak_lease SET expires = expires - interval '1 hour'").await;
        eventually("that one leads", || leaders().iter().filter(|leads| **leads).count() == 1).await;
    }
}

/// As when the database's clock jumps back by an hour after the leader was killed.
#[tokio::test(flavor = "multi_thread")]
async fn lease_of_a_dead_leader_is_taken_over_when_the_database_clock_jumps_back() {
    let Some(mut bed) = lease_bed(Duration::from_secs(1)) else { return };
    bed.open().await.close().await;
    let ghost = "INSERT INTO kodiak_lease VALUES ('leader', 'ghost', clock_timestamp() + interval '1 hour')";
    super::execute(bed.postgres_config(), ghost).await;
    let store = bed.open().await;
    until(&mut store.leadership(), true).await;
}

/// Two control planes with different names, and a third that is killed.
#[tokio::test(flavor = "multi_thread")]
async fn instances_see_each_other_and_notice_a_lost_one() {
    let Some(mut bed) = lease_bed(Duration::from_secs(2)) else { return };
    let mut named = |name: &str| {
        name.clone_into(&mut bed.postgres_config().instance_id);
        bed.config()
    };
    let (one, two, three) = (named("cp-one"), named("cp-two"), named("cp-three"));
    let (one, two) = (Store::open(one).await.unwrap(), Store::open(two).await.unwrap());
    let opened = thread::spawn(move || {
        let runtime = Runtime::new().unwrap();
        let store = runtime.block_on(Store::open(three)).unwrap();
        (runtime, store)
    });
    let (runtime, three) = opened.join().unwrap();
    let lives = |store: &Store, instance: &str| store.presence().borrow().lost(instance).is_none();
    for store in [&one, &two, &three] {
        let all = ["cp-one", "cp-two", "cp-three"];
        eventually("that all are heard", || all.iter().all(|instance| lives(store, instance))).await;
    }
    assert!(!lives(&one, "of an earlier start"));

    runtime.shutdown_background(); // its tasks just stop, as if killed
    for store in [&one, &two] {
        eventually("that the third is lost", || !lives(store, "cp-three")).await;
    }
    assert!(lives(&one, "cp-two") && lives(&two, "cp-one"), "the others live");
    two.close().await;
    eventually("that the second is lost", || !lives(&one, "cp-two")).await;
}

/// A store whose tasks run on a separate runtime.
fn open_apart(bed: &Bed) -> (Runtime, Store) {
    let config = bed.config();
    let open = move || {
        let runtime = Runtime::new().unwrap();
        let store = runtime.block_on(Store::open(config)).unwrap();
        (runtime, store)
    };
    thread::spawn(open).join().unwrap()
}

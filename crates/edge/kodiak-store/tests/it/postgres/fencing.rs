//! A leader that is suspended, and resumes after another one has taken over.
//!
//! The suspended process is this program again (`victim`).

use std::time::Duration;

use kodiak_store::{Backend, Expect, Leader, PostgresConfig, Store, StoreConfig, StoreError};
use kodiak_testkit::postgres;

use super::{NEVER, bed};
use crate::{
    bed::*,
    victim::{self, Victim},
};

const TTL: Duration = Duration::from_secs(1);
const TEST: &str = "postgres::fencing::suspended_leader_writes_nothing_after_its_successor_took_over";

/// Says `leads`, waits, and then writes what it decided as the leader.
async fn be_the_victim(place: &str) {
    let (port, database) = place.split_once(' ').unwrap();
    let config = PostgresConfig {
        host: postgres::HOST.into(),
        port: port.parse().unwrap(),
        user: postgres::USER.into(),
        database: database.into(),
        lease_ttl: TTL,
        poll_interval: NEVER,
        ..PostgresConfig::default()
    };
    let store = Store::open(StoreConfig::new(Backend::Postgres(config))).await.unwrap();
    let mut leadership = store.leadership();
    leadership.wait_for(|leads| *leads).await.unwrap();
    let leader = store.leader().unwrap();
    let read = write(&leader, put("decided", "{}")).await.records[0].clone().unwrap();
    victim::say("leads");
    victim::wait().await;
    // Whatever it expects of the record, and also when it still takes itself for the leader.
    let leaders = [Some(leader.clone()), store.leader(), Some(leader.clone())];
    for (leader, expect) in leaders.into_iter().zip([Expect::Any, Expect::Any, Expect::Version(read.version)]) {
        let Some(leader) = leader else { continue };
        match leader.commit(put_if("decided", r#"{"by":"the former"}"#, expect).into()).await {
            Err(StoreError::Deposed) => (),
            other => victim::say(&format!("{other:?}")),
        }
    }
    let batch = leader.commit_gathered(vec![put("another", "{}").into(), delete("decided").into()]).await;
    assert!(batch.iter().all(|answer| matches!(answer, Err(StoreError::Deposed))), "{batch:?}");
    victim::say("deposed");
    // What does not need the leader goes on.
    write(&store, put("of a user", "{}")).await;
    leadership.wait_for(|leads| !*leads).await.unwrap();
    assert!(store.leader().is_none());
    victim::say("follows");
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_leader_writes_nothing_after_its_successor_took_over() {
    if let Some(place) = victim::place() {
        return be_the_victim(&place).await;
    }
    let Some(mut bed) = bed(NEVER) else { return };
    bed.postgres_config().lease_ttl = TTL;
    let config = bed.postgres_config();
    let mut victim = Victim::start(TEST, &format!("{} {}", config.port, config.database));
    assert_eq!(victim.says(), "leads");
    victim.signal("-STOP");
    let next = bed.open().await;
    let leads = tokio::time::timeout(Duration::from_secs(20), async {
        next.leadership().wait_for(|leads| *leads).await.map(drop)
    });
    leads.await.expect("another one takes over").unwrap();
    let leader = next.leader().unwrap();
    write(&leader, put("decided", r#"{"by":"the next"}"#)).await;

    victim.go();
    victim.signal("-CONT");
    assert_eq!(victim.says(), "deposed");
    assert_eq!(victim.says(), "follows");
    write(&leader, put("last", "{}")).await;
    assert_eq!(&*spec(&next, "decided"), r#"{"by":"the next"}"#);
    assert_eq!(next.get(&key("another")), None);
    assert!(next.get(&key("of a user")).is_some() && *next.leadership().borrow());
}

/// Also of the same process: what it decided before somebody else led is old.
#[tokio::test(flavor = "multi_thread")]
async fn former_leader_is_rejected_before_it_notices_and_for_ever() {
    let Some(mut bed) = bed(NEVER) else { return };
    bed.postgres_config().lease_ttl = TTL;
    let store = bed.open().await;
    let mut former: Vec<Leader> = Vec::new();
    for round in 0..3 {
        let this_round = format!(r#"{{"round":{round}}}"#);
        let leader = loop {
            let leader = store.leader();
            match leader {
                // It has not noticed yet.
                Some(leader) if leader.commit(put("a", &this_round).into()).await.is_ok() => break leader,
                Some(_) | None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        for former in &former {
            assert!(matches!(refuse(former, put("a", "{}")).await, StoreError::Deposed), "{round}");
        }
        let ghost = "UPDATE kodiak_lease SET holder = 'ghost', expires = clock_timestamp(), term = DEFAULT";
        super::execute(bed.postgres_config(), ghost).await;
        assert!(matches!(refuse(&leader, put("a", "{}")).await, StoreError::Deposed), "{round}");
        assert_eq!(&*spec(&store, "a"), this_round);
        former.push(leader);
    }
}

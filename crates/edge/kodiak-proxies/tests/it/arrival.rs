//! Proxies that arrive and leave in crowds: they share commits, and nothing of one affects another.

use std::time::Duration;

use kodiak_ads::{Closing, Proxies as _, Session};
use kodiak_tokens::DataplaneClaims;
use kodiak_xds_stream::Counters;
use serde_json::json;
use tokio::{task::JoinSet, time::sleep};

use crate::bed::{Bed, dataplane, hello, key, report, snapshot};

const CROWD: usize = 200;
const AFTER: Duration = Duration::from_secs(12);

/// Connects proxies, one each millisecond. Each is in the store when it is answered.
async fn arrive(bed: &Bed) -> Vec<Session> {
    let mut arriving = JoinSet::new();
    for n in 0..CROWD {
        let (registry, catalog, hello) = (bed.registry.clone(), bed.catalog.clone(), bed.hello(&format!("web-{n}")));
        arriving.spawn(async move {
            sleep(Duration::from_millis(n as u64)).await;
            let session = registry.connect(hello).await.map_err(|closing| closing.message).unwrap();
            assert!(catalog.store().get(&key(&format!("web-{n}")).dataplane()).is_some());
            (n, session)
        });
    }
    let mut sessions = arriving.join_all().await;
    sessions.sort_by_key(|(n, _)| *n);
    sessions.into_iter().map(|(_, session)| session).collect()
}

#[tokio::test(start_paused = true)]
async fn crowd_arrives_and_leaves_in_a_few_commits() {
    let bed = Bed::start().await;
    let before = bed.commits();
    let mut sessions = arrive(&bed).await;
    bed.settle().await;
    assert!((0..CROWD).all(|n| bed.insight(&format!("web-{n}")).is_some_and(|insight| insight.is_online())));
    let commits = bed.commits() - before;
    assert!(commits <= 8, "{commits} commits for Dataplanes and insights of {CROWD} proxies");

    let before = bed.commits();
    for (n, session) in sessions.iter_mut().enumerate() {
        bed.registry.publish(&key(&format!("web-{n}")), snapshot(1), "".into(), Vec::new());
        let counters = Counters { sent: 1, acknowledged: 1, ..Counters::default() };
        report(session, &counters, Some(1));
    }
    bed.settle().await;
    assert!((0..CROWD).all(|n| bed.dataplane(&format!("web-{n}")).unwrap().inbounds()[0].is_ready()));
    let commits = bed.commits() - before;
    assert!(commits <= 2, "{commits} commits for readiness and insights of {CROWD} proxies");

    let before = bed.commits();
    drop(sessions);
    bed.pass(AFTER).await;
    assert!((0..CROWD).all(|n| bed.dataplane(&format!("web-{n}")).is_none()));
    let commits = bed.commits() - before;
    assert!(commits <= 4, "{commits} commits for {CROWD} proxies that left");
}

#[tokio::test(start_paused = true)]
async fn single_arrival_does_not_wait_for_others() {
    let bed = Bed::start().await;
    // The clock moves only when everybody waits, so the order of timers is exact.
    let arrived = tokio::select! {
        session = bed.connect("web-1") => Some(session),
        () = sleep(Duration::from_millis(10)) => None,
    };
    assert!(arrived.is_some());
}

#[tokio::test(start_paused = true)]
async fn refused_proxies_do_not_fail_others() {
    let bed = Bed::start().await;
    let token = |claims| Some(bed.token(&claims));
    let invalid =
        json!({ "dataplane.resource": json!({ "type": "Dataplane", "mesh": "default", "name": "bad" }).to_string() });
    let invalid = hello("default.bad", &invalid, token(DataplaneClaims::default()));
    let of_another = json!({ "dataplane.resource": dataplane("taken").to_string() });
    let claims = DataplaneClaims { name: "another".to_owned(), ..DataplaneClaims::default() };
    let denied = hello("default.taken", &of_another, token(claims));
    let refused = |hello| async { bed.refused(hello).await.code };
    let user = async {
        // While the arrivals gather: this write does not wait and takes them along. It conflicts with one of them, and is
        // repeated.
        sleep(Duration::from_millis(2)).await;
        bed.put(dataplane("web-3")).await;
    };
    let before = bed.commits();
    let (a, b, c, invalid, denied, ()) = tokio::join!(
        bed.connect("web-1"),
        bed.connect("web-2"),
        bed.connect("web-3"),
        refused(invalid),
        refused(denied),
        user,
    );
    assert_eq!((invalid, denied), (Closing::INVALID_ARGUMENT, Closing::UNAUTHENTICATED));
    assert_eq!(bed.commits() - before, 2);
    assert!(["web-1", "web-2", "web-3"].iter().all(|name| bed.dataplane(name).is_some()));
    assert!(["bad", "taken"].iter().all(|name| bed.dataplane(name).is_none()));
    drop((a, b, c));
}

#[tokio::test(start_paused = true)]
async fn conflict_in_a_batch_is_decided_again() {
    let bed = Bed::start().await;
    let elsewhere = bed.another("cp-2");
    // Both find no Dataplane; the second of the batch conflicts, and is checked against the first.
    let (here, there, other) = tokio::join!(
        bed.registry.connect(bed.hello("web-1")),
        elsewhere.connect(bed.hello("web-1")),
        elsewhere.connect(bed.hello("web-2")),
    );
    assert!(here.is_ok() && there.is_ok() && other.is_ok());
    assert!(bed.dataplane("web-1").is_some() && bed.dataplane("web-2").is_some());
}

#[tokio::test(start_paused = true)]
async fn proxy_that_arrives_leaves_and_arrives_in_one_batch_is_connected() {
    let bed = Bed::start().await;
    let connect = || {
        let (registry, hello) = (bed.registry.clone(), bed.hello("web-1"));
        tokio::spawn(async move { registry.connect(hello).await.ok().unwrap() })
    };
    let first = connect();
    sleep(Duration::from_millis(2)).await;
    // The write of the first is queued; its stream ends before it is answered.
    first.abort();
    assert!(first.await.is_err_and(|error| error.is_cancelled()));
    let session = connect().await.unwrap();
    bed.pass(AFTER * 2).await;
    assert!(bed.dataplane("web-1").is_some());
    assert_eq!(bed.events(), ["+web-1"]);
    assert!(bed.insight("web-1").unwrap().is_online());
    drop(session);
    bed.pass(AFTER).await;
    assert_eq!(bed.dataplane("web-1"), None);
    assert_eq!(bed.events(), ["-web-1"]);
}

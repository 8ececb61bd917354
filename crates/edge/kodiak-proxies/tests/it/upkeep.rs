//! What the leader does: connections that nobody holds, and proxies long gone.

use std::time::Duration;

use crate::bed::{Bed, dataplane};

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_sign_of_life_is_closed() {
    let bed = Bed::start().await;
    let session = bed.connect("web-1").await;
    bed.settle().await;
    // The control plane that held it is gone without a word; another one leads.
    bed.registry.stop();
    drop(session);
    let leader = bed.another("cp-2");
    assert_eq!(leader.finalize_once(bed.now()).await, 0, "seen for the first time");
    assert_eq!(leader.finalize_once(bed.now().checked_add(jiff::SignedDuration::from_mins(4)).unwrap()).await, 0);
    let late = bed.now().checked_add(jiff::SignedDuration::from_mins(5)).unwrap();
    assert_eq!(leader.finalize_once(late).await, 1);
    let insight = bed.insight("web-1").unwrap();
    assert_eq!(insight.last_subscription().unwrap().disconnect_time, Some(late.to_string()));
    assert_eq!(leader.finalize_once(late).await, 0, "once");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_held_shows_signs_of_life() {
    let bed = Bed::start().await;
    let _session = bed.connect("web-1").await;
    let leader = bed.another("cp-2");
    let mut generation = 0;
    for _ in 0..6 {
        bed.pass(3 * MINUTE).await;
        assert_eq!(leader.finalize_once(bed.now()).await, 0);
        assert_eq!(bed.registry.finalize_once(bed.now()).await, 0);
        let now = bed.insight("web-1").unwrap().last_subscription().unwrap().generation;
        assert!(now > generation, "{now}");
        generation = now;
    }
    assert!(bed.insight("web-1").unwrap().is_online());
}

#[tokio::test(start_paused = true)]
async fn proxies_long_gone_are_deleted() {
    let bed = Bed::start_with(|settings| settings.deregistration_delay = Duration::from_hours(10_000)).await;
    bed.put(dataplane("never-seen")).await;
    let _here = bed.connect("here").await;
    drop(bed.connect("gone").await);
    bed.settle().await;
    bed.turn_clock(Duration::from_hours(71));
    assert_eq!(bed.registry.collect_garbage_once(bed.now()).await, 0);
    bed.turn_clock(Duration::from_hours(2));
    assert_eq!(bed.registry.collect_garbage_once(bed.now()).await, 1);
    assert_eq!(bed.dataplane("gone"), None);
    assert!(bed.dataplane("here").is_some() && bed.dataplane("never-seen").is_some());
}

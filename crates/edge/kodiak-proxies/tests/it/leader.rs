//! Work of the leader: connections that no control plane holds, and proxies that are offline for long.

use std::time::Duration;

use kodiak_ads::Proxies as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::bed::{Bed, dataplane};

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(start_paused = true)]
async fn idle_connection_is_closed() {
    let bed = Bed::start().await;
    let session = bed.connect("web-1").await;
    bed.settle().await;
    // The control plane that held it died; another one leads.
    bed.registry.stop();
    drop(session);
    let leader = bed.another("cp-2");
    assert_eq!(leader.finalize_once(&bed.leads(), bed.now()).await, 0, "seen for the first time");
    assert_eq!(
        leader.finalize_once(&bed.leads(), bed.now().checked_add(jiff::SignedDuration::from_mins(4)).unwrap()).await,
        0
    );
    let late = bed.now().checked_add(jiff::SignedDuration::from_mins(5)).unwrap();
    assert_eq!(leader.finalize_once(&bed.leads(), late).await, 1);
    let insight = bed.insight("web-1").unwrap();
    assert_eq!(insight.last_subscription().unwrap().disconnect_time, Some(late.to_string()));
    assert_eq!(leader.finalize_once(&bed.leads(), late).await, 0, "once");
}

/// The control plane died with its proxies connected; one of them came back to another, the others did not.
#[tokio::test(start_paused = true)]
async fn connections_of_a_dead_control_plane_are_closed_after_the_grace_period() {
    let grace = Duration::from_secs(30);
    let bed = Bed::start().await;
    let (dead, back) = (bed.connect("dead").await, bed.connect("back").await);
    bed.settle().await;
    bed.registry.stop();
    drop((dead, back));
    let (lost, died) = (Instant::now(), bed.now());
    let leader = bed.another("cp-2");
    let presence = |instance: &str| (instance == "cp-1").then_some(lost);
    assert_eq!(leader.close_abandoned(&bed.leads(), grace, presence).await, (0, Some(lost + grace)));
    bed.pass(Duration::from_secs(29)).await;
    let _back = leader.connect(bed.hello("back")).await.map_err(|closing| closing.message).unwrap();
    let running = CancellationToken::new();
    tokio::spawn({
        let (leader, running) = (leader.clone(), running.clone());
        async move { leader.run(running).await }
    });
    bed.settle().await;
    assert_eq!(leader.close_abandoned(&bed.leads(), grace, presence).await, (0, Some(lost + grace)));
    assert!(["dead", "back"].iter().all(|name| bed.insight(name).unwrap().is_online()), "nobody flaps");

    bed.pass(Duration::from_secs(1)).await;
    assert_eq!(leader.close_abandoned(&bed.leads(), grace, presence).await, (1, None));
    assert!(bed.insight("back").unwrap().is_online() && !bed.insight("dead").unwrap().is_online());
    let closed: jiff::Timestamp =
        bed.insight("dead").unwrap().last_subscription().unwrap().disconnect_time.clone().unwrap().parse().unwrap();
    let late = closed.duration_since(died).abs();
    assert!(late < jiff::SignedDuration::from_secs(2), "it ended when its control plane did: {closed}, not {died}");
    assert_eq!(leader.close_abandoned(&bed.leads(), grace, presence).await, (0, None), "once");
    running.cancel();
}

#[tokio::test(start_paused = true)]
async fn connections_of_live_control_planes_stay_open() {
    let bed = Bed::start().await;
    let _session = bed.connect("web-1").await;
    bed.settle().await;
    bed.pass(10 * MINUTE).await;
    let leader = bed.another("cp-2");
    assert_eq!(leader.close_abandoned(&bed.leads(), Duration::from_secs(30), |_| None).await, (0, None));
    let lost = Instant::now().checked_sub(MINUTE);
    let own = bed.registry.close_abandoned(&bed.leads(), Duration::from_secs(30), |_| lost).await;
    assert_eq!(own, (0, None), "the one that holds it knows better");
    assert!(bed.insight("web-1").unwrap().is_online());
}

#[tokio::test(start_paused = true)]
async fn open_connection_shows_signs_of_life() {
    let bed = Bed::start().await;
    let _session = bed.connect("web-1").await;
    let leader = bed.another("cp-2");
    let mut generation = 0;
    for _ in 0..6 {
        bed.pass(3 * MINUTE).await;
        assert_eq!(leader.finalize_once(&bed.leads(), bed.now()).await, 0);
        assert_eq!(bed.registry.finalize_once(&bed.leads(), bed.now()).await, 0);
        let now = bed.insight("web-1").unwrap().last_subscription().unwrap().generation;
        assert!(now > generation, "{now}");
        generation = now;
    }
    assert!(bed.insight("web-1").unwrap().is_online());
}

#[tokio::test(start_paused = true)]
async fn dataplanes_of_offline_proxies_are_deleted_after_the_cleanup_age() {
    let bed = Bed::start_with(|settings| settings.deregistration_delay = Duration::from_hours(10_000)).await;
    bed.put(dataplane("never-seen")).await;
    let _here = bed.connect("here").await;
    drop(bed.connect("gone").await);
    bed.settle().await;
    bed.turn_clock(Duration::from_hours(71));
    assert_eq!(bed.registry.collect_garbage_once(&bed.leads(), bed.now()).await, 0);
    bed.turn_clock(Duration::from_hours(2));
    assert_eq!(bed.registry.collect_garbage_once(&bed.leads(), bed.now()).await, 1);
    assert_eq!(bed.dataplane("gone"), None);
    assert!(bed.dataplane("here").is_some() && bed.dataplane("never-seen").is_some());
}

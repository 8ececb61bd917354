//! Deregistration: the Dataplane of a proxy that disconnects.

use std::time::Duration;

use kodiak_ads::{Closing, Proxies as _};
use kodiak_tokens::DataplaneClaims;
use kodiak_xds_stream::Counters;
use serde_json::json;

use crate::bed::{Bed, closing, dataplane, hello, key, report, snapshot};

const BEFORE: Duration = Duration::from_secs(8);
const AFTER: Duration = Duration::from_secs(12);

#[tokio::test(start_paused = true)]
async fn registered_dataplane_is_deleted_after_the_delay() {
    let bed = Bed::start().await;
    drop(bed.connect("web-1").await);
    bed.pass(BEFORE).await;
    assert!(bed.dataplane("web-1").is_some());
    bed.pass(AFTER).await;
    assert_eq!((bed.dataplane("web-1"), bed.insight("web-1")), (None, None));
}

#[tokio::test(start_paused = true)]
async fn dataplane_of_a_user_stays() {
    let bed = Bed::start().await;
    bed.put(dataplane("web-1")).await;
    let proxy = hello("default.web-1", &json!({}), Some(bed.token(&DataplaneClaims::default())));
    drop(bed.registry.connect(proxy).await.ok().unwrap());
    bed.pass(AFTER).await;
    assert!(bed.dataplane("web-1").is_some());
}

#[tokio::test(start_paused = true)]
async fn reconnected_proxy_keeps_its_dataplane() {
    let bed = Bed::start().await;
    drop(bed.connect("web-1").await);
    bed.pass(BEFORE).await;
    let session = bed.connect("web-1").await;
    bed.pass(AFTER * 3).await;
    assert!(bed.dataplane("web-1").is_some());
    drop(session);
    bed.pass(AFTER).await;
    assert_eq!(bed.dataplane("web-1"), None);
}

#[tokio::test(start_paused = true)]
async fn proxy_that_is_connected_elsewhere_keeps_its_dataplane() {
    let bed = Bed::start().await;
    let here = bed.connect("web-1").await;
    bed.settle().await;
    let elsewhere = bed.another("cp-2");
    let task = tokio::spawn({
        let elsewhere = elsewhere.clone();
        async move { elsewhere.run(tokio_util::sync::CancellationToken::new()).await }
    });
    let there = elsewhere.connect(bed.hello("web-1")).await.ok().unwrap();
    bed.settle().await;
    drop(here);
    bed.pass(AFTER).await;
    assert!(bed.dataplane("web-1").is_some());
    let insight = bed.insight("web-1").unwrap();
    assert!(insight.is_online());
    assert_eq!(insight.last_subscription().unwrap().control_plane_instance_id, "cp-2");
    drop(there);
    bed.pass(AFTER).await;
    assert_eq!(bed.dataplane("web-1"), None);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn stopping_control_plane_deregisters_no_proxy() {
    let bed = Bed::start().await;
    let session = bed.connect("web-1").await;
    bed.settle().await;
    bed.events();
    bed.registry.stop();
    drop(session);
    bed.pass(AFTER).await;
    assert!(bed.dataplane("web-1").is_some());
    assert!(bed.insight("web-1").unwrap().is_online());
    assert!(bed.events().is_empty());
}

#[tokio::test(start_paused = true)]
async fn draining_control_plane_deregisters_no_proxy() {
    let bed = Bed::start().await;
    let mut session = bed.connect("web-1").await;
    bed.settle().await;
    bed.registry.publish(&key("web-1"), snapshot(1), "step-1".into(), Vec::new());
    report(&mut session, &Counters::default(), Some(1));
    bed.drain();
    drop(session);
    bed.pass(AFTER).await;
    let insight = bed.insight("web-1").unwrap();
    assert!(insight.is_online());
    assert_eq!(insight.mtls.unwrap().acknowledged, "step-1", "what was acknowledged until then is kept");
}

#[tokio::test(start_paused = true)]
async fn many_proxies_disconnect_at_once() {
    let bed = Bed::start().await;
    let mut sessions = Vec::new();
    for number in 0..450 {
        sessions.push(bed.connect(&format!("web-{number}")).await);
    }
    bed.settle().await;
    let count = |kind: &str| bed.catalog.store().snapshot().list(kind).count();
    assert_eq!((count("Dataplane"), count("DataplaneInsight")), (450, 450));
    sessions.truncate(1);
    bed.pass(AFTER).await;
    assert_eq!((count("Dataplane"), count("DataplaneInsight")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn connection_lost_during_registration_leaves_no_dataplane() {
    let bed = Bed::start().await;
    {
        let mut connecting = bed.registry.connect(bed.hello("web-1"));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(connecting.as_mut().poll(&mut context).is_pending(), "it waits for the store");
    }
    bed.settle().await;
    assert!(bed.dataplane("web-1").is_some());
    bed.pass(AFTER).await;
    assert_eq!(bed.dataplane("web-1"), None);
}

/// As after a restart of the control plane, with a configuration that has faults.
#[tokio::test(start_paused = true)]
async fn proxy_with_faults_keeps_its_stream_and_its_dataplane() {
    let bed = Bed::start().await;
    let session = bed.connect("web-1").await;
    let faults = vec!["a and b both listen on 10.0.0.1:80".to_owned()];
    bed.registry.publish(&key("web-1"), snapshot(1), "step".into(), faults.clone());
    bed.pass(AFTER * 3).await;
    assert_eq!(closing(&session), None);
    assert_eq!(bed.registry.status(&key("web-1")).unwrap().faults, faults);
    assert!(session.snapshots.borrow().is_some() && bed.dataplane("web-1").is_some());
}

#[tokio::test(start_paused = true)]
async fn proxy_that_keeps_trying_to_connect_keeps_its_dataplane() {
    let bed = Bed::start().await;
    drop(bed.connect("web-1").await);
    // What it provides is refused; it pauses as long as Envoy does.
    for _ in 0..5 {
        let metadata = json!({ "dataplane.resource": "type: Dataplane" });
        bed.refused(hello("default.web-1", &metadata, Some(bed.token(&DataplaneClaims::default())))).await;
        bed.pass(Duration::from_secs(30)).await;
        assert!(bed.dataplane("web-1").is_some());
    }
    // The port ends its streams.
    for _ in 0..5 {
        let mut session = bed.connect("web-1").await;
        session.report.closed(&Closing { code: Closing::RESOURCE_EXHAUSTED, message: "too many names".to_owned() });
        drop(session);
        bed.pass(Duration::from_secs(30)).await;
        assert!(bed.dataplane("web-1").is_some());
    }
    // Somebody without its token cannot hold it up.
    for _ in 0..5 {
        bed.refused(hello("default.web-1", &json!({}), None)).await;
        bed.pass(Duration::from_secs(30)).await;
    }
    assert_eq!(bed.dataplane("web-1"), None, "it does not try any more");
}

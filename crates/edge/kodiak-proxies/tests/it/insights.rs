//! When and how a connection appears in the insight.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use kodiak_ads::Proxies as _;
use kodiak_metrics::Exchanged;
use kodiak_model::kinds::dataplane_insight::MtlsInsight;
use kodiak_proxies::{Observer, SnapshotTokens};
use kodiak_tokens::DataplaneClaims;
use kodiak_xds_stream::{Counters, Encoded, ResourceSet, Snapshot, TypeUrl, Version};
use serde_json::json;

use crate::bed::{Bed, dataplane, hello, key, report, report_of, snapshot};

fn counters(sent: u64, acknowledged: u64, rejected: u64) -> Counters {
    let last_error = (rejected > 0).then(|| "no such thing".into());
    Counters { sent, acknowledged, rejected, last_error, rejecting: rejected > 0 }
}

#[tokio::test(start_paused = true)]
async fn connection_is_written_at_once() {
    let bed = Bed::start().await;
    let metadata = json!({
        "dataplane.resource": dataplane("web-1").to_string(),
        "features": ["feature-delta-grpc"],
        "version": { "kumaDp": { "version": "2.14.3" }, "envoy": { "version": "1.40.0" } },
    });
    let proxy = hello("default.web-1", &metadata, Some(bed.token(&DataplaneClaims::default())));
    let session = bed.registry.connect(proxy).await.ok().unwrap();
    bed.settle().await;
    let insight = bed.insight("web-1").unwrap();
    let subscription = insight.last_subscription().unwrap();
    assert!(subscription.is_open() && !subscription.id.is_empty());
    assert_eq!(subscription.control_plane_instance_id, "cp-1");
    assert_eq!(subscription.connect_time.as_deref(), Some("2026-08-01T12:00:00Z"));
    let version = subscription.version.clone().unwrap();
    assert_eq!(version.kuma_dp.unwrap().version, "2.14.3");
    assert_eq!(version.envoy.unwrap().version, "1.40.0");
    let kept = insight.metadata.unwrap();
    assert_eq!(kept["features"], json!(["feature-delta-grpc"]));
    assert_eq!(kept.get("dataplane.resource"), None);
    assert_eq!(insight.mtls, None);
    drop(session);
    bed.settle().await;
    let left = bed.insight("web-1").unwrap();
    assert_eq!(left.last_subscription().unwrap().disconnect_time.as_deref(), Some("2026-08-01T12:00:00Z"));
}

#[tokio::test(start_paused = true)]
async fn insight_has_two_connections_and_one_is_open() {
    let bed = Bed::start().await;
    let mut sessions = Vec::new();
    for _ in 0..4 {
        sessions.push(bed.connect("web-1").await);
        bed.settle().await;
        let open = bed.insight("web-1").unwrap().subscriptions.iter().filter(|known| known.is_open()).count();
        assert_eq!(open, 1);
    }
    let insight = bed.insight("web-1").unwrap();
    assert_eq!(insight.subscriptions.len(), 2);
    assert!(insight.last_subscription().unwrap().is_open());
}

#[tokio::test(start_paused = true)]
async fn counters_are_written_once_per_interval() {
    let bed = Bed::start().await;
    let mut session = bed.connect("web-1").await;
    bed.settle().await;
    let version = || bed.record("DataplaneInsight", "web-1").unwrap().version;
    let first = version();
    report(&mut session, &counters(3, 1, 1), None);
    bed.pass(Duration::from_secs(3)).await;
    assert_eq!(version(), first, "not before its time");
    report(&mut session, &counters(3, 2, 1), None);
    bed.pass(Duration::from_secs(12)).await;
    assert_eq!(version(), first + 1, "both in one");
    let status = bed.insight("web-1").unwrap().last_subscription().unwrap().status.clone();
    for responses in [status.total, status.cds] {
        assert_eq!(responses.responses_sent.0, 3);
        assert_eq!(responses.responses_acknowledged.0, 2);
        assert_eq!(responses.responses_rejected.0, 1);
    }
    assert_eq!(status.lds.responses_sent.0, 0);
    bed.pass(Duration::from_mins(1)).await;
    assert_eq!(version(), first + 1, "nothing has changed");
    let seen = bed.registry.status(&key("web-1")).unwrap();
    let clusters = &seen.types[0];
    assert_eq!((clusters.type_url, clusters.rejected), (TypeUrl::Cluster, 1));
    assert_eq!((clusters.last_error.as_deref(), clusters.rejecting), (Some("no such thing"), true));
    assert_eq!(seen.bytes_sent, 200);
}

#[tokio::test(start_paused = true)]
async fn rejected_outbound_listener_does_not_hold_up_a_step() {
    let bed = Bed::start().await;
    let mut session = bed.connect("web-1").await;
    let mut resources = ResourceSet::default();
    for name in ["inbound:10.0.0.1:8080", "outbound:240.0.0.1:80"] {
        let bytes = Bytes::new();
        let listener = Encoded { name: name.into(), version: Version(1), delta: bytes.clone(), sotw: bytes };
        resources.insert(TypeUrl::Listener, Arc::new(listener));
    }
    let route = "Error adding/updating listener(s) outbound:240.0.0.1:80: no argument for repetition operator: *";
    let inbound = "Error adding/updating listener(s) inbound:10.0.0.1:8080: cannot bind";
    for (revision, error, acknowledged, rejecting) in [
        (1, Some(route), "step-1", String::new()),
        (2, Some(inbound), "step-1", format!("lds: {inbound}")),
        (3, Some(route), "step-3", String::new()),
        (4, None, "step-4", String::new()),
    ] {
        let snapshot = Arc::new(Snapshot { revision, resources: resources.clone() });
        bed.registry.publish(&key("web-1"), snapshot, format!("step-{revision}").as_str().into(), Vec::new());
        let last_error = error.map(Arc::from);
        let counters = Counters { sent: revision, rejecting: error.is_some(), last_error, ..Counters::default() };
        report_of(&mut session, TypeUrl::Listener, &counters, Some(revision));
        bed.settle().await;
        let mtls = bed.insight("web-1").unwrap().mtls.unwrap_or_default();
        assert_eq!((mtls.acknowledged.as_str(), mtls.rejecting), (acknowledged, rejecting), "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_step_is_not_acknowledged() {
    let bed = Bed::start().await;
    let mut session = bed.connect("web-1").await;
    let acknowledged = || bed.insight("web-1").unwrap().mtls.unwrap_or_default().acknowledged;
    for (revision, rejected, expected) in [(1, 0, "step-1"), (2, 1, "step-1"), (3, 0, "step-3")] {
        bed.registry.publish(&key("web-1"), snapshot(revision), format!("step-{revision}").as_str().into(), Vec::new());
        report(&mut session, &counters(revision, revision - rejected, rejected), Some(revision));
        bed.settle().await;
        assert_eq!(acknowledged(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn acknowledged_step_is_written_at_once() {
    let bed = Bed::start().await;
    let mut session = bed.connect("web-1").await;
    bed.settle().await;
    bed.registry.publish(&key("web-1"), snapshot(1), "step-1".into(), Vec::new());
    bed.registry.publish(&key("web-1"), snapshot(2), "step-2".into(), Vec::new());
    let acknowledged = || bed.insight("web-1").unwrap().mtls.unwrap_or_default().acknowledged;
    for (revision, step) in [(1, "step-1"), (2, "step-2")] {
        report(&mut session, &counters(1, 1, 0), Some(revision));
        bed.settle().await;
        assert_eq!(acknowledged(), step);
    }
    let status = bed.registry.status(&key("web-1")).unwrap();
    assert_eq!((status.published, status.settled), (Some(2), Some(2)));
    // A new connection does not lose it, and the same acknowledgement is not written again.
    drop(session);
    let mut session = bed.connect("web-1").await;
    bed.settle().await;
    assert_eq!(acknowledged(), "step-2");
    let version = bed.record("DataplaneInsight", "web-1").unwrap().version;
    bed.registry.publish(&key("web-1"), snapshot(2), "step-2".into(), Vec::new());
    report(&mut session, &Counters::default(), Some(2));
    bed.settle().await;
    assert_eq!(bed.record("DataplaneInsight", "web-1").unwrap().version, version);
}

/// All control planes read them there. Without a token, nobody waits, and what the proxy has then is not recorded.
#[tokio::test(start_paused = true)]
async fn acknowledged_permissions_are_written_at_once_unless_inbounds_are_rejected() {
    let bed = Bed::start().await;
    let mut session = bed.connect("web-1").await;
    let inbound = "Error adding/updating listener(s) inbound:10.0.0.1:8080: cannot bind";
    for (revision, type_url, token, error, expected) in [
        (1, TypeUrl::Listener, "a", None, "a"),
        (2, TypeUrl::Listener, "b", Some(inbound), "a"),
        (3, TypeUrl::Cluster, "b", Some("no such thing"), "b"),
        (4, TypeUrl::Secret, "c", Some("no such thing"), "b"),
        (5, TypeUrl::Secret, "", None, ""),
    ] {
        let tokens = SnapshotTokens { rollout: "step".into(), permissions: token.into() };
        bed.registry.publish(&key("web-1"), snapshot(revision), tokens, Vec::new());
        // Types that are not in the report were accepted.
        let counters = Counters {
            sent: revision,
            rejecting: error.is_some(),
            last_error: error.map(Arc::from),
            ..Counters::default()
        };
        report_of(&mut session, type_url, &counters, Some(revision));
        bed.settle().await;
        let mtls = bed.insight("web-1").unwrap().mtls.unwrap_or_default();
        assert_eq!(mtls.acknowledged_permissions, expected, "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn insight_shows_the_certificate() {
    let bed = Bed::start().await;
    let _session = bed.connect("web-1").await;
    bed.settle().await;
    let issued = MtlsInsight { issued_backend: "ca-1".to_owned(), ..MtlsInsight::default() };
    bed.registry.issued(&key("web-1"), issued.clone());
    bed.registry.issued(&key("nobody"), issued.clone());
    bed.pass(Duration::from_secs(12)).await;
    assert_eq!(bed.insight("web-1").unwrap().mtls, Some(issued));
}

#[tokio::test(start_paused = true)]
async fn snapshots_reach_the_session_and_faults_are_in_the_status() {
    let bed = Bed::start().await;
    let session = bed.connect("web-1").await;
    assert!(session.snapshots.borrow().is_none());
    bed.registry.publish(&key("web-1"), snapshot(7), "step".into(), Vec::new());
    assert_eq!(session.snapshots.borrow().as_ref().map(|snapshot| snapshot.revision), Some(7));
    let faults = vec!["a route points nowhere".to_owned()];
    bed.registry.publish(&key("web-1"), snapshot(7), "step".into(), faults);
    assert_eq!(bed.registry.status(&key("web-1")).unwrap().faults, ["a route points nowhere"]);
    assert_eq!(bed.registry.snapshot(&key("web-1")).map(|snapshot| snapshot.revision), Some(7));
    bed.registry.publish(&key("web-1"), snapshot(8), "step".into(), Vec::new());
    assert!(bed.registry.status(&key("web-1")).unwrap().faults.is_empty());
    assert_eq!(bed.registry.snapshot(&key("nobody")), None);
}

#[derive(Default)]
struct Recorded(Mutex<Vec<String>>);

impl Observer for Recorded {
    fn connected(&self) {
        self.0.lock().unwrap().push("connected".to_owned());
    }

    fn disconnected(&self) {
        self.0.lock().unwrap().push("disconnected".to_owned());
    }

    fn refused(&self) {
        self.0.lock().unwrap().push("refused".to_owned());
    }

    fn exchanged(&self, type_url: TypeUrl, exchanged: Exchanged) {
        let Exchanged { sent, acknowledged, rejected } = exchanged;
        self.0.lock().unwrap().push(format!("{type_url:?}: {sent} sent, {acknowledged} ACK, {rejected} NACK"));
    }

    fn sent(&self, bytes: u64) {
        self.0.lock().unwrap().push(format!("sent {bytes}"));
    }
}

#[tokio::test(start_paused = true)]
async fn observer_counts_connections_and_rejections() {
    let recorded = std::sync::Arc::new(Recorded::default());
    let bed = Bed::start_with(|settings| settings.observer = Some(recorded.clone())).await;
    let replaced = bed.connect("web-1").await;
    let mut session = bed.connect("web-1").await;
    drop(replaced);
    report(&mut session, &counters(3, 1, 2), None);
    report(&mut session, &counters(4, 1, 3), None);
    drop(session);
    bed.refused(hello("nobody", &json!({}), None)).await;
    let expected = [
        "connected",
        "sent 100",
        "Cluster: 3 sent, 1 ACK, 2 NACK",
        "sent 100",
        "Cluster: 1 sent, 0 ACK, 1 NACK",
        "disconnected",
        "refused",
    ];
    assert_eq!(*recorded.0.lock().unwrap(), expected);
}

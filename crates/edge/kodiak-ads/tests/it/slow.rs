//! Clients that send and do not read.

use std::time::Duration;

use kodiak_ads::{Closing, Limits};
use kodiak_envoy::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use kodiak_listen::ConnectionLimits;
use kodiak_xds_stream::TypeUrl;

use crate::bed::{Bed, Seen};
use crate::client::{Delta, names, subscribe};
use crate::http;
use crate::resources::{cluster, sized_cluster};

/// More than fits the client's window and all buffers on the way.
const LONG: usize = 8 * 1024 * 1024;

#[tokio::test]
async fn client_that_does_not_read_has_one_pending_push() {
    let bed = Bed::with(&[sized_cluster("a", 1, LONG)]).await;
    let mut client = Delta::ask(&bed, TypeUrl::Cluster, &[]).await;
    bed.wait_for("it is sent to", |seen| seen.of(TypeUrl::Cluster).sent == 1).await;
    for revision in 2..=1000 {
        bed.snapshot(revision, &[sized_cluster("a", revision, 10), cluster("b", revision)]);
        // Acknowledges unread responses by guessing their nonces, so that only the unread response blocks the push.
        let response_nonce = format!("{:x}", revision - 1);
        client.send(&DeltaDiscoveryRequest { response_nonce, ..subscribe(TypeUrl::Cluster, &[]) });
        tokio::task::yield_now().await;
    }
    // A response to a request is not a push, and shows that all earlier requests were read.
    client.send(&subscribe(TypeUrl::Endpoint, &["x"]));
    let seen = bed.wait_for("all is read", |seen| seen.of(TypeUrl::Endpoint).sent == 1).await;
    assert_eq!((seen.of(TypeUrl::Cluster).sent, seen.of(TypeUrl::Cluster).acknowledged), (1, 1));

    assert_eq!(names(&client.next().await), "a");
    assert_eq!(names(&client.next().await), "-x");
    let last = client.next().await;
    assert_eq!(names(&last), "a b");
    let (_, newest) = sized_cluster("a", 1000, 10);
    assert_eq!(last.resources[0].version, newest.version.to_string());
    assert_eq!(bed.seen().of(TypeUrl::Cluster).sent, 2);
}

#[tokio::test]
async fn requests_of_a_client_that_does_not_read_are_not_read() {
    const QUESTIONS: u64 = 2000;
    let sent = |seen: &Seen| seen.of(TypeUrl::Cluster).sent + seen.of(TypeUrl::Endpoint).sent;
    let bed = Bed::with(&[sized_cluster("a", 1, LONG)]).await;
    let mut client = Delta::ask(&bed, TypeUrl::Cluster, &["a"]).await;
    for _ in 0..QUESTIONS {
        client.send(&subscribe(TypeUrl::Endpoint, &["missing"]));
    }
    bed.wait_for("many wait", |seen| sent(seen) >= 32).await;
    for _ in 0..20 {
        http::get(&bed, "/gives/the/stream/time").await;
        assert_eq!(sent(&bed.seen()), 32);
    }
    for _ in 0..=QUESTIONS {
        client.next().await;
    }
}

#[tokio::test]
async fn client_that_does_not_read_the_end_is_disconnected() {
    let farewell = Duration::from_millis(50);
    let connections = ConnectionLimits { connections: 1, ..ConnectionLimits::proxies() };
    let bed = Bed::limited(Limits { farewell, ..Limits::default() }, connections).await;
    bed.snapshot(1, &[sized_cluster("a", 1, LONG)]);
    let client = Delta::ask(&bed, TypeUrl::Cluster, &[]).await;
    bed.wait_for("it is sent to", |seen| seen.of(TypeUrl::Cluster).sent == 1).await;
    let reason = Closing { code: Closing::PERMISSION_DENIED, message: "the token was revoked".to_owned() };
    bed.control_plane.closing.send_replace(Some(reason));
    bed.wait_for("the end is known", |seen| seen.ended == 1).await;
    // Another connection is accepted only once this one is closed.
    let other = Delta::ask_when_there_is_room(&bed, TypeUrl::Cluster).await;
    drop((client, other));
}

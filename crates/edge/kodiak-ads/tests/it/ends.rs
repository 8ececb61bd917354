//! How streams end, and the status that the client gets.

use std::time::Duration;

use bytes::Bytes;
use kodiak_ads::{Closing, Limits};
use kodiak_envoy::envoy::config::core::v3::Node;
use kodiak_envoy::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use kodiak_listen::ConnectionLimits;
use kodiak_xds_stream::TypeUrl;

use crate::bed::{Bed, PANICS, PATIENCE, WRONG};
use crate::client::{DELTA, Delta, HEALTH, SOTW, node, subscribe};
use crate::resources::cluster;

fn closing(code: u8, message: &str) -> Closing {
    Closing { code, message: message.to_owned() }
}

#[tokio::test]
async fn invalid_token_is_rejected_before_anything_is_read() {
    let bed = Bed::start().await;
    for path in [DELTA, SOTW, HEALTH] {
        let mut client = Delta::open(&bed, path, &[("authorization", WRONG)]).await;
        assert_eq!(client.end().await, closing(Closing::UNAUTHENTICATED, "authentication failed: 100 % wrong"));
    }
    assert!(bed.seen().hellos.is_empty() && bed.seen().health_hellos.is_empty());
}

#[tokio::test]
async fn two_authorization_headers_count_as_none() {
    let bed = Bed::with(&[cluster("a", 1)]).await;
    let mut client = Delta::open(&bed, DELTA, &[("authorization", "one"), ("authorization", "two")]).await;
    client.send(&DeltaDiscoveryRequest { node: Some(node()), ..subscribe(TypeUrl::Cluster, &[]) });
    client.next().await;
    assert_eq!(bed.seen().hellos[0].credential.0, None);
}

#[tokio::test]
async fn control_plane_closes_a_stream_with_a_status() {
    let bed = Bed::with(&[cluster("a", 1)]).await;
    let mut client = Delta::ask(&bed, TypeUrl::Cluster, &[]).await;
    client.next().await;
    let reason = closing(Closing::PERMISSION_DENIED, "the token was revoked\nget another");
    bed.control_plane.closing.send_replace(Some(reason.clone()));
    assert_eq!(client.end().await, reason);
    bed.wait_for("the end is known", |seen| seen.ended == 1).await;
}

/// Otherwise the proxy would wait forever.
#[tokio::test]
async fn stream_whose_task_panics_is_closed() {
    let bed = Bed::start().await;
    let mut client = Delta::open(&bed, DELTA, &[]).await;
    let node = Node { id: PANICS.to_owned(), ..node() };
    client.send(&DeltaDiscoveryRequest { node: Some(node), ..subscribe(TypeUrl::Cluster, &[]) });
    assert_eq!(client.end().await, closing(Closing::INTERNAL, "internal error of the control plane; connect again"));
}

#[tokio::test]
async fn invalid_request_closes_the_stream() {
    let hello = DeltaDiscoveryRequest { node: Some(node()), ..subscribe(TypeUrl::Cluster, &[]) };
    let no_node = subscribe(TypeUrl::Cluster, &[]);
    let no_id = DeltaDiscoveryRequest { node: Some(Node::default()), ..no_node.clone() };
    let long_name = DeltaDiscoveryRequest { node: Some(node()), ..subscribe(TypeUrl::Cluster, &[&"x".repeat(5000)]) };
    let long_type = DeltaDiscoveryRequest { type_url: "x".repeat(5000), ..hello };
    for (request, part) in
        [(no_node, "`node`"), (no_id, "`node`"), (long_name, "a resource name"), (long_type, "the type URL")]
    {
        let bed = Bed::start().await;
        let mut client = Delta::open(&bed, DELTA, &[]).await;
        client.send(&request);
        let end = client.end().await;
        assert!(end.code == Closing::INVALID_ARGUMENT && end.message.contains(part), "{end:?}");
        assert!(bed.seen().hellos.is_empty());
    }
}

#[tokio::test]
async fn invalid_frames_close_the_stream() {
    let garbage = [&[0, 0, 0, 0, 4][..], &[0xff; 4]].concat();
    for (bytes, code, part) in [
        (vec![1, 0, 0, 0, 0], 12, "compressed"),
        (vec![0, 255, 0, 0, 0], 8, "at most"),
        (vec![7], 3, "flag of the request is 7"),
        (vec![0, 0, 0], 3, "ended within"),
        (garbage, 3, "failed to decode"),
    ] {
        let bed = Bed::start().await;
        let mut client = Delta::open(&bed, DELTA, &[]).await;
        client.send_bytes(Bytes::from(bytes));
        client.finish();
        let end = client.end().await;
        assert!(end.code == code && end.message.contains(part), "{end:?}");
    }
}

#[tokio::test]
async fn changed_node_id_closes_the_stream() {
    let bed = Bed::with(&[cluster("a", 1)]).await;
    let mut client = Delta::ask(&bed, TypeUrl::Cluster, &[]).await;
    client.send(&DeltaDiscoveryRequest { node: Some(node()), ..subscribe(TypeUrl::Endpoint, &["a"]) });
    client.next().await;
    client.next().await;
    let other = Some(Node { id: "default.web-2".to_owned(), ..Node::default() });
    client.send(&DeltaDiscoveryRequest { node: other, ..subscribe(TypeUrl::Cluster, &[]) });
    let end = client.end().await;
    assert!(end.code == Closing::INVALID_ARGUMENT && end.message.contains("`node.id` must not change"), "{end:?}");
}

#[tokio::test]
async fn too_many_names_close_the_stream() {
    let bed = Bed::with(&[]).await;
    let mut client = Delta::ask(&bed, TypeUrl::Cluster, &[]).await;
    let names: Vec<_> = (0..100_001).map(|index| index.to_string()).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    client.send(&subscribe(TypeUrl::Endpoint, &names));
    assert_eq!(client.end().await.code, Closing::RESOURCE_EXHAUSTED);
}

#[tokio::test]
async fn request_that_would_take_too_much_memory_closes_the_stream() {
    let many = DeltaDiscoveryRequest { resource_names_subscribe: vec![String::new(); 1_000_000], ..Default::default() };
    let long = Node { cluster: "x".repeat(3 * 1024 * 1024), ..node() };
    let long = DeltaDiscoveryRequest { node: Some(long), ..subscribe(TypeUrl::Cluster, &[]) };
    for (request, code, part) in [
        (many, Closing::RESOURCE_EXHAUSTED, "more than 100000 resources"),
        (long, Closing::INVALID_ARGUMENT, "`node` and `error_detail`"),
    ] {
        let bed = Bed::start().await;
        let mut client = Delta::open(&bed, DELTA, &[]).await;
        client.send(&request);
        let end = client.end().await;
        assert!(end.code == code && end.message.contains(part), "{end:?}");
        assert!(bed.seen().hellos.is_empty());
    }
}

#[tokio::test]
async fn half_closed_client_gets_its_responses_and_status_ok() {
    let bed = Bed::with(&[cluster("a", 1)]).await;
    let mut client = Delta::ask(&bed, TypeUrl::Cluster, &[]).await;
    client.finish();
    client.next().await;
    assert_eq!(client.end().await, closing(0, ""));
}

#[tokio::test]
async fn closed_connection_ends_the_session() {
    let bed = Bed::with(&[cluster("a", 1)]).await;
    let mut client = Delta::ask(&bed, TypeUrl::Cluster, &[]).await;
    client.next().await;
    drop(client);
    bed.wait_for("the end is known", |seen| seen.ended == 1).await;
}

#[tokio::test]
async fn unresponsive_connection_ends_the_session() {
    let short = Duration::from_millis(50);
    let connections = ConnectionLimits { ping_every: short, ping_answer: short, ..ConnectionLimits::proxies() };
    let bed = Bed::limited(Limits::default(), connections).await;
    bed.snapshot(1, &[cluster("a", 1)]);
    let mut client = Delta::ask(&bed, TypeUrl::Cluster, &[]).await;
    client.next().await;
    client.freeze();
    bed.wait_for("the end is known", |seen| seen.ended == 1).await;
}

#[tokio::test]
async fn draining_closes_streams_with_unavailable() {
    let bed = Bed::with(&[cluster("a", 1)]).await;
    let mut served = Delta::ask(&bed, TypeUrl::Cluster, &[]).await;
    served.next().await;
    let mut silent = Delta::open(&bed, DELTA, &[]).await;
    bed.drain.cancel();
    let end = closing(Closing::UNAVAILABLE, "the control plane is stopping; connect again");
    assert_eq!(served.end().await, end);
    assert_eq!(silent.end().await, end);
    drop((served, silent));
    tokio::time::timeout(PATIENCE, bed.server).await.expect("the server ends").unwrap();
}

#[tokio::test]
async fn other_services_are_not_implemented() {
    let bed = Bed::start().await;
    for path in ["/envoy.service.cluster.v3.ClusterDiscoveryService/DeltaClusters", "/", &format!("{DELTA}X")] {
        assert_eq!(Delta::open(&bed, path, &[]).await.end().await.code, 12, "{path}");
    }
}

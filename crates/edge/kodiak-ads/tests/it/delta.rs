//! The incremental protocol, over sockets.

use std::time::Duration;

use kodiak_ads::{Limits, Protocol};
use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use kodiak_envoy::google::rpc::Status;
use kodiak_envoy::unpack;
use kodiak_xds_stream::TypeUrl;
use prost::Message as _;

use crate::bed::Bed;
use crate::client::{DELTA, Delta, names, node, subscribe};
use crate::resources::{cluster, listener, numbered, sized_cluster};

#[tokio::test]
async fn proxy_gets_its_resources_and_changes() {
    let bed = Bed::with(&[cluster("a", 1), cluster("b", 1)]).await;
    let mut client = Delta::open(&bed, DELTA, &[("authorization", "token")]).await;
    client.send(&DeltaDiscoveryRequest { node: Some(node()), ..subscribe(TypeUrl::Cluster, &[]) });
    let first = client.next().await;
    assert_eq!((names(&first).as_str(), first.type_url.as_str()), ("a b", TypeUrl::Cluster.as_str()));
    assert_eq!(bed.seen().settled, None, "not before it is acknowledged");
    let content: Cluster = unpack(first.resources[0].resource.as_ref().unwrap()).unwrap();
    assert_eq!(content.name, "a");
    client.ack(&first);
    bed.wait_for("it is settled", |seen| seen.settled == Some(1)).await;

    bed.snapshot(2, &[cluster("a", 2), cluster("c", 1)]);
    let second = client.next().await;
    assert_eq!(names(&second), "a c");
    client.ack(&second);
    let third = client.next().await;
    assert_eq!(names(&third), "-b");
    client.ack(&third);
    let seen = bed.wait_for("it is settled", |seen| seen.settled == Some(2)).await;
    let counters = seen.of(TypeUrl::Cluster);
    assert_eq!((counters.sent, counters.acknowledged, counters.rejected), (3, 3, 0));
    let [hello] = &seen.hellos[..] else { panic!("{:?}", seen.hellos) };
    assert_eq!((hello.node.id.as_str(), hello.protocol), ("default.web-1", Protocol::Delta));
    assert_eq!(hello.credential.0.as_deref(), Some("token"));
    assert!(!format!("{hello:?}").contains("token"));
}

#[tokio::test]
async fn every_byte_is_counted() {
    let bed = Bed::with(&[sized_cluster("a", 1, 100_000)]).await;
    let mut client = Delta::ask(&bed, TypeUrl::Cluster, &[]).await;
    let response = client.next().await;
    let length = prost::Message::encoded_len(&response) as u64 + 5;
    bed.wait_for("all bytes are counted", |seen| seen.bytes == length).await;
}

#[tokio::test]
async fn nack_is_reported_with_its_message() {
    let bed = Bed::with(&[cluster("a", 1)]).await;
    let mut client = Delta::ask(&bed, TypeUrl::Cluster, &[]).await;
    let response = client.next().await;
    client.send(&DeltaDiscoveryRequest {
        response_nonce: response.nonce,
        error_detail: Some(Status { code: 3, message: "no such cluster type".to_owned(), ..Status::default() }),
        ..subscribe(TypeUrl::Cluster, &[])
    });
    let seen = bed.wait_for("it is rejected", |seen| seen.of(TypeUrl::Cluster).rejected == 1).await;
    let counters = seen.of(TypeUrl::Cluster);
    assert_eq!(counters.last_error.as_deref(), Some("no such cluster type"));
    assert!(counters.rejecting);
}

#[tokio::test]
async fn reconnecting_client_with_all_resources_is_sent_nothing() {
    let resources = [cluster("a", 1), cluster("b", 1)];
    let bed = Bed::with(&resources).await;
    let mut client = Delta::open(&bed, DELTA, &[]).await;
    let versions = resources.iter().map(|(_, each)| (each.name.to_string(), each.version.to_string())).collect();
    let request = DeltaDiscoveryRequest { node: Some(node()), ..subscribe(TypeUrl::Cluster, &[]) };
    client.send(&DeltaDiscoveryRequest { initial_resource_versions: versions, ..request });
    let seen = bed.wait_for("it is settled", |seen| seen.settled == Some(1)).await;
    assert_eq!((seen.of(TypeUrl::Cluster).sent, seen.bytes), (0, 0));
    bed.snapshot(2, &[cluster("a", 1), cluster("b", 2)]);
    assert_eq!(names(&client.next().await), "b");
}

#[tokio::test]
async fn names_are_subscribed_and_unsubscribed() {
    let bed = Bed::with(&[cluster("a", 1), cluster("b", 1)]).await;
    let mut client = Delta::ask(&bed, TypeUrl::Cluster, &["a", "missing"]).await;
    let first = client.next().await;
    assert_eq!(names(&first), "a -missing");
    client.ack(&first);
    client.send(&subscribe(TypeUrl::Cluster, &["b"]));
    let second = client.next().await;
    assert_eq!(names(&second), "b");
    client.ack(&second);
    let unsubscribe = vec!["a".to_owned()];
    let request = subscribe(TypeUrl::Cluster, &[]);
    client.send(&DeltaDiscoveryRequest { resource_names_unsubscribe: unsubscribe, ..request });
    bed.wait_for("it is acknowledged", |seen| seen.of(TypeUrl::Cluster).acknowledged == 2).await;
    // Subscribes again, to be sure that the request before was read.
    client.send(&subscribe(TypeUrl::Cluster, &["missing"]));
    assert_eq!(names(&client.next().await), "-missing");
    bed.snapshot(2, &[cluster("a", 2), cluster("b", 2)]);
    client.send(&DeltaDiscoveryRequest { response_nonce: "3".to_owned(), ..subscribe(TypeUrl::Cluster, &[]) });
    assert_eq!(names(&client.next().await), "b");
}

#[tokio::test]
async fn unsupported_types_are_answered() {
    let bed = Bed::start().await;
    let mut client = Delta::open(&bed, DELTA, &[]).await;
    let request = DeltaDiscoveryRequest { node: Some(node()), ..subscribe(TypeUrl::Cluster, &["x"]) };
    client.send(&DeltaDiscoveryRequest { type_url: "type.googleapis.com/unknown".to_owned(), ..request });
    let response = client.next().await;
    assert_eq!((names(&response).as_str(), response.type_url.as_str()), ("-x", "type.googleapis.com/unknown"));
}

#[tokio::test]
async fn the_first_snapshot_is_sent_when_there_is_one() {
    let bed = Bed::start().await;
    let mut client = Delta::ask(&bed, TypeUrl::Cluster, &[]).await;
    client.send(&subscribe(TypeUrl::Endpoint, &["a"]));
    bed.wait_for("it has connected", |seen| !seen.hellos.is_empty()).await;
    bed.snapshot(1, &[cluster("a", 1)]);
    assert_eq!(names(&client.next().await), "a");
    assert_eq!(names(&client.next().await), "-a");
}

/// Listeners change more often than their connections drain.
#[tokio::test]
async fn unused_cluster_is_removed_though_listeners_never_rest() {
    let limits = Limits { drain: Duration::from_millis(300), ..Limits::default() };
    let bed = Bed::start_with(limits).await;
    bed.snapshot(1, &[cluster("a", 1), cluster("b", 1), listener("l", "1", "b")]);
    let mut client = Delta::ask(&bed, TypeUrl::Cluster, &[]).await;
    let clusters = client.next().await;
    client.ack(&clusters);
    client.send(&subscribe(TypeUrl::Listener, &[]));
    for revision in 2.. {
        let response = client.next().await;
        client.ack(&response);
        if response.type_url == TypeUrl::Cluster.as_str() {
            assert_eq!(names(&response), "-b");
            return;
        }
        bed.snapshot(revision, &[cluster("a", 1), listener("l", &revision.to_string(), "a")]);
    }
}

/// A client that reconnects lists what it has in its first requests.
#[tokio::test]
async fn client_with_very_many_resources_reconnects() {
    let name = |number: usize| format!("kri_msvc_default_zone-1_a-namespace-with-a-name_service-{number:05}_http");
    let clusters: Vec<_> = (0..45_000_u32).map(|number| numbered(&name(number as usize), number.into())).collect();
    let bed = Bed::with(&clusters).await;
    let initial = clusters.iter().map(|(_, cluster)| (cluster.name.to_string(), cluster.version.to_string()));
    let has = DeltaDiscoveryRequest {
        node: Some(node()),
        initial_resource_versions: initial.collect(),
        ..subscribe(TypeUrl::Cluster, &["*"])
    };
    assert!(has.encoded_len() > 4 * 1024 * 1024, "{} bytes", has.encoded_len());
    let mut client = Delta::open(&bed, DELTA, &[("authorization", "token")]).await;
    client.send(&has);
    bed.wait_for("nothing is missing", |seen| seen.settled == Some(1)).await;
    let changed: Vec<_> = [cluster("new", 1)].into_iter().chain(clusters).collect();
    bed.snapshot(2, &changed);
    assert_eq!(names(&client.next().await), "new");
}

//! The state-of-the-world protocol, over sockets.

use kodiak_ads::Protocol;
use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use kodiak_envoy::google::rpc::Status;
use kodiak_envoy::unpack;
use kodiak_xds_stream::TypeUrl;

use crate::bed::Bed;
use crate::client::{SOTW, Sotw, node};
use crate::resources::cluster;

fn all_clusters() -> DiscoveryRequest {
    DiscoveryRequest { type_url: TypeUrl::Cluster.as_str().to_owned(), ..DiscoveryRequest::default() }
}

fn ack(response: &DiscoveryResponse) -> DiscoveryRequest {
    let (version_info, response_nonce) = (response.version_info.clone(), response.nonce.clone());
    DiscoveryRequest { version_info, response_nonce, ..all_clusters() }
}

fn names(response: &DiscoveryResponse) -> Vec<String> {
    response.resources.iter().map(|any| unpack::<Cluster>(any).unwrap().name).collect()
}

#[tokio::test]
async fn full_set_is_sent_and_missing_resources_are_removed() {
    let bed = Bed::with(&[cluster("a", 1), cluster("b", 1)]).await;
    let mut client = Sotw::open(&bed, SOTW, &[]).await;
    client.send(&DiscoveryRequest { node: Some(node()), ..all_clusters() });
    let first = client.next().await;
    assert_eq!(names(&first), ["a", "b"]);
    client.send(&ack(&first));
    let seen = bed.wait_for("it is settled", |seen| seen.settled == Some(1)).await;
    assert_eq!(seen.hellos[0].protocol, Protocol::StateOfTheWorld);
    bed.snapshot(2, &[cluster("b", 1)]);
    let second = client.next().await;
    assert_eq!(names(&second), ["b"]);
    assert_ne!(second.version_info, first.version_info);
    client.send(&ack(&second));
    let seen = bed.wait_for("it is settled", |seen| seen.settled == Some(2)).await;
    assert_eq!(seen.of(TypeUrl::Cluster).acknowledged, 2);
}

#[tokio::test]
async fn nack_is_reported_with_its_message() {
    let bed = Bed::with(&[cluster("a", 1)]).await;
    let mut client = Sotw::open(&bed, SOTW, &[]).await;
    client.send(&DiscoveryRequest { node: Some(node()), ..all_clusters() });
    let response = client.next().await;
    let error = Status { message: "no such cluster type".to_owned(), ..Status::default() };
    client.send(&DiscoveryRequest { response_nonce: response.nonce, error_detail: Some(error), ..all_clusters() });
    let seen = bed.wait_for("it is rejected", |seen| seen.of(TypeUrl::Cluster).rejected == 1).await;
    assert_eq!(seen.of(TypeUrl::Cluster).last_error.as_deref(), Some("no such cluster type"));
}

#[tokio::test]
async fn reconnecting_client_with_all_resources_is_sent_nothing() {
    let bed = Bed::with(&[cluster("a", 1)]).await;
    let mut first = Sotw::open(&bed, SOTW, &[]).await;
    first.send(&DiscoveryRequest { node: Some(node()), ..all_clusters() });
    let version_info = first.next().await.version_info;
    drop(first);
    bed.wait_for("the first stream has ended", |seen| seen.ended == 1).await;
    let second = Sotw::open(&bed, SOTW, &[]).await;
    second.send(&DiscoveryRequest { node: Some(node()), version_info, ..all_clusters() });
    let seen = bed.wait_for("it is settled", |seen| seen.settled == Some(1) && seen.hellos.len() == 2).await;
    assert_eq!(seen.of(TypeUrl::Cluster).sent, 0);
}

#[tokio::test]
async fn unsupported_types_are_answered() {
    let bed = Bed::start().await;
    let mut client = Sotw::open(&bed, SOTW, &[]).await;
    let type_url = "type.googleapis.com/unknown".to_owned();
    client.send(&DiscoveryRequest { node: Some(node()), type_url: type_url.clone(), ..DiscoveryRequest::default() });
    let response = client.next().await;
    assert_eq!((response.resources.len(), response.type_url), (0, type_url));
}

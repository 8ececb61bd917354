//! Streams of health checks, over sockets.

use std::sync::Arc;
use std::time::Duration;

use kodiak_ads::{Closing, Limits};
use kodiak_envoy::envoy::config::core::v3::Node;
use kodiak_envoy::envoy::service::health::v3::health_check_request_or_endpoint_health_response::RequestType;
use kodiak_envoy::envoy::service::health::v3::{
    ClusterEndpointsHealth, ClusterHealthCheck, EndpointHealthResponse, HealthCheckRequest,
    HealthCheckRequestOrEndpointHealthResponse as Message, HealthCheckSpecifier,
};
use kodiak_xds_stream::TypeUrl;

use crate::bed::{Bed, PATIENCE, WRONG};
use crate::client::{Client, Delta, HEALTH, node};
use crate::resources::cluster;

type Health = Client<Message, HealthCheckSpecifier>;

fn from(node: Option<Node>) -> Message {
    let request = HealthCheckRequest { node, ..HealthCheckRequest::default() };
    Message { request_type: Some(RequestType::HealthCheckRequest(request)) }
}

fn report(cluster: &str) -> EndpointHealthResponse {
    let found = ClusterEndpointsHealth { cluster_name: cluster.to_owned(), ..ClusterEndpointsHealth::default() };
    EndpointHealthResponse { cluster_endpoints_health: vec![found], ..EndpointHealthResponse::default() }
}

fn reporting(cluster: &str) -> Message {
    Message { request_type: Some(RequestType::EndpointHealthResponse(report(cluster))) }
}

fn checks(cluster: &str) -> HealthCheckSpecifier {
    let check = ClusterHealthCheck { cluster_name: cluster.to_owned(), ..ClusterHealthCheck::default() };
    HealthCheckSpecifier { cluster_health_checks: vec![check], ..HealthCheckSpecifier::default() }
}

fn order(bed: &Bed, checks: HealthCheckSpecifier) {
    bed.control_plane.checks.send_replace(Some(Arc::new(checks)));
}

async fn introduced(bed: &Bed) -> Health {
    let client = Health::open(bed, HEALTH, &[("authorization", "token")]).await;
    client.send(&from(Some(node())));
    client
}

#[tokio::test]
async fn proxy_gets_health_checks_and_reports_results() {
    let bed = Bed::start().await;
    order(&bed, checks("a"));
    let mut client = introduced(&bed).await;
    assert_eq!(client.next().await, checks("a"));
    client.send(&reporting("a"));
    let seen = bed.wait_for("the report is there", |seen| seen.found.len() == 1).await;
    assert_eq!(seen.found, [report("a")]);
    let [hello] = &seen.health_hellos[..] else { panic!("{:?}", seen.health_hellos) };
    assert_eq!((hello.node.id.as_str(), hello.credential.0.as_deref()), ("default.web-1", Some("token")));
    assert!(!format!("{hello:?}").contains("token"));

    order(&bed, checks("b"));
    assert_eq!(client.next().await, checks("b"));
    client.send(&from(Some(node())));
    client.send(&reporting("b"));
    bed.wait_for("the next report is there", |seen| seen.found.len() == 2).await;
    client.finish();
    assert_eq!(client.end().await, Closing { code: Closing::OK, message: String::new() });
    bed.wait_for("the end is known", |seen| seen.ended == 1).await;
}

#[tokio::test]
async fn proxy_without_health_checks_is_sent_nothing() {
    let bed = Bed::start().await;
    let mut client = introduced(&bed).await;
    bed.wait_for("it has introduced itself", |seen| seen.health_hellos.len() == 1).await;
    order(&bed, checks("late"));
    assert_eq!(client.next().await, checks("late"), "and nothing before");
}

#[tokio::test]
async fn health_stream_and_ads_stream_are_independent() {
    let bed = Bed::with(&[cluster("a", 1)]).await;
    let mut other = Delta::ask(&bed, TypeUrl::Cluster, &[]).await;
    other.next().await;
    order(&bed, checks("a"));
    assert_eq!(introduced(&bed).await.next().await, checks("a"));
}

#[tokio::test]
async fn health_stream_is_closed_with_a_status() {
    let bed = Bed::start().await;
    let mut refused = Health::open(&bed, HEALTH, &[("authorization", WRONG)]).await;
    refused.send(&from(Some(node())));
    assert_eq!(refused.end().await.code, Closing::UNAUTHENTICATED);

    let mut closed = introduced(&bed).await;
    bed.wait_for("it has introduced itself", |seen| seen.health_hellos.len() == 1).await;
    let reason = Closing { code: Closing::PERMISSION_DENIED, message: "the token was revoked".to_owned() };
    bed.control_plane.closing.send_replace(Some(reason.clone()));
    assert_eq!(closed.end().await, reason);

    bed.drain.cancel();
    drop((refused, closed));
    tokio::time::timeout(PATIENCE, bed.server).await.expect("the server ends").unwrap();
}

#[tokio::test]
async fn invalid_first_message_closes_the_stream() {
    for (message, part) in [
        (from(None), "`health_check_request` with a `node`"),
        (from(Some(Node::default())), "`node.id`"),
        (reporting("a"), "`health_check_request` with a `node`"),
        (Message::default(), "`health_check_request` with a `node`"),
    ] {
        let bed = Bed::start().await;
        let mut client = Health::open(&bed, HEALTH, &[]).await;
        client.send(&message);
        let end = client.end().await;
        assert!(end.code == Closing::INVALID_ARGUMENT && end.message.contains(part), "{end:?}");
        assert!(bed.seen().health_hellos.is_empty());
    }
}

#[tokio::test]
async fn invalid_report_closes_the_stream() {
    let other = Node { id: "default.web-2".to_owned(), ..Node::default() };
    for (message, code) in [
        (from(Some(other)), Closing::INVALID_ARGUMENT),
        (Message::default(), Closing::INVALID_ARGUMENT),
        (reporting(&"x".repeat(1024 * 1024)), Closing::RESOURCE_EXHAUSTED),
    ] {
        let bed = Bed::start().await;
        order(&bed, checks("a"));
        let mut client = introduced(&bed).await;
        client.next().await;
        client.send(&message);
        assert_eq!(client.end().await.code, code);
        assert!(bed.seen().found.is_empty());
    }
}

#[tokio::test]
async fn stream_without_a_first_message_is_closed() {
    let bed = Bed::start_with(Limits { hello: Duration::from_millis(50), ..Limits::default() }).await;
    let mut client = Health::open(&bed, HEALTH, &[]).await;
    assert_eq!(client.end().await.code, Closing::INVALID_ARGUMENT);
}

//! Streams of load reports, over sockets.

use kodiak_ads::Closing;
use kodiak_envoy::duration;
use kodiak_envoy::envoy::config::core::v3::Node;
use kodiak_envoy::envoy::config::endpoint::v3::ClusterStats;
use kodiak_envoy::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};

use crate::bed::{Bed, REPORT_INTERVAL, WRONG};
use crate::client::{Client, LOAD, node};

type Load = Client<LoadStatsRequest, LoadStatsResponse>;

fn stats(cluster: &str) -> ClusterStats {
    ClusterStats { cluster_name: cluster.to_owned(), ..ClusterStats::default() }
}

fn message(node: Option<Node>, clusters: &[&str]) -> LoadStatsRequest {
    LoadStatsRequest { node, cluster_stats: clusters.iter().map(|cluster| stats(cluster)).collect() }
}

async fn introduced(bed: &Bed) -> Load {
    let client = Load::open(bed, LOAD, &[("authorization", "token")]).await;
    client.send(&message(Some(node()), &[]));
    client
}

fn all_clusters() -> LoadStatsResponse {
    LoadStatsResponse {
        send_all_clusters: true,
        load_reporting_interval: Some(duration(REPORT_INTERVAL)),
        ..LoadStatsResponse::default()
    }
}

#[tokio::test]
async fn proxy_is_asked_for_all_clusters_and_reports_them() {
    let bed = Bed::start().await;
    let mut client = introduced(&bed).await;
    assert_eq!(client.next().await, all_clusters());
    client.send(&message(Some(node()), &["a"]));
    client.send(&message(None, &["b", "c"]));
    let seen = bed.wait_for("both reports are there", |seen| seen.loads.len() == 3).await;
    assert_eq!(seen.loads, [vec![], vec![stats("a")], vec![stats("b"), stats("c")]]);
    let [hello] = &seen.load_hellos[..] else { panic!("{:?}", seen.load_hellos) };
    assert_eq!((hello.node.id.as_str(), hello.credential.0.as_deref()), ("default.web-1", Some("token")));
    assert!(!format!("{hello:?}").contains("token"));
    client.finish();
    assert_eq!(client.end().await, Closing { code: Closing::OK, message: String::new() });
    bed.wait_for("the end is known", |seen| seen.ended == 1).await;
}

#[tokio::test]
async fn report_of_a_proxy_that_reconnects_is_in_its_first_message() {
    let bed = Bed::start().await;
    let client = Load::open(&bed, LOAD, &[]).await;
    client.send(&message(Some(node()), &["a"]));
    let seen = bed.wait_for("the report is there", |seen| seen.loads.len() == 1).await;
    assert_eq!(seen.loads, [vec![stats("a")]]);
}

#[tokio::test]
async fn new_configuration_asks_again_without_a_longer_interval() {
    let bed = Bed::start().await;
    let mut client = introduced(&bed).await;
    client.next().await;
    bed.control_plane.configured.send_replace(());
    let again = client.next().await;
    assert!(again.send_all_clusters);
    let rest = again.load_reporting_interval.unwrap();
    let full = duration(REPORT_INTERVAL);
    assert!((rest.seconds, rest.nanos) < (full.seconds, full.nanos) && rest.seconds >= 1, "{rest:?}");
    client.send(&message(None, &["a"]));
    assert_eq!(client.next().await, all_clusters(), "with the whole interval after the report");
}

#[tokio::test]
async fn load_stream_is_closed_with_a_status() {
    let bed = Bed::start().await;
    let mut refused = Load::open(&bed, LOAD, &[("authorization", WRONG)]).await;
    refused.send(&message(Some(node()), &["a"]));
    assert_eq!(refused.end().await.code, Closing::UNAUTHENTICATED);
    assert!(bed.seen().loads.is_empty());

    let mut closed = introduced(&bed).await;
    closed.next().await;
    let reason = Closing { code: Closing::PERMISSION_DENIED, message: "the token was revoked".to_owned() };
    bed.control_plane.closing.send_replace(Some(reason.clone()));
    assert_eq!(closed.end().await, reason);
}

#[tokio::test]
async fn invalid_first_message_closes_the_stream() {
    for first in [message(None, &["a"]), message(Some(Node::default()), &[]), LoadStatsRequest::default()] {
        let bed = Bed::start().await;
        let mut client = Load::open(&bed, LOAD, &[]).await;
        client.send(&first);
        let end = client.end().await;
        assert!(end.code == Closing::INVALID_ARGUMENT && end.message.contains("`node`"), "{end:?}");
        assert!(bed.seen().load_hellos.is_empty());
    }
}

#[tokio::test]
async fn invalid_report_closes_the_stream() {
    let other = Node { id: "default.web-2".to_owned(), ..Node::default() };
    let long = "x".repeat(5000);
    let huge = "x".repeat(17 * 1024 * 1024);
    for (report, code) in [
        (message(Some(other), &[]), Closing::INVALID_ARGUMENT),
        (message(None, &[&long]), Closing::INVALID_ARGUMENT),
        (message(None, &[&huge]), Closing::RESOURCE_EXHAUSTED),
    ] {
        let bed = Bed::start().await;
        let mut client = introduced(&bed).await;
        client.next().await;
        client.send(&report);
        assert_eq!(client.end().await.code, code);
        assert_eq!(bed.seen().loads, [vec![]], "nothing but the first message");
    }
}

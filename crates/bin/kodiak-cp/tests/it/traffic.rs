//! Traffic that proxies report over the proxy port, and `GET /meshes/{mesh}/_traffic`.

use hyper::StatusCode;
use kodiak_ads::Closing;
use kodiak_cp::config::{Config, Traffic};
use kodiak_envoy::envoy::{
    config::{
        core::v3::Node,
        endpoint::v3::{ClusterStats, UpstreamLocalityStats},
    },
    service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse},
};
use kodiak_envoy::google::protobuf::Duration;
use kodiak_model::GoDuration;
use serde_json::{Value, json};

use crate::{
    grpc::{GrpcStream, token},
    harness::TestControlPlane,
};

const LRS: &str = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";

type LoadStream = GrpcStream<LoadStatsRequest, LoadStatsResponse>;

fn observing(config: &mut Config) {
    config.traffic = Traffic {
        observe: true,
        report_interval: GoDuration::from_secs(7),
        flush_interval: GoDuration::from_secs(1),
        ..Traffic::default()
    };
}

async fn started() -> TestControlPlane {
    let cp = TestControlPlane::start_with(observing).await;
    for service in ["web", "backend"] {
        let inbound = json!({ "port": 8080, "tags": { "kuma.io/service": service } });
        let body = json!({
            "type": "Dataplane", "mesh": "default", "name": format!("{service}-1"),
            "networking": { "address": "10.0.0.1", "inbound": [inbound] },
        });
        let answer = cp.put(&format!("/meshes/default/dataplanes/{service}-1"), &body).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);
    }
    cp
}

fn message(node: Option<&str>, clusters: Vec<ClusterStats>) -> LoadStatsRequest {
    let node = node.map(|name| Node { id: format!("default.{name}"), ..Node::default() });
    LoadStatsRequest { node, cluster_stats: clusters }
}

fn stats(cluster: &str, requests: u64, failed: u64) -> ClusterStats {
    ClusterStats {
        cluster_name: cluster.to_owned(),
        load_report_interval: Some(Duration { seconds: 7, nanos: 0 }),
        upstream_locality_stats: vec![UpstreamLocalityStats {
            total_issued_requests: requests,
            total_error_requests: failed,
            ..UpstreamLocalityStats::default()
        }],
        ..ClusterStats::default()
    }
}

async fn connected(cp: &TestControlPlane) -> LoadStream {
    let token = token(cp, "default", "web-1").await;
    let mut stream = LoadStream::open(cp, LRS, &token, &message(Some("web-1"), Vec::new())).await;
    let asked = stream.next().await;
    assert!(asked.send_all_clusters);
    assert_eq!(asked.load_reporting_interval, Some(Duration { seconds: 7, nanos: 0 }));
    stream
}

async fn traffic(cp: &TestControlPlane) -> Value {
    let answer = cp.get("/meshes/default/_traffic").await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer.json()
}

/// Until the edge has this many requests.
async fn until_counted(cp: &TestControlPlane, requests: u64) -> Value {
    for _ in 0..600 {
        let traffic = traffic(cp).await;
        if traffic["edges"][0]["requests"] == requests {
            return traffic;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("not {requests} requests: {}", traffic(cp).await);
}

#[tokio::test]
async fn reported_traffic_is_answered_and_survives_a_restart() {
    let cp = started().await;
    let empty = traffic(&cp).await;
    assert_eq!(empty["window"], json!({ "since": null, "until": null, "observing": true }));
    let stream = connected(&cp).await;
    stream.send(&message(None, vec![stats("backend", 5, 1), stats("localhost:8080", 9, 0)]));
    stream.send(&message(None, vec![stats("backend", 2, 0)]));
    let traffic = until_counted(&cp, 7).await;
    let edge = &traffic["edges"][0];
    assert_eq!((&edge["client"], &edge["destination"], &edge["failed"]), (&json!("web"), &json!("backend"), &json!(1)));
    assert_eq!(traffic["edges"].as_array().unwrap().len(), 1, "{traffic}");
    assert_eq!(
        traffic["destinations"],
        json!([{ "destination": "backend", "kind": "kuma.io/service", "name": "backend", "exists": true,
                 "proxies": [{ "tags": { "kuma.io/service": "backend" } }] }])
    );
    let client = &traffic["clients"][0];
    assert_eq!((&client["client"], &client["services"]), (&json!("web"), &json!(["web"])));
    assert!(client["observedSeconds"].as_u64() >= Some(7), "{client}");

    drop(stream);
    let cp = cp.restart_with(|config| config.traffic.observe = false).await;
    let kept = self::traffic(&cp).await;
    assert_eq!((&kept["edges"], &kept["window"]["observing"]), (&traffic["edges"], &json!(false)));
}

#[tokio::test]
async fn foreign_token_is_refused_before_anything_is_read() {
    let cp = started().await;
    let report = message(Some("web-1"), vec![stats("backend", 5, 0)]);
    for wrong in [token(&cp, "default", "backend-1").await, "no token".to_owned()] {
        let mut stream = LoadStream::open(&cp, LRS, &wrong, &report).await;
        assert_eq!(stream.status().await, Closing::UNAUTHENTICATED.to_string());
    }
    assert_eq!(traffic(&cp).await["edges"], json!([]));
}

#[tokio::test]
async fn huge_report_ends_the_stream() {
    let cp = started().await;
    let mut stream = connected(&cp).await;
    let long = "x".repeat(2000);
    let clusters = (0..10_000).map(|n| stats(&format!("{long}-{n}"), 1, 0));
    stream.send(&message(None, clusters.collect()));
    assert_eq!(stream.status().await, Closing::RESOURCE_EXHAUSTED.to_string());
    assert_eq!(traffic(&cp).await["edges"], json!([]));
    connected(&cp).await;
}

#[tokio::test]
async fn unknown_mesh_has_no_traffic() {
    let cp = TestControlPlane::start().await;
    assert_eq!(cp.get("/meshes/none/_traffic").await.status, StatusCode::NOT_FOUND);
    assert_eq!(traffic(&cp).await["window"]["observing"], false);
}

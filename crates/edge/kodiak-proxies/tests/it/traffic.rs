//! Load reports of proxies become observed traffic, which outlives control planes.

use std::time::Duration;

use http::StatusCode;
use kodiak_ads::{Closing, Hello, LoadHello, LoadSession, Proxies as _};
use kodiak_envoy::envoy::config::endpoint::v3::{ClusterStats, UpstreamLocalityStats};
use kodiak_envoy::google;
use kodiak_proxies::{Recheck, Registry, TrafficSettings};
use kodiak_tokens::DataplaneClaims;
use serde_json::json;

use crate::bed::{Bed, closing, dataplane, key, report, snapshot};

const TRAFFIC: TrafficSettings =
    TrafficSettings { interval: Duration::from_secs(10), flush_interval: Duration::from_secs(30), max_edges: 16 * 3 };

async fn observing() -> Bed {
    let bed = Bed::start_with(|settings| settings.traffic = Some(TRAFFIC)).await;
    for service in ["web", "backend", "orders", "users", "stock"] {
        let mut document = dataplane(&format!("{service}-1"));
        document["networking"]["inbound"][0]["tags"]["kuma.io/service"] = service.into();
        bed.put(document).await;
    }
    bed
}

fn asking(hello: Hello) -> LoadHello {
    let Hello { node, credential, protocol: _, peer } = hello;
    LoadHello { node, credential, peer }
}

async fn connect_to(registry: &Registry, bed: &Bed) -> LoadSession {
    registry.connect_load(asking(bed.hello("web-1"))).await.map_err(|closing| closing.message).unwrap()
}

/// Requests to clusters in the last ten seconds.
fn load(requests: &[(&str, u64)]) -> Vec<ClusterStats> {
    let stats = |(cluster, requests): &(&str, u64)| ClusterStats {
        cluster_name: (*cluster).to_owned(),
        load_report_interval: Some(google::protobuf::Duration { seconds: 10, nanos: 0 }),
        upstream_locality_stats: vec![UpstreamLocalityStats {
            total_issued_requests: *requests,
            ..UpstreamLocalityStats::default()
        }],
        ..ClusterStats::default()
    };
    requests.iter().map(stats).collect()
}

/// Requests of web by destination, as this control plane answers.
fn requests(registry: &Registry) -> Vec<(String, u64)> {
    let recorded = registry.observed_traffic("default");
    let clients = recorded.clients.get(&"web".into()).into_iter();
    clients.flat_map(|client| client.destinations.iter().map(|(to, edge)| (to.to_string(), edge.requests()))).collect()
}

fn of(edges: &[(&str, u64)]) -> Vec<(String, u64)> {
    edges.iter().map(|(destination, requests)| ((*destination).to_owned(), *requests)).collect()
}

#[tokio::test(start_paused = true)]
async fn reports_add_up_and_are_written_once_in_a_while() {
    let bed = observing().await;
    let mut session = connect_to(&bed.registry, &bed).await;
    assert_eq!(session.interval, TRAFFIC.interval);
    let commits = bed.commits();
    session.report.report(load(&[("backend", 2), ("localhost:8080", 9), ("orders", 0)]));
    session.report.report(load(&[("backend", 3), ("orders", 1)]));
    assert_eq!(requests(&bed.registry), of(&[("backend", 5), ("orders", 1)]));
    assert_eq!(bed.commits(), commits);
    bed.pass(Duration::from_secs(31)).await;
    assert_eq!(bed.commits(), commits + 1);
    assert_eq!(requests(&bed.another("cp-2")), of(&[("backend", 5), ("orders", 1)]), "another control plane reads it");
    bed.pass(Duration::from_secs(90)).await;
    assert_eq!(bed.commits(), commits + 1, "nothing changed");
}

#[tokio::test(start_paused = true)]
async fn traffic_is_written_before_the_control_plane_ends() {
    let bed = observing().await;
    connect_to(&bed.registry, &bed).await.report.report(load(&[("backend", 2)]));
    bed.drain();
    bed.pass(Duration::from_secs(1)).await;
    assert_eq!(requests(&bed.another("cp-2")), of(&[("backend", 2)]));
}

#[tokio::test(start_paused = true)]
async fn fold_of_an_ended_control_plane_counts_nothing_twice() {
    let bed = observing().await;
    // It was lost for the leader, but is alive.
    let other = bed.another_with("cp-2", |settings| settings.traffic = Some(TRAFFIC));
    let mut session = connect_to(&other, &bed).await;
    session.report.report(load(&[("backend", 2)]));
    other.flush_traffic().await;
    session.report.report(load(&[("backend", 5)]));
    bed.pass(Duration::from_secs(100)).await;
    assert_eq!(bed.traffic_records(), ["traffic.NN"], "the leader has folded the record");
    assert_eq!(requests(&bed.registry), of(&[("backend", 2)]));
    assert_eq!(requests(&other), of(&[("backend", 7)]));
    other.flush_traffic().await;
    assert_eq!(bed.traffic_records(), ["traffic.NN", "traffic.NN.cp-2"]);
    for registry in [&bed.registry, &other] {
        assert_eq!(requests(registry), of(&[("backend", 7)]));
    }
    bed.pass(Duration::from_secs(100)).await;
    assert_eq!(bed.traffic_records(), ["traffic.NN"]);
    assert_eq!(requests(&bed.registry), of(&[("backend", 7)]));
}

#[tokio::test(start_paused = true)]
async fn edges_beyond_the_limit_are_counted() {
    let bed = observing().await;
    let mut session = connect_to(&bed.registry, &bed).await;
    session.report.report(load(&[("backend", 1), ("orders", 1), ("stock", 1), ("users", 1)]));
    let recorded = bed.registry.observed_traffic("default");
    assert_eq!((recorded.edges(), recorded.dropped), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn traffic_of_a_deleted_mesh_is_gone() {
    let bed = observing().await;
    connect_to(&bed.registry, &bed).await.report.report(load(&[("backend", 2)]));
    bed.pass(Duration::from_secs(31)).await;
    bed.delete("Mesh", "", "default").await;
    assert_eq!(bed.traffic_records(), [""; 0]);
    bed.pass(Duration::from_secs(31)).await;
    bed.put(json!({ "type": "Mesh", "name": "default" })).await;
    assert_eq!(requests(&bed.registry), of(&[]));
}

#[tokio::test(start_paused = true)]
async fn stream_is_admitted_by_the_rules_of_other_streams() {
    let bed = observing().await;
    let refused = async |token: Option<String>| {
        let mut hello = bed.hello("web-1");
        hello.credential.0 = token;
        let admitted = bed.registry.connect_load(asking(hello)).await;
        admitted.err().map(|closing| closing.code)
    };
    assert_eq!(refused(None).await, Some(Closing::UNAUTHENTICATED));
    let foreign = DataplaneClaims { name: "backend-1".to_owned(), ..DataplaneClaims::default() };
    assert_eq!(refused(Some(bed.token(&foreign))).await, Some(Closing::UNAUTHENTICATED));
    assert_eq!(refused(Some(bed.token(&DataplaneClaims::default()))).await, None);

    let session = connect_to(&bed.registry, &bed).await;
    bed.delete("Dataplane", "default", "web-1").await;
    bed.recheck(Recheck::Proxy(key("web-1")));
    assert_eq!(session.closing.borrow().as_ref().map(|closing| closing.code), Some(Closing::UNAVAILABLE));
}

#[tokio::test(start_paused = true)]
async fn newer_stream_replaces_the_older_one() {
    let bed = observing().await;
    let older = connect_to(&bed.registry, &bed).await;
    let newer = connect_to(&bed.registry, &bed).await;
    assert_eq!(older.closing.borrow().as_ref().map(|closing| closing.code), Some(Closing::ALREADY_EXISTS));
    drop(older);
    assert!(newer.closing.borrow().is_none());
}

#[tokio::test(start_paused = true)]
async fn proxy_is_asked_again_when_it_has_new_configuration() {
    let bed = observing().await;
    let mut ads = bed.connect("web-1").await;
    let session = connect_to(&bed.registry, &bed).await;
    assert!(!session.configured.has_changed().unwrap());
    bed.registry.publish(&key("web-1"), snapshot(1), "".into(), Vec::new());
    report(&mut ads, &kodiak_xds_stream::Counters::default(), Some(1));
    assert!(session.configured.has_changed().unwrap());
    assert_eq!(closing(&ads), None);
}

#[tokio::test(start_paused = true)]
async fn stream_is_refused_when_observation_is_off() {
    let bed = Bed::start().await;
    bed.put(dataplane("web-1")).await;
    let admitted = bed.registry.connect_load(asking(bed.hello("web-1"))).await;
    assert_eq!(admitted.err().map(|closing| closing.code), Some(Closing::UNIMPLEMENTED));
}

#[tokio::test(start_paused = true)]
async fn callers_without_mtls_are_recorded_by_server_and_stored() {
    let bed = observing().await;
    let token = bed.token(&DataplaneClaims::default());
    let report = async |requests: u64, more: u64| {
        let caller = json!({ "port": 80, "address": "192.0.2.1", "requests": requests });
        let body = json!({ "mesh": "default", "name": "backend-1", "callers": [caller], "dropped": more });
        bed.post("/plaintext-callers", &[("authorization", &token)], &body.to_string()).await.0
    };
    assert_eq!((report(2, 0).await, report(3, 1).await), (StatusCode::OK, StatusCode::OK));
    let callers = |registry: &Registry| {
        let recorded = registry.observed_traffic("default");
        let callers = &recorded.plaintext[&"backend".into()];
        (callers.callers[&(80, "192.0.2.1".parse().unwrap())].requests, callers.dropped)
    };
    assert_eq!(callers(&bed.registry), (5, 1));
    bed.pass(Duration::from_secs(31)).await;
    assert_eq!(callers(&bed.another("cp-2")), (5, 1), "another control plane reads it");

    let body = json!({ "mesh": "default", "name": "backend-1", "callers": [{ "port": 0 }] }).to_string();
    assert_eq!(bed.post("/plaintext-callers", &[("authorization", &token)], &body).await.0, StatusCode::BAD_REQUEST);
    let unobserving = Bed::start().await;
    unobserving.put(dataplane("backend-1")).await;
    let token = unobserving.token(&DataplaneClaims::default());
    let answer = unobserving.post("/plaintext-callers", &[("authorization", &token)], &body).await;
    assert_eq!(answer.0, StatusCode::NOT_FOUND, "the control plane does not observe traffic");
}

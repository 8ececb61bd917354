//! Inbounds follow the health checks of Envoy, and those with a `serviceProbe` that of their workload.

use std::time::Duration;

use http::StatusCode;
use kodiak_ads::{Closing, HealthHello, HealthSession, Hello, Proxies as _, Session};
use kodiak_envoy::envoy::{
    config::core::v3::HealthStatus,
    service::health::v3::{ClusterEndpointsHealth, EndpointHealth, EndpointHealthResponse, LocalityEndpointsHealth},
};
use kodiak_proxies::Recheck;
use kodiak_tokens::DataplaneClaims;
use kodiak_xds_stream::Counters;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::bed::{Bed, hello, key, report, snapshot};

const ENVOY: &str = "kuma:envoy:admin";

/// Inbound 8080 has a `serviceProbe`, 8081 has none.
fn dataplane() -> Value {
    let mut document = crate::bed::dataplane("web-1");
    let tags = json!({ "kuma.io/service": "other" });
    document["networking"]["inbound"][0]["serviceProbe"] = json!({ "tcp": {} });
    document["networking"]["inbound"].as_array_mut().unwrap().push(json!({ "port": 8081, "tags": tags }));
    document
}

fn bringing(bed: &Bed) -> Hello {
    let metadata = json!({ "dataplane.resource": dataplane().to_string(), "dataplane.admin.port": "9901" });
    hello("default.web-1", &metadata, Some(bed.token(&DataplaneClaims::default())))
}

fn asking(hello: Hello) -> HealthHello {
    let Hello { node, credential, protocol: _, peer } = hello;
    HealthHello { node, credential, peer }
}

async fn connect(bed: &Bed) -> Session {
    bed.registry.connect(bringing(bed)).await.map_err(|closing| closing.message).unwrap()
}

async fn connect_health(bed: &Bed) -> HealthSession {
    bed.registry.connect_health(asking(bringing(bed))).await.map_err(|closing| closing.message).unwrap()
}

/// A proxy that has acknowledged its configuration, with a stream of health checks.
async fn arrived(bed: &Bed) -> (Session, HealthSession) {
    let mut session = connect(bed).await;
    let health = connect_health(bed).await;
    settle(bed, &mut session).await;
    (session, health)
}

/// The proxy acknowledges everything.
async fn settle(bed: &Bed, session: &mut Session) {
    bed.registry.publish(&key("web-1"), snapshot(1), "".into(), Vec::new());
    report(session, &Counters::default(), Some(1));
    bed.settle().await;
}

/// The proxy reports the health of itself and of its workload.
async fn find(bed: &Bed, health: &mut HealthSession, envoy: HealthStatus, workload: HealthStatus) {
    let found = |(cluster, status): (&str, HealthStatus)| {
        let endpoint = EndpointHealth { health_status: status.into(), ..EndpointHealth::default() };
        let locality = LocalityEndpointsHealth { endpoints_health: vec![endpoint], ..Default::default() };
        ClusterEndpointsHealth { cluster_name: cluster.to_owned(), locality_endpoints_health: vec![locality] }
    };
    let cluster_endpoints_health = [(ENVOY, envoy), ("localhost:8080", workload)].map(found).into();
    health.report.report(EndpointHealthResponse { cluster_endpoints_health, ..EndpointHealthResponse::default() });
    // Longer than the pause between two writes for a proxy.
    bed.pass(Duration::from_secs(3)).await;
}

fn ready(bed: &Bed) -> Vec<bool> {
    bed.dataplane("web-1").unwrap().inbounds().iter().map(kodiak_model::kinds::dataplane::Inbound::is_ready).collect()
}

fn version(bed: &Bed) -> u64 {
    bed.record("Dataplane", "web-1").unwrap().version
}

/// Names of the health checks that the proxy got.
fn checks(health: &HealthSession) -> Option<Vec<String>> {
    let checks = health.checks.borrow().clone()?;
    Some(checks.cluster_health_checks.iter().map(|check| check.cluster_name.clone()).collect())
}

#[tokio::test(start_paused = true)]
async fn only_inbounds_with_a_service_probe_follow_it() {
    use HealthStatus::{Healthy, Unhealthy};
    let bed = Bed::start().await;
    let (_session, mut health) = arrived(&bed).await;
    assert_eq!(ready(&bed), [false, true], "nobody has looked yet");
    find(&bed, &mut health, Healthy, Healthy).await;
    assert_eq!(ready(&bed), [true, true]);
    let written = version(&bed);
    find(&bed, &mut health, Healthy, Healthy).await;
    assert_eq!(version(&bed), written, "nothing new is not written");
    find(&bed, &mut health, Healthy, Unhealthy).await;
    assert_eq!((ready(&bed), version(&bed)), (vec![false, true], written + 1));
    find(&bed, &mut health, Healthy, Healthy).await;
    assert_eq!((ready(&bed), version(&bed)), (vec![true, true], written + 2));
}

#[tokio::test(start_paused = true)]
async fn proxy_is_not_ready_while_its_envoy_is_not_live() {
    use HealthStatus::{Healthy, Timeout, Unhealthy};
    let bed = Bed::start().await;
    let (session, mut health) = arrived(&bed).await;
    find(&bed, &mut health, Healthy, Healthy).await;
    let before = bed.dataplane("web-1");
    find(&bed, &mut health, Timeout, Healthy).await;
    assert_eq!(ready(&bed), [true, true], "a busy Envoy still serves");
    find(&bed, &mut health, Unhealthy, Healthy).await;
    assert_eq!(ready(&bed), [false, false]);
    // A write of a user does not make it ready, and neither does a new stream of the same process.
    bed.put(dataplane()).await;
    bed.registry.refresh_checks(&key("web-1"));
    bed.pass(Duration::from_secs(2)).await;
    assert_eq!(ready(&bed), [false, false]);
    let mut again = connect(&bed).await;
    settle(&bed, &mut again).await;
    assert_eq!(ready(&bed), [false, false]);
    find(&bed, &mut health, Healthy, Healthy).await;
    assert_eq!(bed.dataplane("web-1"), before, "it goes on");
    // It ends without being asked. The next process is ready once it listens, and probed workloads once they are checked.
    find(&bed, &mut health, Unhealthy, Healthy).await;
    drop((session, again, health));
    bed.restart("web-1").await;
    let mut session = connect(&bed).await;
    assert_eq!(ready(&bed), [false, false]);
    settle(&bed, &mut session).await;
    assert_eq!(ready(&bed), [false, true]);
}

#[tokio::test(start_paused = true)]
async fn inbounds_of_a_user_are_restored_by_another_control_plane() {
    use HealthStatus::{Healthy, Unhealthy};
    let bed = Bed::start().await;
    let mut written = crate::bed::dataplane("web-1");
    let stopped = json!({ "port": 8081, "state": "NotReady", "tags": { "kuma.io/service": "web" } });
    written["networking"]["inbound"].as_array_mut().unwrap().push(stopped);
    bed.put(written).await;
    let before = bed.dataplane("web-1");
    let proxy = || {
        let metadata = json!({ "dataplane.admin.port": "9901" });
        hello("default.web-1", &metadata, Some(bed.token(&DataplaneClaims::default())))
    };
    let mut health = bed.registry.connect_health(asking(proxy())).await.ok().unwrap();
    find(&bed, &mut health, Healthy, Healthy).await;
    find(&bed, &mut health, Unhealthy, Healthy).await;
    assert_eq!(ready(&bed), [false, false]);
    // This control plane ends, too: what it remembered is in the store.
    let other = bed.another_with("cp-2", |settings| {
        settings.server_names = vec!["localhost".to_owned()];
        settings.ca = Some("CA".to_owned());
    });
    let drain = CancellationToken::new();
    let _end = drain.clone().drop_guard();
    let running = other.clone();
    tokio::spawn(async move { running.run(drain).await });
    let token = bed.token(&DataplaneClaims::default());
    let request = json!({ "mesh": "default", "name": "web-1", "dataplaneToken": token }).to_string();
    assert_eq!(bed.post_to(&other, "/bootstrap", &[], &request).await.0, StatusCode::OK);
    let mut session = other.connect(proxy()).await.map_err(|closing| closing.message).unwrap();
    bed.settle().await;
    assert_eq!(ready(&bed), [false, false], "it does not listen yet");
    other.publish(&key("web-1"), snapshot(1), "".into(), Vec::new());
    report(&mut session, &Counters::default(), Some(1));
    bed.settle().await;
    assert_eq!(bed.dataplane("web-1"), before);
}

#[tokio::test(start_paused = true)]
async fn health_checks_follow_the_dataplane() {
    let bed = Bed::start().await;
    let mut health = connect_health(&bed).await;
    assert_eq!(checks(&health), None, "its Dataplane comes with the other stream");
    let _session = connect(&bed).await;
    bed.registry.refresh_checks(&key("web-1"));
    assert_eq!(checks(&health), Some(vec![ENVOY.to_owned(), "localhost:8080".to_owned()]));
    health.checks.mark_unchanged();
    bed.registry.refresh_checks(&key("web-1"));
    bed.registry.refresh_checks(&key("web-2"));
    assert!(!health.checks.has_changed().unwrap(), "it is recorded once");
    let mut changed = dataplane();
    changed["networking"]["inbound"][1]["serviceProbe"] = json!({});
    bed.put(changed).await;
    bed.registry.refresh_checks(&key("web-1"));
    assert_eq!(checks(&health).unwrap().len(), 3);
    bed.put(crate::bed::dataplane("web-1")).await;
    bed.registry.refresh_checks(&key("web-1"));
    assert_eq!(checks(&health), Some(vec![ENVOY.to_owned()]));
    let mut gateway = crate::bed::dataplane("web-1");
    gateway["networking"] = json!({ "address": "10.0.0.1", "gateway": { "tags": { "kuma.io/service": "edge" } } });
    bed.put(gateway).await;
    bed.registry.refresh_checks(&key("web-1"));
    assert_eq!(checks(&health), Some(Vec::new()), "it has to be sent that there is nothing any more");
}

#[tokio::test(start_paused = true)]
async fn healthy_proxy_is_not_ready_before_it_acknowledged() {
    let bed = Bed::start().await;
    let mut health = connect_health(&bed).await;
    let mut session = connect(&bed).await;
    find(&bed, &mut health, HealthStatus::Healthy, HealthStatus::Healthy).await;
    assert_eq!(ready(&bed), [false, false]);
    settle(&bed, &mut session).await;
    assert_eq!(ready(&bed), [true, true]);
}

#[tokio::test(start_paused = true)]
async fn drained_proxy_is_not_ready_whatever_its_probes_report() {
    use HealthStatus::{Healthy, Unhealthy};
    let bed = Bed::start().await;
    let (session, mut health) = arrived(&bed).await;
    find(&bed, &mut health, Healthy, Unhealthy).await;
    let token = bed.token(&DataplaneClaims::default());
    let drain = async || {
        bed.post("/drain", &[("authorization", &token)], r#"{"mesh":"default","name":"web-1"}"#).await;
        bed.registry.refresh_checks(&key("web-1"));
    };
    drain().await;
    find(&bed, &mut health, Healthy, Healthy).await;
    assert_eq!(ready(&bed), [false, false]);
    drop((session, health));
    bed.restart("web-1").await;
    let (session, mut health) = arrived(&bed).await;
    assert_eq!(ready(&bed), [false, true], "it is back, and has not looked yet");
    find(&bed, &mut health, Healthy, Healthy).await;
    assert_eq!(ready(&bed), [true, true]);
    drain().await;
    find(&bed, &mut health, Healthy, Healthy).await;
    assert_eq!(ready(&bed), [false, false]);
    drop((session, health));
}

#[tokio::test(start_paused = true)]
async fn probe_results_are_kept_when_the_proxy_reconnects() {
    use HealthStatus::{Healthy, Unhealthy};
    let bed = Bed::start().await;
    let (session, mut health) = arrived(&bed).await;
    for (status, expected) in [(Unhealthy, [false, true]), (Healthy, [true, true])] {
        find(&bed, &mut health, Healthy, status).await;
        // The Dataplane that it provides says that all are ready.
        let mut again = connect(&bed).await;
        assert_eq!(ready(&bed), expected, "{status:?}");
        settle(&bed, &mut again).await;
        assert_eq!(ready(&bed), expected, "{status:?}");
    }
    drop(session);
}

#[tokio::test(start_paused = true)]
async fn put_does_not_override_a_failing_probe() {
    use HealthStatus::{Healthy, Unhealthy};
    let bed = Bed::start().await;
    bed.put(dataplane()).await;
    assert_eq!(ready(&bed), [false, true], "not before the first probe");
    let mut health = connect_health(&bed).await;
    assert_eq!(checks(&health).unwrap().len(), 2);
    find(&bed, &mut health, Healthy, Unhealthy).await;
    bed.put(dataplane()).await;
    assert_eq!(ready(&bed), [true, true]);
    bed.registry.refresh_checks(&key("web-1"));
    bed.pass(Duration::from_secs(2)).await;
    assert_eq!(ready(&bed), [false, true]);

    find(&bed, &mut health, Healthy, Healthy).await;
    let mut stopped = dataplane();
    stopped["networking"]["inbound"][0]["state"] = json!("NotReady");
    bed.put(stopped).await;
    bed.registry.refresh_checks(&key("web-1"));
    bed.pass(Duration::from_secs(2)).await;
    assert_eq!(ready(&bed), [false, true], "until the proxy says otherwise");
    find(&bed, &mut health, Healthy, Healthy).await;
    assert_eq!(ready(&bed), [true, true]);
}

#[tokio::test(start_paused = true)]
async fn probe_results_keep_a_concurrent_put() {
    let bed = Bed::start().await;
    bed.put(dataplane()).await;
    let mut health = connect_health(&bed).await;
    for round in 0..20 {
        let status = if round % 2 == 0 { HealthStatus::Healthy } else { HealthStatus::Unhealthy };
        let mut document = dataplane();
        document["networking"]["inbound"][1]["tags"]["round"] = json!(round.to_string());
        let (write, report) = (bed.put(document), find(&bed, &mut health, HealthStatus::Healthy, status));
        tokio::join!(report, write);
        bed.registry.refresh_checks(&key("web-1"));
        find(&bed, &mut health, HealthStatus::Healthy, status).await;
        assert_eq!(ready(&bed), [round % 2 == 0, true], "{round}");
        assert_eq!(bed.dataplane("web-1").unwrap().inbounds()[1].tags["round"], round.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn flapping_workload_is_not_written_each_time() {
    let bed = Bed::start().await;
    let (_session, mut health) = arrived(&bed).await;
    find(&bed, &mut health, HealthStatus::Healthy, HealthStatus::Healthy).await;
    let written = version(&bed);
    for status in [HealthStatus::Unhealthy, HealthStatus::Healthy].into_iter().cycle().take(100) {
        let envoy = HealthStatus::Healthy;
        // Cut short, so that no time passes in between.
        drop(tokio::time::timeout(Duration::from_millis(10), find(&bed, &mut health, envoy, status)).await);
    }
    bed.pass(Duration::from_secs(3)).await;
    assert!(version(&bed) <= written + 4, "{} writes", version(&bed) - written);
    assert_eq!(ready(&bed), [true, true], "the last word counts");
}

#[tokio::test(start_paused = true)]
async fn health_stream_needs_a_token_that_is_valid_for_the_proxy() {
    let bed = Bed::start().await;
    let refused = async |bed: &Bed, hello: Hello| {
        bed.registry.connect_health(asking(hello)).await.err().expect("it is refused").code
    };
    let metadata = json!({ "dataplane.resource": dataplane().to_string() });
    assert_eq!(refused(&bed, hello("default.web-1", &metadata, None)).await, Closing::UNAUTHENTICATED);
    let foreign = bed.token(&DataplaneClaims { name: "api".to_owned(), ..DataplaneClaims::default() });
    assert_eq!(refused(&bed, hello("default.web-1", &metadata, Some(foreign))).await, Closing::UNAUTHENTICATED);
    let unknown = hello("default.web-1", &json!({}), Some(bed.token(&DataplaneClaims::default())));
    assert_eq!(refused(&bed, unknown).await, Closing::UNAUTHENTICATED);
    let token = Some(bed.token(&DataplaneClaims::default()));
    let ingress = hello("default.web-1", &json!({ "dataplane.proxyType": "ingress" }), token);
    assert_eq!(refused(&bed, ingress).await, Closing::INVALID_ARGUMENT);
    assert!(bed.record("Dataplane", "web-1").is_none(), "nothing is registered here");
    let off = Bed::start_with(|settings| settings.health = None).await;
    assert_eq!(refused(&off, bringing(&off)).await, Closing::UNIMPLEMENTED);
}

#[tokio::test(start_paused = true)]
async fn newest_health_stream_wins() {
    let bed = Bed::start().await;
    let _session = connect(&bed).await;
    let mut older = connect_health(&bed).await;
    let mut newer = connect_health(&bed).await;
    assert_eq!(older.closing.borrow().as_ref().unwrap().code, Closing::ALREADY_EXISTS);
    find(&bed, &mut newer, HealthStatus::Healthy, HealthStatus::Unhealthy).await;
    find(&bed, &mut older, HealthStatus::Healthy, HealthStatus::Healthy).await;
    drop(older);
    bed.put(crate::bed::dataplane("web-1")).await;
    bed.registry.refresh_checks(&key("web-1"));
    assert_eq!(checks(&newer), Some(vec![ENVOY.to_owned()]), "it is still known");
}

#[tokio::test(start_paused = true)]
async fn invalid_token_closes_both_streams() {
    let bed = Bed::start().await;
    let (session, health) = arrived(&bed).await;
    bed.recheck(Recheck::All);
    assert_eq!((session.closing.borrow().is_none(), health.closing.borrow().is_none()), (true, true));
    bed.delete("Secret", "default", "dataplane-token-signing-key-default-1").await;
    bed.recheck(Recheck::Mesh("default".into()));
    for closing in [&session.closing, &health.closing] {
        assert_eq!(closing.borrow().as_ref().unwrap().code, Closing::UNAUTHENTICATED);
    }
    let bed = Bed::start().await;
    let (_session, health) = arrived(&bed).await;
    bed.turn_clock(Duration::from_hours(1000));
    bed.pass(Duration::from_secs(2)).await;
    assert_eq!(health.closing.borrow().as_ref().unwrap().code, Closing::UNAUTHENTICATED);
}

#[tokio::test(start_paused = true)]
async fn without_health_checks_a_proxy_is_ready_once_it_acknowledged() {
    let bed = Bed::start_with(|settings| settings.health = None).await;
    let mut session = connect(&bed).await;
    assert_eq!(ready(&bed), [false, false]);
    settle(&bed, &mut session).await;
    assert_eq!(ready(&bed), [true, true]);
}

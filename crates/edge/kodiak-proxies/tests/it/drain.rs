//! `POST /drain`.

use http::StatusCode;
use kodiak_ads::{Proxies as _, Session};
use kodiak_tokens::DataplaneClaims;
use kodiak_xds_stream::Counters;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bed::{Bed, dataplane, hello, key, report, snapshot};

const WEB: &str = r#"{"mesh":"default","name":"web-1"}"#;

#[tokio::test(start_paused = true)]
async fn drained_proxy_is_not_ready_until_a_new_process_starts() {
    let bed = Bed::start().await;
    let session = arrived(&bed, "web-1").await;
    let token = bed.token(&DataplaneClaims { name: "web-1".to_owned(), ..DataplaneClaims::default() });
    let labels = bed.record("Dataplane", "web-1").unwrap().labels;
    let is_ready = || bed.dataplane("web-1").unwrap().inbounds()[0].is_ready();
    assert!(is_ready());
    assert_eq!(bed.post("/drain", &[("authorization", &token)], WEB).await, (StatusCode::OK, "{}".to_owned()));
    assert!(!is_ready());
    assert_eq!(bed.record("Dataplane", "web-1").unwrap().labels, labels);
    assert_eq!(bed.post("/drain", &[("authorization", &token)], WEB).await.0, StatusCode::OK, "again");
    drop(session);
    // Envoy reconnects while its process drains, here or at another control plane.
    let other = bed.another("cp-2");
    let drain = CancellationToken::new();
    let _end = drain.clone().drop_guard();
    let running = other.clone();
    tokio::spawn(async move { running.run(drain).await });
    for registry in [&bed.registry, &other] {
        let session = registry.connect(bed.hello("web-1")).await;
        let mut session = session.map_err(|closing| closing.message).unwrap();
        registry.publish(&key("web-1"), snapshot(1), "".into(), Vec::new());
        report(&mut session, &Counters::default(), Some(1));
        bed.settle().await;
        assert!(!is_ready(), "it is the same process");
    }
    bed.restart("web-1").await;
    let mut session = bed.connect("web-1").await;
    bed.settle().await;
    assert!(!is_ready(), "it does not listen yet");
    settle(&bed, &mut session, "web-1").await;
    assert!(is_ready());
}

#[tokio::test(start_paused = true)]
async fn new_proxy_is_ready_once_it_acknowledged_its_configuration() {
    let bed = Bed::start().await;
    let is_ready = || bed.dataplane("web-1").unwrap().inbounds()[0].is_ready();
    let mut session = bed.connect("web-1").await;
    bed.settle().await;
    assert!(!is_ready());
    settle(&bed, &mut session, "web-1").await;
    assert!(is_ready());
    drop(session);
    let _session = bed.connect("web-1").await;
    assert!(is_ready(), "it went on serving while it was not connected");
}

#[tokio::test(start_paused = true)]
async fn draining_proxy_stays_not_ready_whatever_it_acknowledges() {
    let bed = Bed::start().await;
    let is_ready = || bed.dataplane("web-1").unwrap().inbounds()[0].is_ready();
    let token = bed.token(&DataplaneClaims::default());
    let mut arriving = bed.connect("web-1").await;
    assert_eq!(bed.post("/drain", &[("authorization", &token)], WEB).await.0, StatusCode::OK);
    settle(&bed, &mut arriving, "web-1").await;
    assert!(!is_ready(), "it goes before it has arrived");
    drop(arriving);
    bed.restart("web-1").await;
    let mut session = arrived(&bed, "web-1").await;
    assert!(is_ready());
    assert_eq!(bed.post("/drain", &[("authorization", &token)], WEB).await.0, StatusCode::OK);
    settle(&bed, &mut session, "web-1").await;
    assert!(!is_ready());
}

async fn arrived(bed: &Bed, name: &str) -> Session {
    let mut session = bed.connect(name).await;
    settle(bed, &mut session, name).await;
    session
}

/// The proxy acknowledges everything.
async fn settle(bed: &Bed, session: &mut Session, name: &str) {
    bed.registry.publish(&key(name), snapshot(1), "".into(), Vec::new());
    report(session, &Counters::default(), Some(1));
    bed.settle().await;
}

#[tokio::test(start_paused = true)]
async fn drain_needs_a_token_that_is_valid_for_the_proxy() {
    let bed = Bed::start().await;
    bed.put(dataplane("web-1")).await;
    let foreign = bed.token(&DataplaneClaims { name: "api".to_owned(), ..DataplaneClaims::default() });
    let any = bed.token(&DataplaneClaims::default());
    let two = [("authorization", any.as_str()), ("authorization", any.as_str())];
    for (headers, reason) in [
        (&[][..], "authentication failed: there is no token; send one dataplane token in `authorization`"),
        (&two[..], "authentication failed: there is no token; send one dataplane token in `authorization`"),
        (
            &[("authorization", foreign.as_str())][..],
            "authentication failed: proxy name from requestor: web-1 is different than in token: api",
        ),
    ] {
        assert_eq!(bed.post("/drain", headers, WEB).await, (StatusCode::UNAUTHORIZED, reason.to_owned()));
    }
    assert!(bed.dataplane("web-1").unwrap().inbounds()[0].is_ready());
    let unknown = r#"{"mesh":"default","name":"nobody"}"#;
    assert_eq!(bed.post("/drain", &[("authorization", &any)], unknown).await, (StatusCode::NOT_FOUND, String::new()));
    assert_eq!(bed.post("/drain", &[("authorization", &any)], "{}").await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn inbounds_of_a_user_are_restored_after_a_drain() {
    let bed = Bed::start().await;
    let mut written = dataplane("web-1");
    let inbound = json!({ "port": 8081, "state": "NotReady", "tags": { "kuma.io/service": "web" } });
    written["networking"]["inbound"].as_array_mut().unwrap().push(inbound);
    bed.put(written).await;
    let before = bed.dataplane("web-1").unwrap();
    let token = bed.token(&DataplaneClaims::default());
    for _ in 0..2 {
        assert_eq!(bed.post("/drain", &[("authorization", &token)], WEB).await.0, StatusCode::OK);
    }
    assert!(bed.dataplane("web-1").unwrap().inbounds().iter().all(|inbound| !inbound.is_ready()));
    bed.restart("web-1").await;
    let proxy = hello("default.web-1", &json!({}), Some(token));
    let mut session = bed.registry.connect(proxy).await.map_err(|closing| closing.message).unwrap();
    settle(&bed, &mut session, "web-1").await;
    assert_eq!(bed.dataplane("web-1"), Some(before));
}

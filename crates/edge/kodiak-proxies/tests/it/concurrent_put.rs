//! A user's PUT of a Dataplane that arrives while the registry writes the same Dataplane.
//!
//! The race is certain, not likely: the runtime has one thread, so the PUT is polled until its transaction is in the
//! store's queue, and the registry then reads a snapshot that does not have it yet.

use std::{
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Duration,
};

use http::StatusCode;
use kodiak_ads::{Closing, Proxies as _};
use kodiak_tokens::DataplaneClaims;
use kodiak_xds_stream::Counters;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::bed::{Bed, dataplane, hello, report};

const WEB: &str = r#"{"mesh":"default","name":"web-1"}"#;

/// The Dataplane as a user changes it.
fn changed_by_user() -> Value {
    let mut document = dataplane("web-1");
    document["networking"]["inbound"][0]["tags"]["version"] = json!("2");
    document
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Puts the transaction of the PUT into the store's queue.
fn queue(put: Pin<&mut impl Future<Output = ()>>) {
    assert!(poll(put).is_pending(), "the store has not answered");
}

/// State of the inbound, and the tag that the user's PUT sets.
fn inbound(bed: &Bed) -> (bool, Option<String>) {
    let dataplane = bed.dataplane("web-1").unwrap();
    let inbound = &dataplane.inbounds()[0];
    (inbound.is_ready(), inbound.tags.get("version").cloned())
}

#[tokio::test(start_paused = true)]
async fn drain_keeps_a_concurrent_put() {
    let bed = Bed::start().await;
    bed.put(dataplane("web-1")).await;
    let token = bed.token(&DataplaneClaims::default());
    let headers = [("authorization", token.as_str())];
    let mut put = pin!(bed.put(changed_by_user()));
    queue(put.as_mut());
    let ((), drained) = tokio::join!(put, bed.post("/drain", &headers, WEB));
    assert_eq!(drained.0, StatusCode::OK);
    assert_eq!(inbound(&bed), (false, Some("2".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn end_of_a_drain_keeps_a_concurrent_put() {
    let bed = Bed::start().await;
    bed.put(dataplane("web-1")).await;
    let registry = bed.another("cp-2");
    let mut run = pin!(registry.run(CancellationToken::new()));
    let token = bed.token(&DataplaneClaims::default());
    let drained = bed.post_to(&registry, "/drain", &[("authorization", &token)], WEB).await;
    assert_eq!(drained.0, StatusCode::OK);
    let proxy = hello("default.web-1", &json!({}), Some(token));
    let mut session = registry.connect(proxy).await.map_err(|closing| closing.message).unwrap();
    // Writes the insight of the new stream, so that only readiness is left to write.
    assert!(tokio::time::timeout(Duration::from_millis(500), run.as_mut()).await.is_err());
    assert_eq!(inbound(&bed), (false, None), "the proxy has not acknowledged its configuration");

    report(&mut session, &Counters::default(), Some(1));
    assert!(poll(run.as_mut()).is_pending());
    tokio::time::advance(Duration::from_millis(200)).await;
    let mut put = pin!(bed.put(changed_by_user()));
    queue(put.as_mut());
    assert!(poll(run.as_mut()).is_pending(), "the store has not answered");
    put.await;
    assert!(tokio::time::timeout(Duration::from_millis(500), run).await.is_err());
    assert_eq!(inbound(&bed), (true, Some("2".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn registration_does_not_replace_a_concurrent_put_that_the_token_does_not_cover() {
    let bed = Bed::start().await;
    let tags = [("kuma.io/service".to_owned(), ["web".to_owned()].into())].into();
    let token = bed.token(&DataplaneClaims { tags, ..DataplaneClaims::default() });
    let metadata = json!({ "dataplane.resource": dataplane("web-1").to_string() });
    let mut document = dataplane("web-1");
    document["networking"]["inbound"][0]["tags"]["kuma.io/service"] = json!("payments");
    let mut put = pin!(bed.put(document));
    queue(put.as_mut());
    let proxy = hello("default.web-1", &metadata, Some(token));
    let ((), connected) = tokio::join!(put, bed.registry.connect(proxy));
    let refused = connected.err().expect("the stored Dataplane is not the proxy's");
    assert_eq!(refused.code, Closing::UNAUTHENTICATED, "{}", refused.message);
    let stored = bed.dataplane("web-1").unwrap();
    assert_eq!(stored.inbounds()[0].tags["kuma.io/service"], "payments");
}

#[tokio::test(start_paused = true)]
async fn registration_decides_readiness_on_the_dataplane_that_it_replaces() {
    let bed = Bed::start().await;
    bed.put(dataplane("web-1")).await;
    let mut stopped = changed_by_user();
    stopped["networking"]["inbound"][0]["state"] = json!("NotReady");
    let mut put = pin!(bed.put(stopped));
    queue(put.as_mut());
    let ((), session) = tokio::join!(put, bed.connect("web-1"));
    assert_eq!(inbound(&bed), (false, None), "NotReady until the proxy has acknowledged its configuration");
    drop(session);
}

#[tokio::test(start_paused = true)]
async fn deregistration_does_not_delete_a_concurrent_put() {
    let bed = Bed::start().await;
    let registry = bed.another("cp-2");
    let mut run = pin!(registry.run(CancellationToken::new()));
    drop(registry.connect(bed.hello("web-1")).await.map_err(|closing| closing.message).unwrap());
    assert!(tokio::time::timeout(Duration::from_millis(9_500), run.as_mut()).await.is_err());
    assert!(bed.dataplane("web-1").is_some());

    tokio::time::advance(Duration::from_secs(2)).await;
    let mut put = pin!(bed.put(changed_by_user()));
    queue(put.as_mut());
    assert!(poll(run.as_mut()).is_pending(), "the store has not answered");
    put.await;
    assert!(tokio::time::timeout(Duration::from_secs(2), run.as_mut()).await.is_err());
    assert_eq!(inbound(&bed).1, Some("2".to_owned()), "the next decision is due after the deregistration delay");
}

//! A real Envoy gets all of its configuration from our port, in both protocols, and its traffic survives every change.

mod messages;
mod running;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kodiak_testkit::envoy::envoy;
use kodiak_xds_stream::TypeUrl;
use tokio::net::TcpListener;

use crate::bed::{Bed, Seen};
use crate::resources::sized_cluster;
use messages::{assignment, bootstrap, cluster, cold_cluster, listener};
use running::{Running, get};

/// A server that answers with its name.
async fn upstream(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer =
                service_fn(move |_| async move { Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(name))) });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
        }
    });
    address
}

/// Sends requests until it is stopped. Returns how many failed.
async fn ask_until(stop: &AtomicBool, address: &str, asked: &AtomicU64) -> u64 {
    let mut failed = 0;
    while !stop.load(Ordering::Relaxed) {
        failed += u64::from(get(address, "/").await.is_none());
        asked.fetch_add(1, Ordering::Relaxed);
    }
    failed
}

async fn settled(bed: &Bed, revision: u64) -> Seen {
    bed.wait_for(&format!("revision {revision} is settled"), |seen| seen.settled == Some(revision)).await
}

async fn takes_everything(api_type: &str) {
    let Some(envoy) = envoy() else { return };
    let (one, other) = (upstream("one").await, upstream("other").await);
    let bed = Bed::with(&[cluster("5s"), assignment(one), listener("outbound")]).await;
    let envoy = Running::start(envoy, &bootstrap(&bed, api_type));
    let outbound = envoy.listener("outbound").await;
    let answers = |name: &'static str| {
        let outbound = &outbound;
        async move || get(outbound, "/").await?.ends_with(name).then_some(())
    };
    envoy.wait_for("requests reach the upstream", answers("one")).await;
    let seen = bed.seen();
    assert_eq!((seen.hellos.len(), seen.hellos[0].credential.0.as_deref()), (1, Some("token")));

    bed.snapshot(2, &[cluster("5s"), assignment(other), listener("outbound")]);
    envoy.wait_for("requests move with the endpoint", answers("other")).await;
    settled(&bed, 2).await;

    let (stop, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let changes = async {
        for (revision, timeout) in (3..).zip(["6s", "7s", "8s"]) {
            bed.snapshot(revision, &[cluster(timeout), assignment(other), listener("outbound")]);
            settled(&bed, revision).await;
            envoy.wait_for_stat("cluster_manager.warming_clusters", 0).await;
            let before = asked.load(Ordering::Relaxed);
            envoy.wait_for("more requests", async || (asked.load(Ordering::Relaxed) > before + 20).then_some(())).await;
        }
        stop.store(true, Ordering::Relaxed);
    };
    let (failed, ()) = tokio::join!(ask_until(&stop, &outbound, &asked), changes);
    assert_eq!(failed, 0, "of {} requests", asked.load(Ordering::Relaxed));
    envoy.wait_for_stat("cluster_manager.cluster_modified", 3).await;

    bed.snapshot(6, &[cluster("8s"), assignment(one), listener("")]);
    let seen = bed.wait_for("the listener is rejected", |seen| seen.of(TypeUrl::Listener).rejected == 1).await;
    let error = seen.of(TypeUrl::Listener).last_error.unwrap();
    assert!(error.contains("outbound") && error.contains("StatPrefix"), "{error}");
    envoy.wait_for("requests move though the listener is bad", answers("one")).await;
    let seen = bed.seen();
    assert_eq!((seen.of(TypeUrl::Cluster).rejected, seen.of(TypeUrl::Endpoint).rejected), (0, 0));
    assert_eq!((seen.hellos.len(), seen.ended), (1, 0), "one stream for all of it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delta_serves_envoy() {
    takes_everything("DELTA_GRPC").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sotw_serves_envoy() {
    takes_everything("GRPC").await;
}

/// A cluster that does not get warm delays Envoy's answer to all clusters.
async fn cold_cluster_holds_up_no_other(api_type: &str) {
    let Some(envoy) = envoy() else { return };
    let (one, other) = (upstream("one").await, upstream("other").await);
    let bed = Bed::with(&[cluster("5s"), assignment(one), listener("outbound")]).await;
    let envoy = Running::start(envoy, &bootstrap(&bed, api_type));
    let outbound = envoy.listener("outbound").await;
    settled(&bed, 1).await;

    bed.snapshot(2, &[cluster("5s"), cold_cluster(), assignment(one), listener("outbound")]);
    envoy.wait_for_stat("cluster_manager.warming_clusters", 1).await;
    // The next change of clusters has to wait.
    let next = sized_cluster("next", 1, 0);
    bed.snapshot(3, &[cluster("5s"), cold_cluster(), next, assignment(other), listener("renamed")]);
    envoy
        .wait_for("requests move with the endpoint", async || {
            get(&outbound, "/").await?.ends_with("other").then_some(())
        })
        .await;
    envoy.wait_for_stat("listener_manager.listener_modified", 1).await;
    let seen = bed.seen();
    let clusters = seen.of(TypeUrl::Cluster);
    assert_eq!((seen.settled, clusters.sent - clusters.acknowledged), (Some(1), 1), "the answer is still missing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cold_cluster_holds_up_no_other_in_delta() {
    cold_cluster_holds_up_no_other("DELTA_GRPC").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cold_cluster_holds_up_no_other_in_sotw() {
    cold_cluster_holds_up_no_other("GRPC").await;
}

//! A control plane with a full disk is read-only and not ready, but serves proxies.

use std::{sync::Arc, time::Duration};

use hyper::{Method, StatusCode};
use kodiak_ads::Proxies as _;
use kodiak_cp::{ControlPlane, config::DpProxyAuthnType};
use kodiak_testkit::disk::SmallDisk;
use kodiak_xds_stream::Snapshot;
use serde_json::json;

use crate::{
    harness::{config, get, send},
    history::hello,
};

const PATIENCE: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_makes_the_control_plane_read_only_until_space_is_free() {
    let Some(disk) = SmallDisk::mount(32) else { return };
    let mut config = config(disk.path());
    config.dp_server.authn.dp_proxy.authn_type = DpProxyAuthnType::None;
    let cp = ControlPlane::start(config).await.unwrap();
    let (http, diagnostics) = (cp.http.unwrap(), cp.diagnostics);
    until_ready(&cp).await;
    let mut session = cp.registry.connect(hello("web-1")).await.map_err(|closing| closing.message).unwrap();
    let is_there = |snapshot: &Option<Arc<Snapshot>>| snapshot.is_some();
    tokio::time::timeout(PATIENCE, session.snapshots.wait_for(is_there)).await.unwrap().unwrap();

    disk.fill().unwrap();
    let secret = |n: usize| {
        let data = "A".repeat(512 << 10);
        let body = json!({ "type": "Secret", "mesh": "default", "name": format!("s{n}"), "data": data }).to_string();
        async move { send(http, Method::PUT, &format!("/meshes/default/secrets/s{n}"), &[], body).await }
    };
    let mut n = 0;
    let refused = loop {
        let answer = secret(n).await;
        if answer.status == StatusCode::SERVICE_UNAVAILABLE {
            break answer;
        }
        assert!(answer.status.is_success() && n < 100, "{} {}", answer.status, answer.text);
        n += 1;
    };
    assert!(refused.text.contains("No space left on device"), "{}", refused.text);
    let ready = get(diagnostics, "/ready").await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(ready.text.contains("read-only") && ready.text.contains("No space left on device"), "{}", ready.text);
    assert_eq!(get(diagnostics, "/healthy").await.status, StatusCode::OK, "a restart would not help");
    assert_eq!(get(http, "/meshes/default").await.status, StatusCode::OK, "reads go on");
    assert!(session.closing.borrow().is_none() && session.snapshots.borrow().is_some(), "proxies are served");

    disk.empty().unwrap();
    until_ready(&cp).await;
    assert!(secret(n).await.status.is_success());
    drop(session);
    cp.stop().await.unwrap();
}

async fn until_ready(cp: &ControlPlane) {
    let reached = async {
        while get(cp.diagnostics, "/ready").await.status != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.expect("it becomes ready");
}

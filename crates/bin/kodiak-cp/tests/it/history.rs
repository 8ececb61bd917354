//! A database that loses commits while a proxy is connected.

use std::{sync::Arc, time::Duration};

use hyper::StatusCode;
use kodiak_ads::{Credential, Hello, Protocol, Proxies as _, Session};
use kodiak_cp::config::{DpProxyAuthnType, StoreType};
use kodiak_envoy::{envoy::config::core::v3::Node, json};
use kodiak_testkit::postgres::{HOST, Server, USER};
use kodiak_xds_stream::{ResourceSet, Snapshot};
use serde_json::json;

use crate::harness::TestControlPlane;

const PATIENCE: Duration = Duration::from_mins(1);

async fn connect(cp: &TestControlPlane) -> Session {
    cp.control_plane.registry.connect(hello("web-1")).await.map_err(|closing| closing.message).unwrap()
}

/// Proxy that registers its Dataplane, without a token.
pub(crate) fn hello(name: &str) -> Hello {
    let dataplane = json!({
        "type": "Dataplane", "mesh": "default", "name": name,
        "networking": {
            "address": "10.0.0.1",
            "inbound": [{ "port": 8080, "tags": { "kuma.io/service": "web", "kuma.io/protocol": "http" } }],
        },
    });
    let metadata = Some(json::from_json(&json!({ "dataplane.resource": dataplane.to_string() })).unwrap());
    let node = Node { id: format!("default.{name}"), metadata, ..Node::default() };
    let peer = "127.0.0.1:1".parse().unwrap();
    Hello { node, credential: Credential(None), protocol: Protocol::Delta, peer }
}

/// Waits until the snapshot of the proxy matches.
async fn until(session: &mut Session, what: &str, reached: impl Fn(&ResourceSet) -> bool) -> ResourceSet {
    let is_reached = |snapshot: &Option<Arc<Snapshot>>| snapshot.as_ref().is_some_and(|it| reached(&it.resources));
    let waited = tokio::time::timeout(PATIENCE, session.snapshots.wait_for(is_reached)).await;
    let found = waited.unwrap_or_else(|_| panic!("{what} did not happen")).unwrap();
    found.as_ref().unwrap().resources.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn connected_proxy_gets_the_state_of_a_database_that_lost_commits() {
    let Some(mut server) = Server::start() else { return };
    let database = server.create_database().unwrap();
    let cp = TestControlPlane::start_with(|config| {
        config.store.store_type = StoreType::Postgres;
        config.store.seal_secrets = false;
        config.store.postgres.host = HOST.to_owned();
        config.store.postgres.port = server.port();
        config.store.postgres.user = USER.to_owned();
        config.store.postgres.db_name = database;
        config.store.postgres.poll_interval_seconds = 1;
        config.dp_server.authn.dp_proxy.authn_type = DpProxyAuthnType::None;
    })
    .await;
    // The leader creates it after the start.
    while cp.get("/meshes/default").await.status != StatusCode::OK {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut session = connect(&cp).await;
    let before = until(&mut session, "the first snapshot", |_| true).await;
    let path = "/meshes/default/meshtimeouts/lost";
    let timeout = json!({
        "type": "MeshTimeout", "mesh": "default", "name": "lost",
        "spec": { "targetRef": { "kind": "Dataplane" }, "rules": [{ "default": { "connectionTimeout": "77s" } }] },
    });

    server.stop().unwrap();
    server.save("before").unwrap();
    server.run().unwrap();
    let mut status = StatusCode::SERVICE_UNAVAILABLE;
    while status == StatusCode::SERVICE_UNAVAILABLE {
        status = cp.put(path, &timeout).await.status;
    }
    assert!(status.is_success(), "{status}");
    until(&mut session, "the change", |now| *now != before).await;

    server.stop().unwrap();
    server.put_back("before").unwrap();
    server.run().unwrap();
    until(&mut session, "the change being taken back", |now| *now == before).await;
    assert_eq!(cp.get(path).await.status, StatusCode::NOT_FOUND);
    assert!(session.closing.borrow().is_none(), "the proxy stays connected");
    // The control plane continues on the new history.
    let mut status = StatusCode::SERVICE_UNAVAILABLE;
    while status == StatusCode::SERVICE_UNAVAILABLE {
        status = cp.put(path, &timeout).await.status;
    }
    until(&mut session, "the change again", |now| *now != before).await;
}

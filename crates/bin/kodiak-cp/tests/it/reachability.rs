//! Proxies that get only the destinations that they may call.

use std::time::Duration;

use kodiak_cp::config::ReachabilityMode;
use kodiak_envoy::envoy::config::listener::v3::Listener;
use kodiak_xds_stream::TypeUrl;
use prost::Message as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{ads::Stream, harness::TestControlPlane};

/// In this time, a proxy would have been sent a change.
const LONG: Duration = Duration::from_millis(500);
const PERMISSION: &str = "/meshes/shop/meshtrafficpermissions/x";

async fn put(cp: &TestControlPlane, path: &str, body: &Value) {
    let answer = cp.put(path, body).await;
    assert!(answer.status.is_success(), "{path}: {}", answer.text);
}

/// A mesh with a server `x` that allows nobody, and a transparent client `a`.
async fn start() -> TestControlPlane {
    let cp = TestControlPlane::start_with(|config| config.reachability.mode = ReachabilityMode::On).await;
    let mtls = json!({ "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin" }] });
    let mesh = json!({ "type": "Mesh", "name": "shop", "mtls": mtls, "skipCreatingInitialPolicies": ["*"] });
    put(&cp, "/meshes/shop", &mesh).await;
    for (n, name) in ["x", "a"].into_iter().enumerate() {
        let tags = json!({ "kuma.io/service": name, "kuma.io/protocol": "http" });
        let networking = json!({
            "address": format!("10.0.0.{n}"),
            "inbound": [{ "port": 8080, "tags": tags }],
            "transparentProxying": { "redirectPortInbound": 15006, "redirectPortOutbound": 15001 },
        });
        let dataplane = json!({ "type": "Dataplane", "mesh": "shop", "name": name, "networking": networking });
        put(&cp, &format!("/meshes/shop/dataplanes/{name}"), &dataplane).await;
    }
    cp
}

fn allow(caller: &str) -> Value {
    let item = json!({ "targetRef": { "kind": "MeshService", "name": caller }, "default": { "action": "Allow" } });
    let spec = json!({ "targetRef": { "kind": "MeshService", "name": "x" }, "from": [item] });
    json!({ "type": "MeshTrafficPermission", "mesh": "shop", "name": "x", "spec": spec })
}

/// A proxy that acknowledges everything, unless a test does.
struct Proxy {
    stream: Stream,
    /// Whether it has a listener at a virtual address: of `x`, because `a` allows nobody.
    has_outbound: bool,
}

impl Proxy {
    /// Subscribes to clusters, to listeners, which are sent after them and removed before them, and to secrets, without
    /// which a proxy is not ready.
    async fn connect(cp: &TestControlPlane, name: &str) -> Self {
        let stream = Stream::connect(cp, "shop", name).await;
        stream.request(TypeUrl::Listener);
        stream.request_secrets(&["identity_cert:secret:shop", "mesh_ca:secret:shop"]);
        let mut proxy = Self { stream, has_outbound: false };
        proxy.settle().await;
        proxy
    }

    async fn receive(&mut self) {
        let response = self.stream.receive().await;
        if response.type_url == TypeUrl::Listener.as_str() {
            let mut listeners = response.resources.iter().map(|any| Listener::decode(&*any.value).unwrap());
            self.has_outbound = listeners.any(|listener| listener.name.starts_with("outbound:240."));
        }
    }

    /// Receives until nothing comes any more.
    async fn settle(&mut self) {
        while timeout(LONG, self.receive()).await.is_ok() {}
    }

    async fn wait_until(&mut self, has_outbound: bool) {
        let waiting = async {
            while self.has_outbound != has_outbound {
                self.receive().await;
            }
        };
        timeout(Duration::from_mins(1), waiting).await.expect("the proxy is sent the change");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permission_reaches_servers_before_their_callers() {
    let cp = start().await;
    let mut server = Proxy::connect(&cp, "x").await;
    let mut client = Proxy::connect(&cp, "a").await;
    assert!(!client.has_outbound);

    put(&cp, PERMISSION, &allow("a")).await;
    let listeners = server.stream.next().await;
    client.settle().await;
    assert!(!client.has_outbound, "the server has not acknowledged yet");
    server.stream.acknowledge(&listeners);
    client.wait_until(true).await;

    assert!(cp.delete(PERMISSION).await.status.is_success());
    let listeners = server.stream.next().await;
    client.settle().await;
    assert!(client.has_outbound, "the server has not acknowledged yet");
    server.stream.acknowledge(&listeners);
    client.wait_until(false).await;
    cp.control_plane.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn label_of_the_mesh_overrides_the_setting() {
    let cp = start().await;
    let mut client = Proxy::connect(&cp, "a").await;
    assert!(!client.has_outbound);
    let mut mesh = cp.get("/meshes/shop").await.json();
    mesh["labels"]["kodiak.io/reachability"] = json!("shadow");
    put(&cp, "/meshes/shop", &mesh).await;
    client.wait_until(true).await;
    cp.control_plane.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn mistyped_mode_is_refused() {
    let cp = start().await;
    let mut mesh = cp.get("/meshes/shop").await.json();
    mesh["labels"]["kodiak.io/reachability"] = json!("yes");
    let refused = cp.put("/meshes/shop", &mesh).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    let expected =
        r#"labels["kodiak.io/reachability"]: "yes" is not a mode of reachability: use "off", "shadow" or "on""#;
    assert_eq!(refused.problems(), [expected]);
    cp.control_plane.stop().await.unwrap();
}

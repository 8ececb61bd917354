//! Authentication of proxies, and the end of open streams.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http_body_util::{BodyExt as _, Full};
use hyper::{Method, Request, StatusCode, body::Bytes};
use hyper_util::{client::legacy::Client, client::legacy::connect::HttpConnector, rt::TokioExecutor};
use kodiak_ads::{Closing, Credential, HealthHello, Hello, Protocol, Proxies as _};
use kodiak_envoy::{envoy::config::core::v3::Node, json::from_json};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::harness::{Answer, TestControlPlane};

const NOT_A_TOKEN: &str = "authentication failed: the token is not a JWT; generate a new one";

/// Posts to the proxy port over TLS.
pub(crate) async fn post(cp: &TestControlPlane, path: &str, body: &Value) -> Answer {
    let ca = std::fs::read(cp.folder().join("kodiak.crt")).unwrap();
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(kodiak_crypto::client_config(&ca).unwrap())
        .https_only()
        .enable_http1()
        .wrap_connector(http);
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let uri = format!("https://localhost:{}{path}", cp.control_plane.proxies.port());
    let request = Request::post(uri).body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let response = client.request(request).await.unwrap();
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    Answer { status, text: String::from_utf8(bytes.to_vec()).unwrap() }
}

async fn token(cp: &TestControlPlane, body: &Value) -> String {
    let answer = cp.send(Method::POST, "/tokens/dataplane", &[], body.to_string()).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer.text
}

fn token_id(token: &str) -> String {
    let payload = base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    serde_json::from_slice::<Value>(&payload).unwrap()["jti"].as_str().unwrap().to_owned()
}

fn dataplane(name: &str) -> Value {
    json!({
        "type": "Dataplane", "mesh": "default", "name": name,
        "networking": { "address": "10.0.0.1", "inbound": [{ "port": 8080, "tags": { "kuma.io/service": "web" } }] },
    })
}

fn hello(name: &str, token: &str) -> Hello {
    brings(name, &dataplane(name), token)
}

fn brings(name: &str, document: &Value, token: &str) -> Hello {
    let metadata = json!({ "dataplane.resource": document.to_string() });
    let metadata = Some(from_json(&metadata).unwrap());
    let node = Node { id: format!("default.{name}"), metadata, ..Node::default() };
    let credential = Credential(Some(token.to_owned()));
    Hello { node, credential, protocol: Protocol::Delta, peer: "127.0.0.1:1".parse().unwrap() }
}

#[tokio::test]
async fn token_is_verified_before_the_request_is_read() {
    let cp = TestControlPlane::start().await;
    // 131 KB that expand to more than a gigabyte.
    let bomb = format!("a: &a {}\nb: [{}]\n", "x".repeat(41_000), vec!["*a"; 30_000].join(","));
    for resource in ["{{[", &bomb] {
        let mut request = json!({
            "mesh": "default", "name": "web-1", "dataplaneToken": "nonsense", "dataplaneResource": resource,
        });
        let answer = post(&cp, "/bootstrap", &request).await;
        assert_eq!((answer.status, answer.text.as_str()), (StatusCode::UNAUTHORIZED, NOT_A_TOKEN));
        request["dataplaneToken"] = json!(token(&cp, &json!({ "mesh": "default", "validFor": "1h" })).await);
        let answer = post(&cp, "/bootstrap", &request).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", answer.text);
        assert!(answer.text.starts_with("the Dataplane is not YAML: "), "{}", answer.text);
    }
}

#[tokio::test]
async fn streams_end_when_their_token_is_revoked_in_a_global_secret() {
    let cp = TestControlPlane::start().await;
    let asked = json!({ "mesh": "default", "validFor": "1h" });
    let (revoked, good) = (token(&cp, &asked).await, token(&cp, &asked).await);
    let registry = &cp.control_plane.registry;
    let hello_of_revoked = hello("web-1", &revoked);
    let Hello { node, credential, peer, .. } = hello_of_revoked.clone();
    let mut session = registry.connect(hello_of_revoked).await.ok().unwrap();
    let mut health = registry.connect_health(HealthHello { node, credential, peer }).await.ok().unwrap();
    let other = registry.connect(hello("web-2", &good)).await.ok().unwrap();
    let secret = json!({
        "type": "GlobalSecret", "name": "dataplane-token-revocations-default",
        "data": BASE64_STANDARD.encode(token_id(&revoked)),
    });
    let put = cp.put("/globalsecrets/dataplane-token-revocations-default", &secret).await;
    assert_eq!(put.status, StatusCode::CREATED, "{}", put.text);
    // Long before the periodic check.
    let end = std::time::Duration::from_secs(30);
    for closing in [&mut session.closing, &mut health.closing] {
        let closed = tokio::time::timeout(end, ended(closing)).await.expect("the stream is closed");
        assert!(closed.code == Closing::UNAUTHENTICATED && closed.message.contains("revoked"), "{closed:?}");
    }
    assert!(other.closing.borrow().is_none());
}

async fn ended(closing: &mut watch::Receiver<Option<Closing>>) -> Closing {
    closing.wait_for(Option::is_some).await.unwrap().clone().unwrap()
}

/// Waits until the resource matches.
async fn eventually(cp: &TestControlPlane, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let look = async {
        loop {
            let found = cp.get(path).await.json();
            if is_so(&found) {
                return found;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    if let Ok(found) = tokio::time::timeout(std::time::Duration::from_mins(1), look).await {
        return found;
    }
    panic!("{path} stays {}", cp.get(path).await.text)
}

fn identities(service: &Value) -> Vec<String> {
    let all = service["spec"]["identities"].as_array().cloned().unwrap_or_default();
    all.iter().filter_map(|identity| identity["value"].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn label_that_the_token_does_not_bind_selects_no_service() {
    let cp = TestControlPlane::start().await;
    let payments = "/meshes/default/meshservices/payments";
    let spec = json!({
        "selector": { "dataplaneLabels": { "matchLabels": { "app": "payments" } } },
        "ports": [{ "port": 80, "targetPort": 8080, "appProtocol": "http" }],
    });
    let service = json!({ "type": "MeshService", "mesh": "default", "name": "payments", "spec": spec });
    assert_eq!(cp.put(payments, &service).await.status, StatusCode::CREATED);
    let of_payments = |name: &str, service: &str| {
        let mut document = dataplane(name);
        document["labels"] = json!({ "app": "payments" });
        document["networking"]["inbound"][0]["tags"]["kuma.io/service"] = json!(service);
        document
    };
    let bound = async |service: &str, labels: Value| {
        let tags = json!({ "kuma.io/service": [service] });
        let asked = json!({ "mesh": "default", "tags": tags, "labels": labels, "validFor": "1h" });
        token(&cp, &asked).await
    };
    let registry = &cp.control_plane.registry;
    let own = bound("payments", json!({ "app": ["payments"] })).await;
    let own = brings("payments-1", &of_payments("payments-1", "payments"), &own);
    let _own = registry.connect(own).await.ok().unwrap();
    eventually(&cp, payments, |service| identities(service) == ["payments"]).await;

    let web = of_payments("web-1", "web");
    let weak = bound("web", json!({})).await;
    let _weak = registry.connect(brings("web-1", &web, &weak)).await.ok().unwrap();
    let found = eventually(&cp, payments, |service| {
        let condition = &service["status"]["conditions"][0];
        condition["type"] == "MembersVouchedFor" && condition["message"].to_string().contains("web-1")
    })
    .await;
    assert_eq!(identities(&found), ["payments"]);
    assert_eq!(found["status"]["dataplaneProxies"]["total"], 2);

    let narrow = bound("web", json!({ "app": ["web"] })).await;
    let refused = registry.connect(brings("web-1", &web, &narrow)).await.err().unwrap();
    assert!(refused.message.contains("label \"app\" with value \"payments\" which is not allowed"), "{refused:?}");
    let vouched = bound("web", json!({ "app": ["payments"] })).await;
    let _vouched = registry.connect(brings("web-1", &web, &vouched)).await.ok().unwrap();
    let found = eventually(&cp, payments, |service| identities(service) == ["payments", "web"]).await;
    assert_eq!(found["status"]["conditions"], Value::Null);
}

//! Secrets are not disclosed through resources, responses or proxies.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hyper::{Method, StatusCode};
use kodiak_model::ResourceKey;
use kodiak_store::{Expect, Write};
use prost::Message as _;
use serde_json::{Value, json};

use crate::{
    ads::Stream,
    harness::{Answer, TestControlPlane},
};

const SIGNING_KEY: &str = "dataplane-token-signing-key-default-1";
const OWN: &str = "-----BEGIN PRIVATE KEY-----\nof the user\n-----END PRIVATE KEY-----\n";
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\npublic\n-----END CERTIFICATE-----\n";
const FIELD: &str = "spec.tls.verification.clientKey.secret";
const EXTERNAL: &str = "/meshes/default/meshexternalservices/out";

fn external(name: &str, key: &Value) -> Value {
    let verification = json!({ "mode": "SkipCA", "clientCert": { "inlineString": CERTIFICATE }, "clientKey": key });
    json!({ "type": "MeshExternalService", "mesh": "default", "name": name, "spec": {
        "match": { "type": "HostnameGenerator", "port": 443, "protocol": "tcp" },
        "endpoints": [{ "address": "192.0.2.1", "port": 443 }],
        "tls": { "enabled": true, "verification": verification },
    } })
}

/// User who may write resources but not read Secrets.
struct Operator<'a> {
    cp: &'a TestControlPlane,
    bearer: String,
}

impl<'a> Operator<'a> {
    async fn of(cp: &'a TestControlPlane) -> Self {
        let body = json!({ "name": "john", "groups": ["operators"], "validFor": "1h" }).to_string();
        let token = cp.send(Method::POST, "/tokens/user", &[], body).await.text;
        Self { cp, bearer: format!("Bearer {token}") }
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Answer {
        let headers = [("x-real-ip", "192.0.2.1"), ("authorization", self.bearer.as_str())];
        self.cp.send(method, path, &headers, body.to_string()).await
    }
}

async fn put_secret(cp: &TestControlPlane, name: &str, data: &str) {
    let secret = json!({ "type": "Secret", "mesh": "default", "name": name, "data": BASE64_STANDARD.encode(data) });
    assert_eq!(cp.put(&format!("/meshes/default/secrets/{name}"), &secret).await.status, StatusCode::CREATED);
}

#[tokio::test]
async fn secret_of_the_control_plane_cannot_be_sent_to_a_proxy() {
    let cp = TestControlPlane::start().await;
    put_secret(&cp, "own", OWN).await;
    let operator = Operator::of(&cp).await;
    let attack = external("out", &json!({ "secret": SIGNING_KEY }));
    for path in [EXTERNAL.to_owned(), format!("{EXTERNAL}?dryRun=true")] {
        let refused = operator.send(Method::PUT, &path, &attack).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.text);
        assert!(refused.problems()[0].starts_with(&format!("{FIELD}: the Secret")), "{}", refused.text);
    }
    assert_eq!(cp.put(EXTERNAL, &attack).await.status, StatusCode::BAD_REQUEST, "not even by an administrator");

    // A resource that a version without the rule stored, beside a valid one.
    let write = Write::Put {
        key: ResourceKey::in_mesh("MeshExternalService", "default", "out"),
        spec: attack["spec"].to_string().into(),
        labels: [("kuma.io/mesh".to_owned(), "default".to_owned())].into(),
        owner: Some(ResourceKey::global("Mesh", "default")),
        expect: Expect::Absent,
    };
    cp.control_plane.catalog.store().commit(write.into()).await.unwrap();
    let right = external("right", &json!({ "secret": "own" }));
    let put = cp.put("/meshes/default/meshexternalservices/right", &right).await;
    assert_eq!(put.status, StatusCode::CREATED, "{}", put.text);
    let outbound = |name: &str, port: u16| json!({ "port": port, "backendRef": { "kind": "MeshExternalService", "name": name, "port": 443 } });
    let networking = json!({
        "address": "127.0.0.1",
        "inbound": [{ "port": 80, "tags": { "kuma.io/service": "web" } }],
        "outbound": [outbound("out", 1001), outbound("right", 1002)],
    });
    let dataplane = json!({ "type": "Dataplane", "mesh": "default", "name": "web-1", "networking": networking });
    assert_eq!(cp.put("/meshes/default/dataplanes/web-1", &dataplane).await.status, StatusCode::CREATED);
    let secret = cp.get(&format!("/meshes/default/secrets/{SIGNING_KEY}")).await.json();
    let key = String::from_utf8(BASE64_STANDARD.decode(secret["data"].as_str().unwrap()).unwrap()).unwrap();
    let inner = key.lines().nth(3).expect("a key has many lines");

    let mut proxy = Stream::connect(&cp, "default", "web-1").await;
    loop {
        let clusters = String::from_utf8_lossy(&proxy.receive().await.encode_to_vec()).into_owned();
        assert!(!clusters.contains(inner), "the key that signs tokens reached a proxy");
        if clusters.contains("of the user") && clusters.contains("out__") {
            break;
        }
    }
}

#[tokio::test]
async fn reference_to_a_secret_needs_read_access() {
    let cp = TestControlPlane::start_with(|config| {
        config.access.lists.view_config_dump.groups = vec!["operators".to_owned()];
    })
    .await;
    put_secret(&cp, "own", OWN).await;
    let operator = Operator::of(&cp).await;
    let document = external("out", &json!({ "secret": "own" }));
    for path in [EXTERNAL.to_owned(), format!("{EXTERNAL}?dryRun=true")] {
        let refused = operator.send(Method::PUT, &path, &document).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.text);
        assert!(refused.problems()[0].starts_with(&format!("{FIELD}: adding a reference")), "{}", refused.text);
    }
    let diff = json!({ "resources": [document] });
    let refused = operator.send(Method::POST, "/meshes/default/_diff", &diff).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.text);
    assert!(refused.problems()[0].starts_with(&format!("resources[0].{FIELD}: ")), "{}", refused.text);

    assert_eq!(cp.put(EXTERNAL, &document).await.status, StatusCode::CREATED);
    let mut edited = document.clone();
    edited["spec"]["endpoints"][0]["port"] = json!(444);
    assert_eq!(operator.send(Method::PUT, EXTERNAL, &edited).await.status, StatusCode::OK, "what is there may stay");
}

#[tokio::test]
async fn inline_private_key_is_encrypted_and_never_returned() {
    let cp = TestControlPlane::start().await;
    let operator = Operator::of(&cp).await;
    let document = external("out", &json!({ "inlineString": OWN }));
    assert_eq!(operator.send(Method::PUT, EXTERNAL, &document).await.status, StatusCode::CREATED);
    let k8s = format!("{EXTERNAL}?format=k8s");
    for path in [EXTERNAL, "/meshes/default/meshexternalservices", "/meshexternalservices", k8s.as_str()] {
        let answer = operator.send(Method::GET, path, &json!({})).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        assert!(!answer.text.contains("of the user"), "{path}: {}", answer.text);
    }
    let read = operator.send(Method::GET, EXTERNAL, &json!({})).await.json();
    let name = read["spec"]["tls"]["verification"]["clientKey"]["secret"].as_str().unwrap().to_owned();
    assert_eq!(
        operator.send(Method::PUT, EXTERNAL, &read).await.status,
        StatusCode::OK,
        "what was read is written back"
    );
    let path = format!("/meshes/default/secrets/{name}");
    assert_eq!(operator.send(Method::GET, &path, &json!({})).await.status, StatusCode::FORBIDDEN);
    assert_eq!(cp.get(&path).await.json()["data"], BASE64_STANDARD.encode(OWN));

    let folder = cp.folder().to_owned();
    let mut found = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(bytes) = std::fs::read(&path) else { continue };
        for needle in ["of the user".to_owned(), BASE64_STANDARD.encode(OWN)] {
            let plain = bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
            assert!(!plain, "{} holds the key in plain text", path.display());
        }
        found += usize::from(bytes.windows(EXTERNAL_KIND.len()).any(|window| window == EXTERNAL_KIND));
    }
    assert!(found > 0, "the store file is in {}", folder.display());
}

const EXTERNAL_KIND: &[u8] = b"MeshExternalService";

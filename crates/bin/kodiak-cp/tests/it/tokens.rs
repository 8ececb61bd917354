//! Tokens: issued, accepted, rejected, rotated, revoked.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Answer, TestControlPlane};

/// Sends a request that does not count as local.
const REMOTE: (&str, &str) = ("x-forwarded-for", "192.0.2.1");

async fn as_user(cp: &TestControlPlane, token: &str, method: Method, path: &str, body: &Value) -> Answer {
    let bearer = format!("Bearer {token}");
    cp.send(method, path, &[REMOTE, ("authorization", &bearer)], body.to_string()).await
}

async fn admin_token(cp: &TestControlPlane) -> String {
    let secret = cp.get("/globalsecrets/admin-user-token").await.json();
    String::from_utf8(BASE64_STANDARD.decode(secret["data"].as_str().unwrap()).unwrap()).unwrap()
}

async fn user_token(cp: &TestControlPlane, body: &Value) -> String {
    let answer = cp.send(Method::POST, "/tokens/user", &[], body.to_string()).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer.text
}

fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

#[tokio::test]
async fn admin_token_grants_remote_access_to_secrets() {
    let cp = TestControlPlane::start().await;
    let path = "/meshes/default/secrets";
    assert_eq!(cp.get(path).await.status, StatusCode::OK);
    assert_eq!(cp.send(Method::GET, path, &[REMOTE], String::new()).await.status, StatusCode::FORBIDDEN);
    let token = admin_token(&cp).await;
    assert_eq!(as_user(&cp, &token, Method::GET, path, &json!({})).await.status, StatusCode::OK);
    let who = as_user(&cp, &token, Method::GET, "/who-am-i", &json!({})).await.json();
    assert_eq!(
        who,
        json!({ "name": "mesh-system:admin", "groups": ["mesh-system:admin", "mesh-system:authenticated"] })
    );
}

#[tokio::test]
async fn user_and_groups_are_those_of_the_token() {
    let cp = TestControlPlane::start().await;
    let token = user_token(&cp, &json!({ "name": "john", "groups": ["team-a"], "validFor": "1h" })).await;
    let who = as_user(&cp, &token, Method::GET, "/who-am-i", &json!({})).await.json();
    assert_eq!(who, json!({ "name": "john", "groups": ["team-a", "mesh-system:authenticated"] }));
    let denied = as_user(&cp, &token, Method::GET, "/globalsecrets", &json!({})).await;
    assert_eq!(denied.status, StatusCode::FORBIDDEN);
    assert_eq!(
        denied.json()["detail"],
        r#"user "john/team-a,mesh-system:authenticated" cannot access the resource of type "GlobalSecret""#
    );
    let body = json!({ "name": "x", "validFor": "1h" });
    assert_eq!(as_user(&cp, &token, Method::POST, "/tokens/user", &body).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn invalid_tokens_are_rejected() {
    let cp = TestControlPlane::start().await;
    let token = user_token(&cp, &json!({ "name": "john", "validFor": "1s" })).await;
    let mut tampered = token.clone();
    tampered.replace_range(tampered.len() - 4.., "AAAA");
    let dataplane =
        cp.send(Method::POST, "/tokens/dataplane", &[], json!({ "mesh": "default" }).to_string()).await.text;
    let other = TestControlPlane::start().await;
    let foreign = user_token(&other, &json!({ "name": "john", "validFor": "1h" })).await;
    for bad in ["", "x", "a.b.c", &tampered, &dataplane, &foreign] {
        let refused = as_user(&cp, bad, Method::GET, "/who-am-i", &json!({})).await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED, "{bad}");
        assert_eq!(refused.json()["title"], "Invalid authentication data");
    }
    let basic = cp.send(Method::GET, "/who-am-i", &[REMOTE, ("authorization", "Basic YTpi")], String::new()).await;
    assert_eq!(basic.status, StatusCode::UNAUTHORIZED);
    while as_user(&cp, &token, Method::GET, "/who-am-i", &json!({})).await.status == StatusCode::OK {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(as_user(&cp, &token, Method::GET, "/who-am-i", &json!({})).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn revoked_token_is_rejected_at_once() {
    let cp = TestControlPlane::start().await;
    let token = user_token(&cp, &json!({ "name": "john", "validFor": "1h" })).await;
    assert_eq!(as_user(&cp, &token, Method::GET, "/who-am-i", &json!({})).await.status, StatusCode::OK);
    let list = format!("another,{}\n", claims(&token)["jti"].as_str().unwrap());
    let body =
        json!({ "type": "GlobalSecret", "name": "user-token-revocations", "data": BASE64_STANDARD.encode(list) });
    assert_eq!(cp.put("/globalsecrets/user-token-revocations", &body).await.status, StatusCode::CREATED);
    assert_eq!(as_user(&cp, &token, Method::GET, "/who-am-i", &json!({})).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn signing_keys_are_rotated_by_adding_and_removing_secrets() {
    let cp = TestControlPlane::start().await;
    let old = user_token(&cp, &json!({ "name": "old", "validFor": "1h" })).await;
    let spare = TestControlPlane::start().await;
    let key = spare.get("/globalsecrets/user-token-signing-key-1").await.json()["data"].clone();
    let body = json!({ "type": "GlobalSecret", "name": "user-token-signing-key-2", "data": key });
    cp.put("/globalsecrets/user-token-signing-key-2", &body).await;
    let new = user_token(&cp, &json!({ "name": "new", "validFor": "1h" })).await;
    for token in [&old, &new] {
        assert_eq!(as_user(&cp, token, Method::GET, "/who-am-i", &json!({})).await.status, StatusCode::OK);
    }
    cp.delete("/globalsecrets/user-token-signing-key-1").await;
    assert_eq!(as_user(&cp, &old, Method::GET, "/who-am-i", &json!({})).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(as_user(&cp, &new, Method::GET, "/who-am-i", &json!({})).await.status, StatusCode::OK);
}

#[tokio::test]
async fn token_requests_are_validated() {
    let cp = TestControlPlane::start().await;
    let post = async |path: &str, body: Value| cp.send(Method::POST, path, &[], body.to_string()).await;
    let problems = async |path: &str, body: Value| post(path, body).await.problems();
    assert_eq!(problems("/tokens/dataplane", json!({})).await, ["mesh: cannot be empty"]);
    assert_eq!(
        problems("/tokens/dataplane", json!({ "mesh": "default", "type": "pod" })).await,
        ["type: pod is not a valid proxy type"]
    );
    assert_eq!(problems("/tokens/user", json!({})).await, ["name: cannot be empty", "validFor: cannot be empty"]);
    assert_eq!(problems("/tokens/zone", json!({ "validFor": "1h" })).await, ["scope: cannot be empty"]);
    assert!(
        problems("/tokens/user", json!({ "name": "a", "validFor": "soon" })).await[0]
            .starts_with("validFor: is invalid: ")
    );
    let body = json!({ "mesh": "default", "name": "dp-1", "tags": { "kuma.io/service": ["web"] }, "workload": "w" });
    let token = post("/tokens/dataplane", body).await.text;
    let claims = claims(&token);
    assert_eq!(
        (&claims["Name"], &claims["Mesh"], &claims["Workload"]),
        (&"dp-1".into(), &"default".into(), &"w".into())
    );
    cp.delete("/globalsecrets/zone-token-signing-key-1").await;
    let missing = post("/tokens/zone", json!({ "zone": "east", "scope": ["egress"], "validFor": "1h" })).await;
    assert_eq!((missing.status, &missing.json()["title"]), (StatusCode::NOT_FOUND, &json!("Signing Key not found")));
}

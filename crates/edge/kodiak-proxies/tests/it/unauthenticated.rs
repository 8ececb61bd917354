//! Nothing that a proxy sends is read before its token is verified, and nothing that it sends multiplies.

use http::StatusCode;
use kodiak_ads::{Closing, HealthHello, Proxies as _};
use kodiak_proxies::Authn;
use kodiak_tokens::DataplaneClaims;
use serde_json::{Value, json};

use crate::bed::{Bed, dataplane, hello};

const NOT_A_TOKEN: &str = "authentication failed: the token is not a JWT; generate a new one";

/// Text that every YAML parser rejects.
const BROKEN: &str = "{{[";

/// 131 KB of YAML that used to become 2.85 GB: one long text, and an alias of it for every few bytes.
fn bomb() -> String {
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(41_000), vec!["*a"; 30_000].join(","));
    assert!(text.len() < 132_000, "{}", text.len());
    text
}

fn bootstrap(token: &str, change: &Value) -> String {
    let mut request = json!({ "mesh": "default", "name": "web-1", "dataplaneToken": token });
    for (field, value) in change.as_object().unwrap() {
        request[field] = value.clone();
    }
    request.to_string()
}

#[tokio::test(start_paused = true)]
async fn bootstrap_verifies_the_token_before_it_reads_anything_else() {
    let bed = Bed::start().await;
    let other_proxy = bed.token(&DataplaneClaims { name: "web-2".to_owned(), ..DataplaneClaims::default() });
    let other_mesh = bed.token(&DataplaneClaims { mesh: "other".to_owned(), ..DataplaneClaims::default() });
    for change in [
        json!({ "dataplaneResource": BROKEN }),
        json!({ "dataplaneResource": bomb() }),
        json!({ "features": 7 }),
        json!({ "dnsPort": "none" }),
        json!({ "proxyType": "ingress" }),
    ] {
        for (token, reason) in [
            ("nonsense", NOT_A_TOKEN),
            (
                other_proxy.as_str(),
                "authentication failed: proxy name from requestor: web-1 is different than in token: web-2",
            ),
            (
                other_mesh.as_str(),
                "authentication failed: proxy mesh from requestor: default is different than in token: other",
            ),
        ] {
            let answer = bed.post("/bootstrap", &[], &bootstrap(token, &change)).await;
            assert_eq!(answer, (StatusCode::UNAUTHORIZED, reason.to_owned()));
        }
        // The path of a token file on the proxy's machine authenticates nobody.
        let mut path_only = change.clone();
        path_only["dataplaneTokenPath"] = json!("/token");
        let (status, text) = bed.post("/bootstrap", &[], &bootstrap("", &path_only)).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(text.starts_with("Dataplane Token is required."), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn aliases_in_a_dataplane_do_not_multiply() {
    let bomb = bomb();
    for authn in [Authn::DataplaneToken, Authn::None] {
        let bed = Bed::start_with(|settings| settings.authn = authn).await;
        let token = bed.token(&DataplaneClaims::default());
        let answer = bed.post("/bootstrap", &[], &bootstrap(&token, &json!({ "dataplaneResource": bomb }))).await;
        let reason = "the Dataplane is not YAML: YAML aliases expand to more than 1048576 bytes at line 2 column";
        assert_eq!(answer.0, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(answer.1.starts_with(reason), "{answer:?}");
        let refused = bed.refused(hello("default.web-1", &json!({ "dataplane.resource": bomb }), Some(token))).await;
        assert!(refused.message.contains(reason), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn streams_verify_the_token_before_they_read_metadata() {
    let bed = Bed::start().await;
    for metadata in [
        json!({ "dataplane.resource": BROKEN }),
        json!({ "dataplane.resource": bomb() }),
        json!({ "dataplane.proxyType": "ingress" }),
    ] {
        let hello = hello("default.web-1", &metadata, Some("nonsense".to_owned()));
        let health = HealthHello { node: hello.node.clone(), credential: hello.credential.clone(), peer: hello.peer };
        for refused in [bed.refused(hello).await, bed.registry.connect_health(health).await.err().unwrap()] {
            assert_eq!((refused.code, refused.message.as_str()), (Closing::UNAUTHENTICATED, NOT_A_TOKEN));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn requests_verify_the_token_before_they_look_for_the_dataplane() {
    let bed = Bed::start().await;
    bed.put(dataplane("web-1")).await;
    for name in ["web-1", "unknown"] {
        let body = json!({ "mesh": "default", "name": name, "callers": 7 }).to_string();
        for path in ["/drain", "/plaintext-callers"] {
            let answer = bed.post(path, &[("authorization", "nonsense")], &body).await;
            assert_eq!(answer, (StatusCode::UNAUTHORIZED, NOT_A_TOKEN.to_owned()), "{path}");
        }
    }
}

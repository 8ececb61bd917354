//! References to Secrets: never to those of the control plane, never to the key of a CA, and only by authorized users.

use kodiak_catalog::{Refusal, Rights, SystemSecret};
use serde_json::{Value, json};

use crate::bed::{Bed, builtin, ca, problems, provided};

fn external(source: &Value) -> Value {
    let certificate = json!({ "inlineString": "-----BEGIN CERTIFICATE-----" });
    let verification = json!({ "clientCert": certificate, "clientKey": source });
    json!({ "spec": {
        "match": { "type": "HostnameGenerator", "port": 443, "protocol": "tcp" },
        "endpoints": [{ "address": "example.com", "port": 443 }],
        "tls": { "enabled": true, "verification": verification },
    } })
}

async fn bed() -> Bed {
    let bed = Bed::new().await;
    bed.put_mesh("ca-1", json!([builtin("ca-1")])).await.unwrap();
    bed
}

fn denied<T: std::fmt::Debug>(refused: Result<T, Refusal>) -> Vec<String> {
    match refused {
        Err(Refusal::Denied { problems }) => problems.iter().map(|problem| problem.path.clone()).collect(),
        other => panic!("not denied: {other:?}"),
    }
}

#[tokio::test]
async fn secrets_of_the_control_plane_cannot_be_referenced() {
    let bed = bed().await;
    for name in [
        "dataplane-token-signing-key-demo-1",
        "dataplane-token-revocations-demo",
        "demo.ca-builtin-key-ca-1",
        "demo.ca-builtin-cert-ca-1",
        "demo.ca-provided-key-ca-2",
        "user-token-signing-key-1",
    ] {
        let refused = problems(bed.put("MeshExternalService", "out", external(&json!({ "secret": name }))).await);
        let start = format!("spec.tls.verification.clientKey.secret: the Secret {name:?} belongs to the control plane");
        assert!(refused[0].starts_with(&start), "{refused:?}");
    }
    let listener = json!({ "port": 1, "protocol": "HTTPS", "tls": { "mode": "TERMINATE",
        "certificates": [{ "secret": "dataplane-token-signing-key-demo-1" }] } });
    let selectors = json!([{ "match": { "kuma.io/service": "edge" } }]);
    let gateway = json!({ "selectors": selectors, "conf": { "listeners": [listener] } });
    let refused = problems(bed.put("MeshGateway", "edge", gateway).await);
    assert!(refused[0].starts_with("conf.listeners[0].tls.certificates[0].secret: "), "{refused:?}");
}

#[tokio::test]
async fn backend_cannot_use_a_token_key_even_with_skip_validation() {
    let bed = bed().await;
    let source = |name: &str| json!({ "secret": name });
    let conf =
        json!({ "cert": source("demo.ca-builtin-cert-ca-1"), "key": source("dataplane-token-signing-key-demo-1") });
    let backend = json!({ "name": "ca-2", "type": "provided", "conf": conf });
    let mesh = json!({ "type": "Mesh", "name": "demo", "mtls": { "skipValidation": true,
        "enabledBackend": "ca-1", "backends": [builtin("ca-1"), backend] } });
    let refused = problems(bed.put_mesh_document(mesh).await);
    assert!(refused[0].starts_with("mtls.backends[1].conf.key.secret: "), "{refused:?}");
}

#[tokio::test]
async fn backend_accepts_the_ca_exported_with_its_mesh() {
    let bed = bed().await;
    let source = |what: &str| json!({ "secret": format!("demo.ca-builtin-{what}-ca-1") });
    let conf = json!({ "cert": source("cert"), "key": source("key") });
    let backend = json!({ "name": "ca-2", "type": "provided", "conf": conf });
    bed.put_mesh("ca-1", json!([builtin("ca-1"), backend])).await.unwrap();
}

#[tokio::test]
async fn ca_key_cannot_be_used_for_anything_else() {
    let bed = bed().await;
    let pair = ca("own");
    bed.put_secret("own-key", pair.key_pem.expose()).await;
    let mut backend = provided("ca-2", &pair);
    backend["conf"]["key"] = json!({ "secret": "own-key" });
    let backends = json!([builtin("ca-1"), backend]);
    bed.put_mesh("ca-1", backends.clone()).await.unwrap();
    let refused = problems(bed.put("MeshExternalService", "out", external(&json!({ "secret": "own-key" }))).await);
    assert!(refused[0].contains("is the private key of the mTLS backend \"ca-2\" of mesh \"demo\""), "{refused:?}");

    bed.put_mesh("ca-1", json!([builtin("ca-1")])).await.unwrap();
    bed.put("MeshExternalService", "out", external(&json!({ "secret": "own-key" }))).await.unwrap();
    let refused = problems(bed.put_mesh("ca-1", backends).await);
    assert!(refused[0].starts_with("mtls.backends[1].conf.key.secret: "), "{refused:?}");
    assert!(refused[0].contains("is also used by the MeshExternalService \"out\""), "{refused:?}");
}

#[tokio::test]
async fn adding_a_reference_requires_the_right_to_read_secrets() {
    let bed = bed().await;
    bed.put_secret("one", "1").await;
    let anybody = Rights::default();
    let with = async |name: &str, rights| {
        bed.put_with("MeshExternalService", "out", external(&json!({ "secret": name })), rights).await
    };
    let path = "spec.tls.verification.clientKey.secret";
    assert_eq!(denied(with("one", anybody).await), [path]);
    assert_eq!(denied(with("there-is-none", anybody).await), [path], "the answer does not tell which Secrets exist");
    with("one", Rights::ALL).await.unwrap();
    with("one", anybody).await.unwrap();
    let mut edited = external(&json!({ "secret": "one" }));
    edited["spec"]["endpoints"][0]["port"] = json!(444);
    bed.put_with("MeshExternalService", "out", edited, anybody).await.unwrap();
    assert_eq!(denied(with("two", anybody).await), [path]);
    let mut moved = external(&json!({ "secret": "one" }));
    moved["spec"]["tls"]["verification"]["caCert"] = json!({ "secret": "one" });
    let refused = denied(bed.put_with("MeshExternalService", "out", moved, anybody).await);
    assert_eq!(refused, ["spec.tls.verification.caCert.secret"], "another field is another reference");
}

/// A secret that a new version creates for itself must be known to [`SystemSecret`].
#[tokio::test]
async fn every_generated_secret_is_a_system_secret() {
    let bed = bed().await;
    bed.0.ensure_defaults(kodiak_catalog::Defaults::default()).await.unwrap();
    bed.put_mesh("ca-1", json!([builtin("ca-1"), provided("ca-2", &ca("own"))])).await.unwrap();
    let snapshot = bed.0.store().snapshot();
    let secrets: Vec<_> = snapshot.list("Secret").chain(snapshot.list("GlobalSecret")).collect();
    assert!(secrets.len() >= 9, "{secrets:?}");
    for secret in secrets {
        assert!(
            SystemSecret::of(&secret.key).is_some(),
            "{} is not known as a secret of the control plane",
            secret.key
        );
    }
}

//! `GET /meshes/{mesh}/_identities`.

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::harness::TestControlPlane;

const KRI: &str = "kri_mid_default_default__web_";

async fn identities(cp: &TestControlPlane) -> Value {
    let answer = cp.get("/meshes/default/_identities").await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer.json()
}

async fn eventually(cp: &TestControlPlane, is_so: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..1200 {
        let found = identities(cp).await;
        if is_so(&found) {
            return found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("it stays {}", identities(cp).await)
}

async fn put(cp: &TestControlPlane, path: &str, body: &Value) {
    let answer = cp.put(path, body).await;
    assert!(answer.status.is_success(), "{}", answer.text);
}

async fn put_dataplane(cp: &TestControlPlane, name: &str, labels: &Value) {
    let body = json!({
        "type": "Dataplane", "mesh": "default", "name": name, "labels": labels,
        "networking": { "address": "10.0.0.1", "inbound": [{ "port": 8080, "tags": { "kuma.io/service": "web" } }] },
    });
    put(cp, &format!("/meshes/default/dataplanes/{name}"), &body).await;
}

/// On the mesh CA, in mode Exclusive.
async fn started() -> TestControlPlane {
    let cp = TestControlPlane::start().await;
    let mtls = json!({ "enabledBackend": "ca-1", "backends": [{ "name": "ca-1", "type": "builtin" }] });
    let mesh = json!({ "type": "Mesh", "name": "default", "mtls": mtls, "meshServices": { "mode": "Exclusive" } });
    put(&cp, "/meshes/default", &mesh).await;
    cp
}

#[tokio::test]
async fn proxies_move_from_the_mesh_ca_to_a_mesh_identity() {
    let cp = started().await;
    put_dataplane(&cp, "web-1", &json!({ "kuma.io/workload": "web" })).await;
    put_dataplane(&cp, "web-2", &json!({})).await;
    let before = eventually(&cp, |found| found["rollout"]["phase"].is_null()).await;
    assert_eq!(before["identities"], json!([]));
    let [web, unlabelled] = [&before["proxies"][0], &before["proxies"][1]];
    assert_eq!(
        *web,
        json!({
            "name": "web-1", "connected": false, "wanted": "ca-1", "hasBundle": false, "expectsSAN": false,
            "presentsLeaf": false, "acknowledged": false,
        })
    );
    assert!(unlabelled["defaultPathProblem"].as_str().unwrap().contains("kuma.io/workload"), "{unlabelled}");

    let spec = json!({
        "selector": { "dataplane": { "matchLabels": {} } },
        "spiffeID": { "trustDomain": "demo" },
        "provider": {
            "type": "Bundled",
            "bundled": { "insecureAllowSelfSigned": true, "autogenerate": { "enabled": true } },
        },
    });
    let body = json!({ "type": "MeshIdentity", "mesh": "default", "name": "web", "spec": spec });
    put(&cp, "/meshes/default/meshidentities/web", &body).await;
    let is_done = |found: &Value| {
        found["identities"][0]["ready"] == true
            && found["identities"][0]["pending"] == false
            && found["rollout"]["phase"].is_null()
    };
    let after = eventually(&cp, is_done).await;
    assert_eq!(
        after["identities"],
        json!([{
            "name": "web", "kri": KRI, "trustDomain": "demo", "ready": true, "pending": false, "selected": 2,
            "announcedOnly": false,
        }])
    );
    assert_eq!(after["rollout"]["current"], after["rollout"]["target"]);
    assert_eq!((&after["rollout"]["waiting"], &after["rollout"]["waitingTotal"]), (&json!([]), &json!(0)));
    assert_eq!(after["proxies"][0]["wanted"], KRI);
    // Without a SPIFFE ID it keeps the certificate of the backend.
    let unlabelled = &after["proxies"][1];
    assert_eq!(unlabelled["wanted"], "ca-1");
    assert!(unlabelled["problem"].as_str().unwrap().contains("kuma.io/workload"), "{unlabelled}");
}

#[tokio::test]
async fn identity_outside_of_mode_exclusive_has_the_reason() {
    let cp = TestControlPlane::start().await;
    let spec = json!({ "selector": { "dataplane": { "matchLabels": {} } }, "spiffeID": { "trustDomain": "demo" } });
    let body = json!({ "type": "MeshIdentity", "mesh": "default", "name": "web", "spec": spec });
    put(&cp, "/meshes/default/meshidentities/web", &body).await;
    let found = eventually(&cp, |found| found["identities"][0]["reason"].is_string()).await;
    let web = &found["identities"][0];
    assert_eq!((&web["ready"], &web["reason"]), (&json!(false), &json!("MeshServicesDisabled")), "{web}");
    assert!(web["message"].as_str().unwrap().contains("Exclusive"), "{web}");
}

#[tokio::test]
async fn unknown_mesh_has_no_identities() {
    let cp = TestControlPlane::start().await;
    assert_eq!(cp.get("/meshes/none/_identities").await.status, StatusCode::NOT_FOUND);
}

/// Conditions of a MeshIdentity, as `TYPE=STATUS REASON: MESSAGE`.
async fn conditions(cp: &TestControlPlane, name: &str) -> Vec<String> {
    for _ in 0..1200 {
        let found = cp.get(&format!("/meshes/default/meshidentities/{name}")).await.json();
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if !conditions.is_empty() {
            let text = |condition: &Value, field: &str| condition[field].as_str().unwrap().to_owned();
            let line = |each: &Value| {
                format!(
                    "{}={} {}: {}",
                    text(each, "type"),
                    text(each, "status"),
                    text(each, "reason"),
                    text(each, "message")
                )
            };
            return conditions.iter().map(line).collect();
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{name} has no conditions")
}

async fn put_identity(cp: &TestControlPlane, name: &str, spec: &Value) {
    let body = json!({ "type": "MeshIdentity", "mesh": "default", "name": name, "spec": spec });
    put(cp, &format!("/meshes/default/meshidentities/{name}"), &body).await;
}

/// For all proxies.
fn identity(trust_domain: &str, provider: &Value) -> Value {
    let mut spec = json!({
        "selector": { "dataplane": { "matchLabels": {} } },
        "spiffeID": { "trustDomain": trust_domain, "path": "/workload/{{ .Workload }}" },
    });
    if !provider.is_null() {
        spec["provider"] = provider.clone();
    }
    spec
}

fn generated() -> Value {
    json!({ "type": "Bundled", "bundled": { "insecureAllowSelfSigned": true, "autogenerate": { "enabled": true } } })
}

#[tokio::test]
async fn fault_of_one_identity_is_its_own_condition() {
    let cp = started().await;
    // Valid trust domains that are no parts of names, an invalid one, a CA that does not exist, and a good one, by name.
    put_identity(&cp, "a-dots", &identity("a..b", &generated())).await;
    put_identity(&cp, "b-dash", &identity("-", &generated())).await;
    put_identity(&cp, "c-invalid", &identity("UPPER", &generated())).await;
    let source = |name: &str| json!({ "type": "Secret", "secretRef": { "kind": "Secret", "name": name } });
    put(
        &cp,
        "/meshes/default/secrets/no-ca",
        &json!({ "type": "Secret", "mesh": "default", "name": "no-ca", "data": "eA==" }),
    )
    .await;
    let ca = json!({ "certificate": source("no-ca"), "privateKey": source("no-ca") });
    put_identity(&cp, "d-no-ca", &identity("d.local", &json!({ "type": "Bundled", "bundled": { "ca": ca } }))).await;
    put_identity(&cp, "e-good", &identity("e.local", &generated())).await;
    for name in ["a-dots", "b-dash", "e-good"] {
        let found = conditions(&cp, name).await;
        assert_eq!(found.last().unwrap(), "Ready=True Ready: Successfully initialized", "{name}: {found:?}");
    }
    for (name, reason) in [("c-invalid", "ProviderInitializationError"), ("d-no-ca", "ProviderValidationError")] {
        let found = conditions(&cp, name).await;
        assert!(found[0].starts_with(&format!("Provider=False {reason}: ")), "{name}: {found:?}");
        assert_eq!(found.last().unwrap(), "Ready=False Failure: One of initialization steps failed", "{name}");
    }
    let trusted = cp.get("/meshes/default/meshtrusts").await.json();
    assert_eq!(trusted["total"], 3, "{trusted}");
}

/// The words are those of Kuma.
#[tokio::test]
async fn identity_without_a_provider_says_whether_it_provides_spiffe_ids() {
    let cp = started().await;
    put_identity(&cp, "announced", &identity("prepared.local", &json!(null))).await;
    assert_eq!(
        conditions(&cp, "announced").await,
        [
            "SpiffeIDProvider=True SpiffeIDProvided: Providing only SpiffeIDs for services.",
            "Ready=False PartiallyReady: Running in SpiffeID providing only mode.",
        ]
    );
    put_identity(&cp, "invalid", &identity("UPPER", &json!(null))).await;
    let invalid = conditions(&cp, "invalid").await;
    assert!(
        invalid[0].starts_with("SpiffeIDProvider=False InvalidTrustDomain: \"UPPER\" is not a trust domain"),
        "{invalid:?}"
    );
    let mut unselected = identity("prepared.local", &json!(null));
    unselected["selector"] = json!({});
    put_identity(&cp, "unselected", &unselected).await;
    assert_eq!(
        conditions(&cp, "unselected").await,
        [
            "SpiffeIDProvider=False NoSelector: spec.selector.dataplane is missing, so no proxy is selected.",
            "Ready=False Failure: One of initialization steps failed",
        ]
    );
}

/// Also when the label says so, which older versions named the Secrets after.
#[tokio::test]
async fn generated_ca_replaces_no_secret_of_somebody_else() {
    let cp = started().await;
    let secret = json!({ "type": "Secret", "mesh": "default", "name": "payments-private-key", "data": "dGhlaXJz" });
    put(&cp, "/meshes/default/secrets/payments-private-key", &secret).await;
    let bundled = json!({ "insecureAllowSelfSigned": true, "autogenerate": { "enabled": true } });
    let spec = json!({
        "selector": { "dataplane": { "matchLabels": {} } },
        "spiffeID": { "trustDomain": "demo" },
        "provider": { "type": "Bundled", "bundled": bundled },
    });
    for name in ["other", "payments"] {
        let labels = json!({ "kuma.io/display-name": "payments" });
        let body = json!({ "type": "MeshIdentity", "mesh": "default", "name": name, "labels": labels, "spec": spec });
        put(&cp, &format!("/meshes/default/meshidentities/{name}"), &body).await;
    }
    let found = eventually(&cp, |found| {
        let identities = found["identities"].as_array().cloned().unwrap_or_default();
        let refused = identities.iter().any(|one| one["name"] == "payments" && one["reason"] == "SecretNotOwned");
        refused && identities.iter().any(|one| one["name"] == "other" && one["ready"] == true)
    })
    .await;
    let message = found["identities"][1]["message"].as_str().unwrap();
    assert!(message.contains("does not belong to the MeshIdentity \"payments\""), "{message}");
    let stored = cp.get("/meshes/default/secrets/payments-private-key").await.json();
    assert_eq!(stored["data"], "dGhlaXJz");
    assert_eq!(cp.get("/meshes/default/secrets/payments-root-ca").await.status, StatusCode::NOT_FOUND);
    for name in ["other", "payments"] {
        assert!(cp.delete(&format!("/meshes/default/meshidentities/{name}")).await.status.is_success());
    }
    let stored = cp.get("/meshes/default/secrets/payments-private-key").await.json();
    assert_eq!(stored["data"], "dGhlaXJz");
}

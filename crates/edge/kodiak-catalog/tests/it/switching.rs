//! Changing the CA while mTLS is enabled.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kodiak_crypto::{CaKeyType, RootCaParams, root_ca};
use serde_json::{Value, json};

use crate::bed::{Bed, builtin, ca, problems, provided};

const CHANGED: &str = "Changing CA when mTLS is enabled is forbidden. Disable mTLS first and then change the CA";

#[tokio::test]
async fn ca_is_replaced_in_three_steps() {
    let bed = Bed::new().await;
    bed.put_mesh("ca-1", json!([builtin("ca-1")])).await.unwrap();
    bed.put_mesh("ca-1", json!([builtin("ca-1"), builtin("ca-2")])).await.unwrap();
    assert!(bed.secret("demo.ca-builtin-key-ca-2").is_some(), "both can sign");
    bed.put_mesh("ca-2", json!([builtin("ca-1"), builtin("ca-2")])).await.unwrap();
    bed.put_mesh("ca-2", json!([builtin("ca-2")])).await.unwrap();
}

#[tokio::test]
async fn enabled_backend_cannot_be_removed() {
    let bed = Bed::new().await;
    bed.put_mesh("ca-1", json!([builtin("ca-1"), builtin("ca-2")])).await.unwrap();
    let refused = problems(bed.put_mesh("ca-2", json!([builtin("ca-2")])).await);
    let expected = "mtls.backends: the backend ca-1 still signs: set enabledBackend to another backend first, keep ca-1 listed until no proxy has its certificate, then remove it";
    assert_eq!(refused, [expected]);
    let replaced = problems(bed.put_mesh("ca-3", json!([builtin("ca-3")])).await);
    assert_eq!(replaced, [expected]);
    bed.put_mesh("", json!([builtin("ca-2")])).await.unwrap();
}

#[tokio::test]
async fn backend_cannot_be_removed_while_connected_proxies_have_its_certificate() {
    let bed = Bed::new().await;
    let both = || json!([builtin("ca-1"), builtin("ca-2")]);
    bed.put_mesh("ca-1", both()).await.unwrap();
    bed.put_mesh("ca-2", both()).await.unwrap();
    bed.put_insight("dp-0", "ca-1", false).await;
    bed.put_insight("dp-1", "ca-1", true).await;
    bed.put_insight("dp-2", "ca-1", true).await;
    let refused = problems(bed.put_mesh("ca-2", json!([builtin("ca-2")])).await);
    assert_eq!(
        refused,
        [
            "mtls.backends: the backend ca-1 is still needed: 2 connected proxies (the first is dp-1) have its certificate; keep ca-1 listed until every proxy has one of ca-2, then remove it"
        ]
    );
    bed.put_insight("dp-1", "ca-2", true).await;
    let refused = problems(bed.put_mesh("ca-2", json!([builtin("ca-2")])).await);
    assert!(refused[0].contains("1 connected proxy (dp-2) has its certificate"), "{refused:?}");
    bed.put_insight("dp-2", "ca-2", true).await;
    bed.put_mesh("ca-2", json!([builtin("ca-2")])).await.unwrap();
}

#[tokio::test]
async fn backends_may_change_without_mtls() {
    let bed = Bed::new().await;
    bed.put_mesh("ca-1", json!([builtin("ca-1")])).await.unwrap();
    bed.put_insight("dp-1", "ca-1", true).await;
    bed.put_mesh("", json!([builtin("ca-1")])).await.unwrap();
    bed.put_mesh("ca-1", json!([provided("ca-1", &ca("other"))])).await.unwrap();
}

#[tokio::test]
async fn rejects_changing_a_ca_in_place() {
    let (one, two) = (ca("one"), ca("two"));
    let bed = Bed::new().await;
    bed.put_mesh("ca-1", json!([builtin("ca-1"), provided("ca-2", &one)])).await.unwrap();
    let other_type = problems(bed.put_mesh("ca-1", json!([provided("ca-1", &one), provided("ca-2", &one)])).await);
    assert_eq!(other_type, [format!("mtls.backends[0].type: {CHANGED}")]);
    let before = bed.secret("demo.ca-provided-key-ca-2");
    let other_pair = problems(bed.put_mesh("ca-2", json!([builtin("ca-1"), provided("ca-2", &two)])).await);
    assert_eq!(other_pair, [format!("mtls.backends[1].conf: {CHANGED}")]);
    assert_eq!(bed.secret("demo.ca-provided-key-ca-2"), before, "a refused write changes nothing");
}

#[tokio::test]
async fn roots_may_be_added_but_not_removed_in_place() {
    let (one, two) = (ca("one"), ca("two"));
    let bed = Bed::new().await;
    let mut more = one.clone();
    more.cert_pem.push_str(&two.cert_pem);
    bed.put_mesh("ca-1", json!([provided("ca-1", &one)])).await.unwrap();
    bed.put_mesh("ca-1", json!([provided("ca-1", &more)])).await.unwrap();
    let refused = problems(bed.put_mesh("ca-1", json!([provided("ca-1", &one)])).await);
    assert_eq!(refused, [format!("mtls.backends[0].conf: {CHANGED}")]);
}

#[tokio::test]
async fn other_settings_of_a_backend_may_change() {
    let bed = Bed::new().await;
    bed.put_mesh("ca-1", json!([builtin("ca-1")])).await.unwrap();
    let mut backend = builtin("ca-1");
    backend["mode"] = json!("PERMISSIVE");
    backend["dpCert"] = json!({ "rotation": { "expiration": "1h" } });
    let put = bed.put_mesh("ca-1", json!([backend])).await.unwrap();
    assert!(put.changed);
}

#[tokio::test]
async fn stored_ca_that_expired_can_be_replaced_but_not_begin_to_sign() {
    let old = root_ca(&RootCaParams {
        common_name: "old",
        expires_after: Duration::from_mins(1),
        key: CaKeyType::P256,
        uri_san: None,
        now: Timestamp::now() - SignedDuration::from_hours(1),
    })
    .unwrap();
    let bed = Bed::new().await;
    bed.put_mesh("", json!([])).await.unwrap();
    bed.put_secret("old-cert", &old.cert_pem).await;
    bed.put_secret("old-key", old.key_pem.expose()).await;
    let conf = json!({ "cert": { "secret": "old-cert" }, "key": { "secret": "old-key" } });
    let expired = || json!({ "name": "old", "type": "provided", "conf": conf });
    let refused = problems(bed.put_mesh("", json!([expired()])).await);
    assert!(refused[0].starts_with("mtls.backends[0].conf.cert[0]: the certificate expired at"), "{refused:?}");

    // It was valid when it was stored.
    let mesh = |enabled: &str, backends: Value, skip: bool| {
        json!({ "type": "Mesh", "name": "demo", "skipCreatingInitialPolicies": ["*"],
            "mtls": { "enabledBackend": enabled, "backends": backends, "skipValidation": skip } })
    };
    bed.put_mesh_document(mesh("old", json!([expired()]), true)).await.unwrap();
    let put = bed.put_mesh_document(mesh("new", json!([builtin("new"), expired()]), false)).await.unwrap();
    let [warning] = &put.warnings[..] else { panic!("{:?}", put.warnings) };
    assert!(warning.starts_with("mtls.backends[1].conf.cert[0]: the certificate expired at"), "{warning}");
    let refused = problems(bed.put_mesh_document(mesh("old", json!([builtin("new"), expired()]), false)).await);
    assert!(refused[0].starts_with("mtls.backends[1].conf.cert[0]: the certificate expired at"), "{refused:?}");
    bed.delete("Secret", "demo", "old-key").await.unwrap_err();
    bed.put_mesh_document(mesh("new", json!([builtin("new")]), false)).await.unwrap();
}

#[tokio::test]
async fn provided_ca_that_cannot_be_read_any_more_does_not_prevent_its_replacement() {
    let bed = Bed::new().await;
    let one = ca("one");
    bed.put_mesh("", json!([])).await.unwrap();
    bed.put_secret("cert", &one.cert_pem).await;
    bed.put_secret("key", one.key_pem.expose()).await;
    let stored = || json!({ "name": "own", "type": "provided", "conf": { "cert": { "secret": "cert" }, "key": { "secret": "key" } } });
    bed.put_mesh("own", json!([stored()])).await.unwrap();
    bed.put_secret("key", ca("another").key_pem.expose()).await;
    bed.put_mesh("ca-2", json!([builtin("ca-2"), stored()])).await.unwrap();
    let enabled = problems(bed.put_mesh("own", json!([builtin("ca-2"), stored()])).await);
    assert_eq!(enabled.len(), 1, "it is checked before it signs: {enabled:?}");
}

//! Fields that a token binds are checked, and stored with the Dataplane that the proxy registers.

use kodiak_ads::{Closing, Proxies as _};
use kodiak_model::{ProxyKey, kinds::dataplane::Admission};
use kodiak_proxies::{Authn, Recheck};
use kodiak_tokens::DataplaneClaims;
use serde_json::{Value, json};

use crate::bed::{Bed, closing, dataplane, hello};

fn own(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

/// For the service `web`, with these values of the label `app`.
fn claims(app: &[&str]) -> DataplaneClaims {
    let labels = if app.is_empty() { [].into() } else { [("app".to_owned(), own(app))].into() };
    DataplaneClaims {
        tags: [("kuma.io/service".to_owned(), own(&["web"]))].into(),
        labels,
        ..DataplaneClaims::default()
    }
}

/// `web-1`, which claims the label `app=payments`.
fn payments() -> Value {
    let mut document = dataplane("web-1");
    document["labels"] = json!({ "app": "payments" });
    document
}

fn providing(document: &Value, token: String) -> kodiak_ads::Hello {
    hello("default.web-1", &json!({ "dataplane.resource": document.to_string() }), Some(token))
}

fn admission(bed: &Bed) -> Option<Admission> {
    let snapshot = bed.catalog.store().snapshot();
    let proxy = snapshot.world().proxy(&ProxyKey::new("default", "web-1")).unwrap();
    proxy.admission.as_deref().cloned()
}

#[tokio::test(start_paused = true)]
async fn bound_label_must_have_an_allowed_value() {
    let bed = Bed::start().await;
    let refused = bed.refused(providing(&payments(), bed.token(&claims(&["web"])))).await;
    assert_eq!(refused.code, Closing::UNAUTHENTICATED);
    assert_eq!(
        refused.message,
        "authentication failed: dataplane has label \"app\" with value \"payments\" which is not allowed with this token. \
         Allowed values in token are [\"web\"]"
    );
    let refused = bed.refused(providing(&dataplane("web-1"), bed.token(&claims(&["web"])))).await;
    assert_eq!(refused.message, "authentication failed: dataplane has no label \"app\" required by the token");
    assert!(bed.registry.connect(providing(&payments(), bed.token(&claims(&["web", "payments"])))).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn label_that_the_token_does_not_allow_closes_the_stream() {
    let bed = Bed::start().await;
    let session = bed.registry.connect(providing(&payments(), bed.token(&claims(&["payments"])))).await.ok().unwrap();
    let mut changed = payments();
    changed["labels"]["app"] = json!("bank");
    bed.put(changed).await;
    bed.recheck(Recheck::Mesh("default".into()));
    assert_eq!(closing(&session).unwrap().0, Closing::UNAUTHENTICATED);
}

#[tokio::test(start_paused = true)]
async fn bound_fields_are_stored_and_cannot_be_provided() {
    let bed = Bed::start().await;
    let mut forged = payments();
    let generous = json!({ "admission": { "tags": ["kuma.io/service"], "labels": ["app"], "name": true } });
    forged["status"] = generous.clone();
    forged["admission"] = generous["admission"].clone();
    let session = bed.registry.connect(providing(&forged, bed.token(&claims(&[])))).await.ok().unwrap();
    let expected = Admission { tags: ["kuma.io/service".to_owned()].into(), ..Admission::default() };
    assert_eq!(admission(&bed), Some(expected));
    // Another token, and the same Dataplane.
    drop(session);
    let bound = DataplaneClaims { name: "web-1".to_owned(), workload: String::new(), ..claims(&["payments"]) };
    let _session = bed.registry.connect(providing(&forged, bed.token(&bound))).await.ok().unwrap();
    let expected = Admission {
        tags: ["kuma.io/service".to_owned()].into(),
        labels: ["app".to_owned()].into(),
        name: true,
        ..Admission::default()
    };
    assert_eq!(admission(&bed), Some(expected.clone()));
    // Observations change nothing of it.
    let token = bed.token(&bound);
    bed.post("/drain", &[("authorization", &token)], r#"{"mesh":"default","name":"web-1"}"#).await;
    assert!(!bed.dataplane("web-1").unwrap().inbounds()[0].is_ready());
    assert_eq!(admission(&bed), Some(expected));
}

#[tokio::test(start_paused = true)]
async fn user_vouches_only_for_the_keys_that_a_write_changes() {
    let bed = Bed::start().await;
    bed.put(payments()).await;
    assert_eq!(admission(&bed), None);
    let token = bed.token(&claims(&[]));
    let _session = bed.registry.connect(providing(&payments(), token.clone())).await.ok().unwrap();
    assert!(admission(&bed).is_some());
    // A proxy that provides the stored Dataplane unchanged does not make it a user's.
    let stays = hello("default.web-1", &json!({}), Some(token));
    let _session = bed.registry.connect(stays).await.ok().unwrap();
    assert!(admission(&bed).is_some());
    // What nobody changed stays the claim of the proxy.
    let before = admission(&bed);
    bed.put(payments()).await;
    assert_eq!(admission(&bed), before);
    let mut changed = payments();
    changed["labels"]["team"] = json!("shop");
    changed["networking"]["inbound"][0]["tags"]["version"] = json!("v2");
    bed.put(changed.clone()).await;
    let vouched = |key: &str| {
        let admission = admission(&bed).unwrap();
        (admission.vouches_for_label(key), admission.vouches_for_tag(key))
    };
    assert_eq!(vouched("app"), (false, false));
    assert_eq!(vouched("team"), (true, false));
    assert_eq!(vouched("version"), (false, true));
    assert_eq!(vouched("kuma.io/service"), (false, true), "the token binds it");
    changed["labels"]["app"] = json!("orders");
    bed.put(changed).await;
    assert_eq!(vouched("app"), (true, false));
    // A proxy vouches for nothing.
    let _session = bed.registry.connect(providing(&payments(), bed.token(&claims(&[])))).await.ok().unwrap();
    assert_eq!(vouched("app"), (false, false));
    assert_eq!(vouched("team"), (false, false));
}

#[tokio::test(start_paused = true)]
async fn without_authentication_nothing_is_bound() {
    let bed = Bed::start_with(|settings| settings.authn = Authn::None).await;
    let _session = bed.registry.connect(providing(&payments(), String::new())).await.ok().unwrap();
    assert_eq!(admission(&bed), Some(Admission::default()));
}

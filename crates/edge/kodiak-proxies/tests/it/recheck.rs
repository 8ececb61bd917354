//! Streams that would not be admitted any more are closed.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use kodiak_ads::{Closing, HealthHello, Proxies as _};
use kodiak_proxies::Recheck;
use kodiak_tokens::DataplaneClaims;
use serde_json::json;

use crate::bed::{Bed, closing, dataplane, hello, key};

/// The id of a token is in its second part.
fn token_id(token: &str) -> String {
    let payload = token.split('.').nth(1).unwrap();
    let payload = base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap();
    serde_json::from_slice::<serde_json::Value>(&payload).unwrap()["jti"].as_str().unwrap().to_owned()
}

async fn revoke(bed: &Bed, id: &str) {
    let name = "dataplane-token-revocations-default";
    bed.put(json!({ "type": "Secret", "mesh": "default", "name": name, "data": BASE64_STANDARD.encode(id) })).await;
}

#[tokio::test(start_paused = true)]
async fn revoked_token_closes_only_its_streams() {
    let bed = Bed::start().await;
    let revoked = bed.hello("web-1");
    let id = token_id(revoked.credential.0.as_deref().unwrap());
    let first = bed.registry.connect(revoked.clone()).await.ok().unwrap();
    let second = bed.connect("web-2").await;
    bed.recheck(Recheck::Mesh("default".into()));
    assert_eq!((closing(&first), closing(&second)), (None, None));
    revoke(&bed, &id).await;
    bed.recheck(Recheck::Mesh("other".into()));
    assert_eq!(closing(&first), None);
    bed.recheck(Recheck::Mesh("default".into()));
    let (code, reason) = closing(&first).unwrap();
    assert_eq!(code, Closing::UNAUTHENTICATED);
    assert!(reason.starts_with("authentication failed: ") && reason.contains("revoked"), "{reason}");
    assert_eq!(closing(&second), None);
    drop(first);
    assert!(bed.refused(revoked).await.message.contains("revoked"));
}

#[tokio::test(start_paused = true)]
async fn token_revoked_during_admission_closes_the_stream() {
    let bed = Bed::start().await;
    let proxy = bed.hello("web-1");
    let id = token_id(proxy.credential.0.as_deref().unwrap());
    let mut connecting = bed.registry.connect(proxy);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(connecting.as_mut().poll(&mut context).is_pending(), "its token was good");
    revoke(&bed, &id).await;
    bed.recheck(Recheck::Mesh("default".into()));
    let session = connecting.await.ok().unwrap();
    assert_eq!(closing(&session).unwrap().0, Closing::UNAUTHENTICATED);
}

#[tokio::test(start_paused = true)]
async fn timer_closes_streams_of_revoked_tokens() {
    let bed = Bed::start().await;
    let revoked = bed.hello("web-1");
    let id = token_id(revoked.credential.0.as_deref().unwrap());
    let node = revoked.node.clone();
    let hello = HealthHello { node, credential: revoked.credential.clone(), peer: revoked.peer };
    let first = bed.registry.connect(revoked).await.ok().unwrap();
    let health = bed.registry.connect_health(hello).await.ok().unwrap();
    let mut others = Vec::new();
    for number in 0..100 {
        others.push(bed.connect(&format!("other-{number}")).await);
    }
    let name = "dataplane-token-revocations-default";
    bed.put(json!({ "type": "GlobalSecret", "name": name, "data": BASE64_STANDARD.encode(id) })).await;
    bed.pass(Duration::from_secs(61)).await;
    for closing in [&first.closing, &health.closing] {
        let closing = closing.borrow().clone().unwrap();
        assert!(closing.code == Closing::UNAUTHENTICATED && closing.message.contains("revoked"), "{closing:?}");
    }
    assert!(others.iter().all(|session| closing(session).is_none()));
}

#[tokio::test(start_paused = true)]
async fn expired_token_closes_its_streams() {
    let bed = Bed::start().await;
    let session = bed.connect("web-1").await;
    bed.turn_clock(Duration::from_hours(999));
    bed.pass(Duration::from_secs(2)).await;
    assert_eq!(closing(&session), None);
    bed.turn_clock(Duration::from_hours(1));
    bed.pass(Duration::from_secs(2)).await;
    let (code, reason) = closing(&session).unwrap();
    assert_eq!(code, Closing::UNAUTHENTICATED);
    assert!(reason.starts_with("authentication failed: the token has expired at "), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn deleted_signing_key_closes_streams() {
    let bed = Bed::start().await;
    let session = bed.connect("web-1").await;
    bed.delete("Secret", "default", "dataplane-token-signing-key-default-1").await;
    bed.recheck(Recheck::All);
    let (code, reason) = closing(&session).unwrap();
    assert_eq!(code, Closing::UNAUTHENTICATED);
    assert!(reason.contains("there is no signing key with KID 1"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn deleted_mesh_closes_streams() {
    let bed = Bed::start().await;
    let session = bed.connect("web-1").await;
    bed.delete("Mesh", "", "default").await;
    bed.recheck(Recheck::Mesh("default".into()));
    assert_eq!(closing(&session), Some((Closing::UNAUTHENTICATED, "the mesh \"default\" was deleted".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn deleted_dataplane_closes_its_stream_and_is_registered_again() {
    let bed = Bed::start().await;
    let session = bed.connect("web-1").await;
    bed.delete("Dataplane", "default", "web-1").await;
    bed.recheck(Recheck::Proxy(key("web-2")));
    assert_eq!(closing(&session), None);
    bed.recheck(Recheck::Proxy(key("web-1")));
    let deleted = "the Dataplane default/web-1 was deleted".to_owned();
    assert_eq!(closing(&session), Some((Closing::UNAVAILABLE, deleted)));
    drop(session);
    let _session = bed.connect("web-1").await;
    bed.pass(Duration::from_mins(1)).await;
    assert!(bed.dataplane("web-1").is_some());
    assert!(bed.insight("web-1").unwrap().is_online());
}

#[tokio::test(start_paused = true)]
async fn dataplane_that_the_token_does_not_allow_closes_its_stream() {
    let bed = Bed::start().await;
    bed.put(dataplane("web-1")).await;
    let tags = [("kuma.io/service".to_owned(), vec!["web".to_owned()])].into();
    let token = bed.token(&DataplaneClaims { tags, ..DataplaneClaims::default() });
    let proxy = hello("default.web-1", &json!({}), Some(token));
    let session = bed.registry.connect(proxy).await.ok().unwrap();
    let mut changed = dataplane("web-1");
    changed["networking"]["inbound"][0]["tags"]["kuma.io/service"] = json!("bank");
    bed.put(changed).await;
    bed.recheck(Recheck::Proxy(key("web-1")));
    assert_eq!(closing(&session).unwrap().0, Closing::UNAUTHENTICATED);
}

//! Admission, and registration of the Dataplane that a proxy provides.

use std::sync::Arc;

use kodiak_ads::{Closing, Proxies};
use kodiak_envoy::json::from_json;
use kodiak_proxies::{Authn, ProxyEvent, Recheck};
use kodiak_tokens::DataplaneClaims;
use kodiak_xds::node::NodeMetadata;
use serde_json::{Value, json};

use crate::bed::{Bed, closing, dataplane, hello, key};

fn with_resource(resource: &Value) -> Value {
    json!({ "dataplane.resource": resource.to_string() })
}

fn claims(change: impl FnOnce(&mut DataplaneClaims)) -> DataplaneClaims {
    let mut claims = DataplaneClaims::default();
    change(&mut claims);
    claims
}

#[tokio::test(start_paused = true)]
async fn proxy_registers_its_dataplane() {
    let bed = Bed::start().await;
    let _session = bed.connect("web-1").await;
    let record = bed.record("Dataplane", "web-1").unwrap();
    assert_eq!(record.labels["kuma.io/zone"], "east");
    assert_eq!(record.labels["kuma.io/proxy-type"], "sidecar");
    let stored = bed.dataplane("web-1").unwrap();
    assert_eq!(stored.inbounds()[0].tags["kuma.io/zone"], "east");
    assert_eq!(bed.events(), ["+web-1"]);
    let status = bed.registry.status(&key("web-1")).unwrap();
    assert!(status.from_metadata);
    assert_eq!(bed.registry.connected(), [status]);
}

#[tokio::test(start_paused = true)]
async fn dataplane_may_be_yaml_or_stored() {
    let bed = Bed::start().await;
    let token = Some(bed.token(&DataplaneClaims::default()));
    let yaml = "type: Dataplane\nmesh: default\nname: web-1\nnetworking: { address: 10.0.0.1 }\n";
    let proxy = hello("default.web-1", &json!({ "dataplane.resource": yaml }), token.clone());
    assert!(bed.registry.connect(proxy).await.is_ok());
    bed.put(dataplane("web-2")).await;
    let proxy = hello("default.web-2", &json!({}), token);
    assert!(bed.registry.connect(proxy).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn connected_event_has_the_node_metadata() {
    let bed = Bed::start().await;
    let mut proxy = bed.hello("web-1");
    let requested = json!({
        "dataplane.resource": dataplane("web-1").to_string(),
        "version": { "envoy": { "version": "1.40.0" } },
        "workdir": "/tmp/dp",
    });
    proxy.node.metadata = Some(from_json(&requested).unwrap());
    let metadata = Arc::new(NodeMetadata::read(proxy.node.metadata.as_ref().unwrap()));
    let _session = bed.registry.connect(proxy).await.ok().unwrap();
    assert_eq!(bed.event(), Some(ProxyEvent::Connected { key: key("web-1"), metadata }));
    let version = bed.registry.status(&key("web-1")).unwrap().version.unwrap();
    assert_eq!((version.envoy.unwrap().version.as_str(), version.kuma_dp), ("1.40.0", None));
}

#[tokio::test(start_paused = true)]
async fn invalid_requests_are_rejected_with_the_reason() {
    let bed = Bed::start().await;
    let token = bed.token(&DataplaneClaims::default());
    let check = async |id: &str, metadata: Value, code: u8, reason: &str| {
        let refused = bed.refused(hello(id, &metadata, Some(token.clone()))).await;
        assert_eq!((refused.code, refused.message.as_str()), (code, reason));
    };
    let unauthenticated = Closing::UNAUTHENTICATED;
    let invalid = Closing::INVALID_ARGUMENT;
    check("web", json!({}), invalid, r#"node.id must be <mesh>.<name>, but is "web""#).await;
    check(".web", json!({}), invalid, r#"node.id must be <mesh>.<name>, but is ".web""#).await;
    let ingress = json!({ "dataplane.proxyType": "ingress" });
    check(".web", ingress, invalid, r#"proxies of type "ingress" are not supported, only "dataplane" is"#).await;
    check("other.web", json!({}), unauthenticated, r#"mesh: mesh "other" does not exist"#).await;
    let missing =
        r#"resource "default.web" not found; create a Dataplane in Kuma CP first or pass it as an argument to kuma-dp"#;
    check("default.web", json!({}), unauthenticated, missing).await;
    let prefix = "could not register proxy passed in kuma-dp run:";
    let provided = |text: &str| json!({ "dataplane.resource": text });
    for (text, reason) in [
        ("type: Mesh\nname: web\n", r#"type: must be Dataplane, and is "Mesh""#),
        (
            "type: Dataplane\nmesh: default\nname: api\n",
            "the Dataplane is default/api but the proxy is default/web; both must have the same mesh and name",
        ),
        ("type: Dataplane\nmesh: default\nname: web\n", "networking: must be defined"),
        ("a: 1\n---\nb: 2\n", "more than one YAML document; send only the Dataplane"),
        ("# nothing\n", "the Dataplane is empty"),
    ] {
        check("default.web", provided(text), invalid, &format!("{prefix} {reason}")).await;
    }
    let refused = bed.refused(hello("default.web", &provided("a: [1"), Some(token.clone()))).await;
    assert!(refused.message.starts_with(&format!("{prefix} the Dataplane is not YAML: ")), "{refused:?}");
    assert!(bed.registry.connected().is_empty() && bed.events().is_empty());
}

#[tokio::test(start_paused = true)]
async fn dataplane_must_match_the_constraints_of_its_mesh() {
    let bed = Bed::start().await;
    let restrictions = json!({ "dataplaneProxy": { "restrictions": [{ "tags": { "kuma.io/service": "web" } }] } });
    bed.put(json!({ "type": "Mesh", "name": "default", "constraints": restrictions })).await;
    let refused = bed.refused(bed.hello("web-1")).await;
    assert_eq!(refused.code, Closing::INVALID_ARGUMENT);
    assert!(refused.message.starts_with("could not register proxy passed in kuma-dp run: "), "{refused:?}");
    assert_eq!(bed.dataplane("web-1"), None);
}

#[tokio::test(start_paused = true)]
async fn token_is_checked_against_the_dataplane() {
    let bed = Bed::start().await;
    bed.put(json!({ "type": "Mesh", "name": "other" })).await;
    let tag = |tag: &str, value: &str| claims(|claims| claims.tags = [(tag.to_owned(), vec![value.to_owned()])].into());
    let good = [
        claims(|claims| claims.name = "web-1".to_owned()),
        claims(|claims| claims.mesh = "default".to_owned()),
        tag("kuma.io/service", "web"),
        tag("kuma.io/zone", "east"),
    ];
    for claims in &good {
        let proxy = hello("default.web-1", &with_resource(&dataplane("web-1")), Some(bed.token(claims)));
        assert!(bed.registry.connect(proxy).await.is_ok(), "{claims:?}");
    }
    let bad = [
        (
            claims(|claims| claims.name = "api".to_owned()),
            "proxy name from requestor: web-1 is different than in token: api",
        ),
        (
            claims(|claims| claims.mesh = "other".to_owned()),
            "proxy mesh from requestor: default is different than in token: other",
        ),
        (
            tag("kuma.io/service", "api"),
            "dataplane contains tag \"kuma.io/service\" with value \"web\" which is not allowed with this token. Allowed values in token are [\"api\"]",
        ),
        (tag("team", "a"), "dataplane has no tag \"team\" required by the token"),
        (claims(|claims| claims.workload = "w".to_owned()), "dataplane has no workload label required by the token"),
    ];
    for (claims, reason) in &bad {
        let proxy = hello("default.web-1", &with_resource(&dataplane("web-1")), Some(bed.token(claims)));
        let refused = bed.refused(proxy).await;
        assert_eq!(refused.code, Closing::UNAUTHENTICATED);
        assert_eq!(refused.message, format!("authentication failed: {reason}"));
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_tokens_are_rejected() {
    let bed = Bed::start().await;
    bed.put(json!({ "type": "Mesh", "name": "other" })).await;
    let good = bed.token(&DataplaneClaims::default());
    let foreign = bed.token_in("other", &DataplaneClaims::default());
    let proxy = |token: Option<String>| hello("default.web-1", &with_resource(&dataplane("web-1")), token);
    let none = "authentication failed: there is no token; send one dataplane token in `authorization`";
    for (token, reason) in [
        (None, none),
        (Some(String::new()), none),
        (Some("nonsense".to_owned()), "authentication failed: the token is not a JWT; generate a new one"),
    ] {
        assert_eq!(bed.refused(proxy(token)).await.message, reason);
    }
    let refused = bed.refused(proxy(Some(foreign.clone()))).await;
    assert_eq!(refused.code, Closing::UNAUTHENTICATED);
    assert!(!refused.message.contains(&foreign), "{refused:?}");
    bed.turn_clock(std::time::Duration::from_hours(1001));
    let expired = bed.refused(proxy(Some(good))).await.message;
    assert!(expired.contains("expired"), "{expired}");
    assert_eq!(bed.dataplane("web-1"), None);
}

#[tokio::test(start_paused = true)]
async fn without_authentication_every_proxy_is_admitted() {
    let bed = Bed::start_with(|settings| settings.authn = Authn::None).await;
    let proxy = hello("default.web-1", &with_resource(&dataplane("web-1")), None);
    assert!(bed.registry.connect(proxy).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn proxy_cannot_replace_another_by_its_name() {
    let bed = Bed::start().await;
    bed.put(dataplane("web-1")).await;
    let mut taken = dataplane("web-1");
    taken["networking"]["inbound"][0]["tags"]["kuma.io/service"] = json!("api");
    let only_api = claims(|claims| claims.tags = [("kuma.io/service".to_owned(), vec!["api".to_owned()])].into());
    let proxy = || hello("default.web-1", &with_resource(&taken), Some(bed.token(&only_api)));
    let refused = bed.refused(proxy()).await;
    assert!(
        refused.message.ends_with("the token must be valid for the stored Dataplane too, because it would be replaced"),
        "{refused:?}"
    );
    // A proxy that provided its Dataplane may come back with a different one, once it is disconnected.
    let session = bed.connect("web-1").await;
    assert_eq!(bed.refused(proxy()).await.code, Closing::UNAUTHENTICATED);
    drop(session);
    assert!(bed.registry.connect(proxy()).await.is_ok());
    assert_eq!(bed.dataplane("web-1").unwrap().inbounds()[0].service(), Some("api"));
}

#[tokio::test(start_paused = true)]
async fn newest_connection_wins() {
    let bed = Bed::start().await;
    let first = bed.connect("web-1").await;
    let second = bed.connect("web-1").await;
    let taken_over = "a newer connection of this proxy took over".to_owned();
    assert_eq!(closing(&first), Some((Closing::ALREADY_EXISTS, taken_over)));
    assert_eq!(closing(&second), None);
    assert_eq!(bed.events(), ["+web-1", "+web-1"]);
    drop(first);
    assert_eq!((bed.registry.connected().len(), bed.events()), (1, vec![]));
    drop(second);
    assert_eq!((bed.registry.connected().len(), bed.events()), (0, vec!["-web-1".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn mesh_identity_closes_no_stream() {
    let bed = Bed::start().await;
    let session = bed.connect("web-1").await;
    let spec = json!({ "selector": { "dataplane": { "matchLabels": {} } }, "provider": { "type": "Bundled", "bundled": { "autogenerate": { "enabled": true } } } });
    bed.put(json!({ "type": "MeshIdentity", "mesh": "default", "name": "identity", "spec": spec })).await;
    bed.registry.recheck(&[Recheck::All].into());
    assert_eq!(closing(&session), None);
    let mut labelled = dataplane("web-2");
    labelled["labels"] = json!({ "kuma.io/workload": "web" });
    let proxy = |claims: &DataplaneClaims| hello("default.web-2", &with_resource(&labelled), Some(bed.token(claims)));
    assert!(bed.registry.connect(proxy(&DataplaneClaims::default())).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn stopping_control_plane_admits_no_proxy() {
    let bed = Bed::start().await;
    bed.registry.stop();
    let refused = bed.refused(bed.hello("web-1")).await;
    assert_eq!((refused.code, refused.message.as_str()), (Closing::UNAVAILABLE, "this control plane is stopping"));
}

//! `POST /bootstrap`: what is refused, and what the configuration is made from.

use std::sync::{Arc, Mutex};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{Request, StatusCode};
use kodiak_ads::Proxies as _;
use kodiak_proxies::{Authn, BootstrapFacts, Settings};
use kodiak_xds::input::AdminEndpoint;
use serde_json::{Value, json};

use crate::bed::{Bed, dataplane, key};

const TOKEN_REQUIRED: &str = "Dataplane Token is required. Generate token using 'kumactl generate dataplane-token > /path/file' and provide it via --dataplane-token-file=/path/file argument to Kuma DP";

fn request(change: &Value) -> String {
    let mut request = json!({
        "mesh": "default", "name": "web-1", "dataplaneToken": "secret-token", "dataplaneResource": dataplane("web-1").to_string(),
    });
    for (field, value) in change.as_object().unwrap() {
        request[field] = value.clone();
    }
    request.to_string()
}

/// Keeps the facts that the last configuration was made from.
fn recording(settings: &mut Settings) -> Arc<Mutex<Option<BootstrapFacts>>> {
    let facts = Arc::new(Mutex::new(None));
    settings.bootstrap = Arc::new({
        let facts = facts.clone();
        move |made_from| {
            *facts.lock().unwrap() = Some(made_from.clone());
            "node: {}\n".to_owned()
        }
    });
    facts
}

async fn facts_of(change: &Value, settings: impl FnOnce(&mut Settings)) -> BootstrapFacts {
    let mut facts = None;
    let bed = Bed::start_with(|with| {
        settings(with);
        facts = Some(recording(with));
    })
    .await;
    let (status, text) = bed.post("/bootstrap", &[], &request(change)).await;
    assert_eq!((status, text.as_str()), (StatusCode::OK, "node: {}\n"));
    let facts = facts.unwrap().lock().unwrap().take();
    facts.unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_is_said() {
    let bed = Bed::start().await;
    let unprocessable = StatusCode::UNPROCESSABLE_ENTITY;
    let mut outbound = dataplane("web-1");
    outbound["networking"]["outbound"] = json!([{ "port": 1, "tags": { "kuma.io/service": "api" } }]);
    let mut redirected = outbound.clone();
    redirected["networking"]["transparentProxying"] =
        json!({ "redirectPortInbound": 15006, "redirectPortOutbound": 15001 });
    let transparent = "outbound: should be empty since dataplane is in Transparent Proxying mode";
    let cases = [
        (json!({ "dataplaneToken": "" }), unprocessable, TOKEN_REQUIRED),
        (json!({ "dataplaneToken": null }), unprocessable, TOKEN_REQUIRED),
        (json!({ "mesh": "other" }), unprocessable, r#"mesh: mesh "other" does not exist"#),
        (
            json!({ "proxyType": "ingress" }),
            unprocessable,
            r#"proxyType: "ingress" is not served here, only "dataplane" is"#,
        ),
        (json!({ "dataplaneResource": redirected.to_string() }), unprocessable, transparent),
        (
            json!({ "dataplaneResource": outbound.to_string(), "dataplaneConfig": { "redirect": {} } }),
            unprocessable,
            transparent,
        ),
        (
            json!({ "dataplaneResource": "{\"type\":\"Dataplane\",\"mesh\":\"default\",\"name\":\"web-1\"}" }),
            unprocessable,
            "networking: must be defined",
        ),
        (
            json!({ "name": "api" }),
            unprocessable,
            "the Dataplane is default/web-1, and the proxy is default/api; both must be the same",
        ),
        (json!({ "dataplaneResource": "" }), StatusCode::NOT_FOUND, ""),
        (json!({ "dataplaneResource": null }), StatusCode::NOT_FOUND, ""),
    ];
    for (change, status, text) in cases {
        assert_eq!(bed.post("/bootstrap", &[], &request(&change)).await, (status, text.to_owned()), "{change}");
    }
    for body in ["", "{", "null", "7", r#"{"mesh":1}"#, r#"{"dnsPort":99999}"#, r#"{"features":"all"}"#] {
        let (status, text) = bed.post("/bootstrap", &[], body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
        assert!(text.starts_with("the request cannot be read: "), "{text}");
    }
    assert_eq!(bed.post("/bootstrap", &[], &" ".repeat(2_000_000)).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(bed.post("/else", &[], "").await, (StatusCode::NOT_FOUND, String::new()));
}

#[tokio::test(start_paused = true)]
async fn other_methods_are_refused() {
    let bed = Bed::start().await;
    let request = Request::builder().uri("/bootstrap").body(Bytes::new()).unwrap();
    let reply = bed.registry.answer(request, "127.0.0.1:1".parse().unwrap()).await;
    assert_eq!(reply.status(), StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test(start_paused = true)]
async fn the_control_plane_must_be_reached_by_its_name() {
    let foreign = |settings: &mut Settings| settings.server_names = vec!["cp.example".to_owned()];
    let bed = Bed::start_with(foreign).await;
    let (status, text) = bed.post("/bootstrap", &[], &request(&json!({}))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(
        text.starts_with(r#"the certificate of the control plane is not for "localhost", only for ["cp.example"];"#),
        "{text}"
    );
    let facts = facts_of(&json!({}), |settings| {
        foreign(settings);
        settings.xds_host = Some("cp.internal".to_owned());
        settings.xds_port = 1234;
    })
    .await;
    assert_eq!((facts.host.as_str(), facts.port), ("cp.internal", 1234));
}

#[tokio::test(start_paused = true)]
async fn only_an_authority_can_be_believed() {
    let no_authority = |settings: &mut Settings| {
        settings.check_authority = Arc::new(|pem| if pem == "CA" { Ok(()) } else { Err("CA is false".to_owned()) });
    };
    let bed = Bed::start_with(no_authority).await;
    let (status, text) = bed.post("/bootstrap", &[], &request(&json!({ "caCert": "LEAF" }))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let expected = "the certificate that the proxy gives to verify the control plane is not one of an authority: CA is false; give the authority's with --ca-cert-file";
    assert_eq!(text, expected);
    assert_eq!(facts_of(&json!({}), no_authority).await.ca, None);
    assert_eq!(facts_of(&json!({ "caCert": "CA" }), no_authority).await.ca.as_deref(), Some("CA"));
    let own = facts_of(&json!({}), |settings| settings.ca = Some("OWN".to_owned())).await;
    assert_eq!(own.ca.as_deref(), Some("OWN"));
}

#[tokio::test(start_paused = true)]
async fn the_facts_are_all_that_the_runner_said() {
    let facts = facts_of(
        &json!({
            "proxyType": "dataplane",
            "dataplaneTokenPath": "/tokens/web",
            "version": { "kumaDp": { "version": "2.14.3" }, "envoy": { "version": "1.40.0" } },
            "dynamicMetadata": { "a": "b" },
            "otelEnv": { "x": 1 },
            "dnsPort": 15054,
            "readinessPort": 9902,
            "appProbeProxyDisabled": true,
            "operatingSystem": "linux",
            "features": ["feature-delta-grpc", "feature-unified-resource-naming"],
            "resources": { "maxHeapSizeBytes": 7 },
            "workdir": "/tmp/dp",
            "metricsResources": { "certPath": "/c", "keyPath": "/k" },
            "systemCaPath": "/ca",
            "dataplaneConfig": { "redirect": { "inbound": { "enabled": true } } },
            "ipv6Enabled": true,
            "spireResources": { "socketPath": "/spire" },
            "newer": "ignored",
        }),
        |_| (),
    )
    .await;
    assert_eq!((facts.proxy, facts.cluster.as_str()), (key("web-1"), "web"));
    assert_eq!((facts.host.as_str(), facts.port), ("localhost", 5678));
    assert_eq!(facts.token.0.as_deref(), Some("secret-token"));
    assert_eq!(facts.token_path.as_deref(), Some("/tokens/web"));
    assert!(facts.delta && !facts.unified_naming && !facts.is_gateway, "the mesh is not exclusive");
    assert_eq!(facts.admin, AdminEndpoint::Socket("/tmp/dp/kuma-envoy-admin.sock".to_owned()));
    assert_eq!((facts.operating_system.as_str(), facts.max_heap_size_bytes), ("linux", 7));
    let node = facts.metadata;
    assert_eq!(node.version.unwrap().envoy.unwrap().version, "1.40.0");
    assert_eq!(node.features.len(), 2);
    assert_eq!((node.workdir.as_str(), node.system_ca_path.as_str()), ("/tmp/dp", "/ca"));
    assert_eq!((node.metrics_cert_path.as_str(), node.metrics_key_path.as_str()), ("/c", "/k"));
    assert_eq!(node.spire_socket_path, "/spire");
    assert_eq!((node.dns_port, node.readiness_port, node.admin_port), (Some(15054), Some(9902), 9901));
    assert!(node.app_probe_proxy_enabled && node.ipv6_enabled);
    assert_eq!(node.dynamic_metadata["a"], "b");
    assert_eq!(node.otel_env, Some(json!({ "x": 1 })));
    assert_eq!(node.transparent_proxy, Some(json!({ "redirect": { "inbound": { "enabled": true } } })));
    assert_eq!(node.resource, Some(dataplane("web-1").to_string()));
    assert_eq!(node.proxy_type, "dataplane");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_said_has_its_default() {
    let nothing = json!({ "features": null, "dynamicMetadata": null, "resources": null, "version": null });
    let facts = facts_of(&nothing, |_| ()).await;
    assert!(!facts.delta);
    assert_eq!(facts.admin, AdminEndpoint::Address { address: "127.0.0.1".to_owned(), port: 9901 });
    assert_eq!((facts.metadata.dns_port, facts.metadata.version, facts.token_path), (None, None, None));
    let mut resource = dataplane("web-1");
    resource["networking"]["admin"] = json!({ "port": 9999 });
    let admin = json!({ "dataplaneResource": resource.to_string(), "workdir": "/tmp" });
    let facts = facts_of(&admin, |settings| {
        settings.admin_socket = false;
        settings.default_delta = true;
    })
    .await;
    assert!(facts.delta);
    assert_eq!(facts.admin, AdminEndpoint::Address { address: "127.0.0.1".to_owned(), port: 9999 });
    let long = facts_of(&json!({ "workdir": format!("/{}", "x".repeat(200)) }), |_| ()).await;
    assert_eq!(long.admin, AdminEndpoint::Socket(format!("/{}.sock", "x".repeat(97))));
}

#[tokio::test(start_paused = true)]
async fn a_stored_dataplane_is_enough_and_tokens_may_be_off() {
    let bed = Bed::start_with(|settings| settings.authn = Authn::None).await;
    bed.put(dataplane("web-1")).await;
    let stored = json!({ "dataplaneToken": "", "dataplaneResource": "" });
    assert_eq!(bed.post("/bootstrap", &[], &request(&stored)).await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_json_for_those_who_ask_for_it() {
    let bed = Bed::start_with(|settings| drop(recording(settings))).await;
    let (status, text) = bed.post("/bootstrap", &[("accept", "application/json")], &request(&json!({}))).await;
    assert_eq!(status, StatusCode::OK);
    let expected = json!({
        "bootstrap": BASE64_STANDARD.encode("node: {}\n"),
        "kumaSidecarConfiguration": {
            "networking": { "corefileTemplate": null, "address": "10.0.0.1" },
            "metrics": { "aggregate": [] },
        },
    });
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_never_printed() {
    let bed = Bed::start().await;
    let (status, text) = bed.post("/bootstrap", &[], &request(&json!({}))).await;
    assert_eq!(status, StatusCode::OK);
    assert!(text.contains("Credential(***)") && !text.contains("secret-token"), "{text}");
}

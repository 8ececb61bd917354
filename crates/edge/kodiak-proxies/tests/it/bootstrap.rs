//! `POST /bootstrap`: rejected requests, and the configuration.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{Request, StatusCode};
use kodiak_ads::Proxies as _;
use kodiak_envoy::{
    envoy::config::bootstrap::v3::Bootstrap,
    google::protobuf::Struct,
    json::{from_json, to_json},
};
use kodiak_model::yaml;
use kodiak_proxies::{Authn, ProxySettings};
use kodiak_tokens::DataplaneClaims;
use serde_json::{Value, json};

use crate::bed::{Bed, dataplane};

const TOKEN_REQUIRED: &str = "Dataplane Token is required. Generate token using 'kumactl generate dataplane-token > /path/file' and provide it via --dataplane-token-file=/path/file argument to Kuma DP";

// JSON pointers into the configuration.
const METADATA: &str = "/node/metadata";
const API_TYPE: &str = "/dynamicResources/adsConfig/apiType";
const INITIAL_METADATA: &str = "/dynamicResources/adsConfig/grpcServices/0/initialMetadata";
const ADMIN: &str = "/admin/address";
const CA: &str = "/staticResources/secrets/0/validationContext/trustedCa/inlineBytes";
const CONTROL_PLANE: &str =
    "/staticResources/clusters/0/loadAssignment/endpoints/0/lbEndpoints/0/endpoint/address/socketAddress";

fn request(bed: &Bed, change: &Value) -> String {
    let mut request = json!({
        "mesh": "default", "name": "web-1", "dataplaneToken": bed.token(&DataplaneClaims::default()),
        "dataplaneResource": dataplane("web-1").to_string(),
    });
    for (field, value) in change.as_object().unwrap() {
        request[field] = value.clone();
    }
    request.to_string()
}

async fn bootstrap_of(change: &Value, settings: impl FnOnce(&mut ProxySettings)) -> Value {
    let bed = Bed::start_with(settings).await;
    let (status, text) = bed.post("/bootstrap", &[], &request(&bed, change)).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    read(&text)
}

/// As Envoy reads it.
fn read(text: &str) -> Value {
    let document = yaml::parse(text).unwrap().remove(0).value;
    let message: Bootstrap = from_json(&document).unwrap();
    to_json(&message).unwrap()
}

#[track_caller]
fn check(bootstrap: &Value, expected: &[(&str, Value)]) {
    for (path, value) in expected {
        assert_eq!(bootstrap.pointer(path).unwrap_or(&Value::Null), value, "{path}");
    }
}

fn pem(text: &str) -> Value {
    BASE64_STANDARD.encode(text).into()
}

#[tokio::test(start_paused = true)]
async fn invalid_requests_are_rejected_with_the_reason() {
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
            r#"proxyType: "ingress" is not supported, only "dataplane" is"#,
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
            "the Dataplane is default/web-1 but the proxy is default/api; both must have the same mesh and name",
        ),
        (json!({ "dataplaneResource": "" }), StatusCode::NOT_FOUND, ""),
        (json!({ "dataplaneResource": null }), StatusCode::NOT_FOUND, ""),
    ];
    for (change, status, text) in cases {
        assert_eq!(bed.post("/bootstrap", &[], &request(&bed, &change)).await, (status, text.to_owned()), "{change}");
    }
    let authenticated =
        [json!({ "dnsPort": 99999 }), json!({ "features": "all" })].map(|change| request(&bed, &change));
    let bodies = ["", "{", "null", "7", r#"{"mesh":1}"#].map(str::to_owned);
    for body in bodies.into_iter().chain(authenticated) {
        let (status, text) = bed.post("/bootstrap", &[], &body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
        assert!(text.starts_with("the request cannot be read: "), "{text}");
    }
    assert_eq!(bed.post("/bootstrap", &[], &" ".repeat(2_000_000)).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(bed.post("/else", &[], "").await, (StatusCode::NOT_FOUND, String::new()));
}

#[tokio::test(start_paused = true)]
async fn other_methods_are_rejected() {
    let bed = Bed::start().await;
    let request = Request::builder().uri("/bootstrap").body(Bytes::new()).unwrap();
    let reply = bed.registry.answer(request, "127.0.0.1:1".parse().unwrap()).await;
    assert_eq!(reply.status(), StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test(start_paused = true)]
async fn host_must_be_in_the_certificate() {
    let foreign = |settings: &mut ProxySettings| settings.server_names = vec!["cp.example".to_owned()];
    let bed = Bed::start_with(foreign).await;
    let (status, text) = bed.post("/bootstrap", &[], &request(&bed, &json!({}))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(
        text.starts_with(
            r#"the certificate of the control plane is not valid for "localhost", only for ["cp.example"];"#
        ),
        "{text}"
    );
    let bootstrap = bootstrap_of(&json!({}), |settings| {
        foreign(settings);
        settings.xds_host = Some("cp.internal".to_owned());
        settings.xds_port = 1234;
    })
    .await;
    check(&bootstrap, &[(CONTROL_PLANE, json!({ "address": "cp.internal", "portValue": 1234 }))]);
}

#[tokio::test(start_paused = true)]
async fn ca_of_the_request_must_be_a_ca_certificate() {
    let not_a_ca = |settings: &mut ProxySettings| {
        settings.check_ca = Arc::new(|pem| if pem == "CA" { Ok(()) } else { Err("CA is false".to_owned()) });
    };
    let bed = Bed::start_with(not_a_ca).await;
    let (status, text) = bed.post("/bootstrap", &[], &request(&bed, &json!({ "caCert": "LEAF" }))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let expected = "the certificate of the proxy to verify the control plane is not a CA certificate: CA is false; set a CA certificate with --ca-cert-file";
    assert_eq!(text, expected);
    let bootstrap = bootstrap_of(&json!({}), not_a_ca).await;
    check(&bootstrap, &[(CA, pem("CA"))]);
    let provided = json!({ "caCert": "BROUGHT" });
    let bootstrap = bootstrap_of(&provided, |_| ()).await;
    check(&bootstrap, &[(CA, pem("BROUGHT"))]);
    let bootstrap = bootstrap_of(&provided, |settings| settings.ca = None).await;
    check(&bootstrap, &[(CA, pem("BROUGHT"))]);
    let bed = Bed::start_with(|settings| settings.ca = None).await;
    let expected = "neither the proxy nor the control plane has a CA certificate to verify the control plane; set it with --ca-cert-file";
    for nothing in [json!({}), json!({ "caCert": "" }), json!({ "caCert": null })] {
        let (status, text) = bed.post("/bootstrap", &[], &request(&bed, &nothing)).await;
        assert_eq!((status, text.as_str()), (StatusCode::BAD_REQUEST, expected), "{nothing}");
    }
}

#[tokio::test(start_paused = true)]
async fn bootstrap_has_all_values_of_the_request() {
    let version = json!({
        "kumaDp": { "version": "2.14.3", "gitTag": "v2.14.3", "gitCommit": "abc", "buildDate": "today" },
        "envoy": { "version": "1.40.0", "build": "abc/1.40.0", "kumaDpCompatible": true },
    });
    let redirect = json!({
        "inbound": { "enabled": true, "port": 15006 },
        "outbound": { "enabled": true, "port": 15001 },
        "dns": { "enabled": false, "port": 15053 },
    });
    let transparent_proxy = json!({ "ipFamilyMode": "ipv4", "redirect": redirect });
    let bootstrap = bootstrap_of(
        &json!({
            "proxyType": "dataplane",
            "dataplaneTokenPath": "/tokens/web",
            "version": version,
            "dynamicMetadata": { "a": "b" },
            "otelEnv": { "x": 1, "nested": { "list": [true, null] } },
            "dnsPort": 15054,
            "readinessPort": 9902,
            "appProbeProxyDisabled": true,
            "operatingSystem": "linux",
            "features": ["feature-delta-grpc", "feature-unified-resource-naming"],
            "resources": { "maxHeapSizeBytes": 7 },
            "workdir": "/tmp/dp",
            "metricsResources": { "certPath": "/c", "keyPath": "/k" },
            "systemCaPath": "/ca",
            "dataplaneConfig": transparent_proxy,
            "ipv6Enabled": true,
            "spireResources": { "socketPath": "/spire" },
            "newer": "ignored",
        }),
        |_| (),
    )
    .await;
    let metadata = json!({
        "version": version,
        "features": ["feature-delta-grpc", "feature-unified-resource-naming"],
        "workdir": "/tmp/dp",
        "metricsCertPath": "/c",
        "metricsKeyPath": "/k",
        "systemCaPath": "/ca",
        "ipv6Enabled": true,
        "spireAgent.socketPath": "/spire",
        "dataplane.resource": dataplane("web-1").to_string(),
        "dataplane.address": "10.0.0.1",
        "dataplane.addressAndPort": "10.0.0.1:0",
        "dataplane.admin.port": "9901",
        "dataplane.admin.socketPath": "/tmp/dp/kuma-envoy-admin.sock",
        "dataplane.dns.port": "15054",
        "dataplane.readinessReporter.port": "9902",
        "dataplane.appProbeProxy.enabled": "true",
        "dataplane.proxyType": "dataplane",
        "dynamicMetadata": { "a": "b" },
        "transparentProxy": transparent_proxy,
        "otelEnvInventory": { "x": 1, "nested": { "list": [true, null] } },
    });
    // All numbers in a Struct are floating point.
    let metadata: Struct = from_json(&metadata).unwrap();
    check(
        &bootstrap,
        &[
            (METADATA, to_json(&metadata).unwrap()),
            ("/node/id", json!("default.web-1")),
            ("/node/cluster", json!("web")),
            (CONTROL_PLANE, json!({ "address": "localhost", "portValue": 5678 })),
            (CA, pem("CA")),
            (API_TYPE, json!("DELTA_GRPC")),
            (ADMIN, json!({ "pipe": { "path": "/tmp/dp/kuma-envoy-admin.sock", "mode": 384 } })),
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn missing_values_have_defaults() {
    let address = |port: u32| json!({ "socketAddress": { "address": "127.0.0.1", "portValue": port } });
    let nothing = json!({
        "features": null, "dynamicMetadata": null, "version": null, "otelEnv": null, "dataplaneConfig": null,
        "dnsPort": 0, "readinessPort": null,
    });
    let bootstrap = bootstrap_of(&nothing, |_| ()).await;
    check(&bootstrap, &[(API_TYPE, json!("GRPC")), (ADMIN, address(9901))]);
    let metadata = json!({
        "version": { "kumaDp": {}, "envoy": {} },
        "features": [],
        "ipv6Enabled": false,
        "dataplane.resource": dataplane("web-1").to_string(),
        "dataplane.address": "10.0.0.1",
        "dataplane.addressAndPort": "10.0.0.1:0",
        "dataplane.admin.port": "9901",
        "dataplane.proxyType": "dataplane",
    });
    check(&bootstrap, &[(METADATA, metadata)]);
    let mut resource = dataplane("web-1");
    resource["networking"]["admin"] = json!({ "port": 9999 });
    let admin = json!({ "dataplaneResource": resource.to_string(), "workdir": "/tmp" });
    let bootstrap = bootstrap_of(&admin, |settings| {
        settings.admin_socket = false;
        settings.default_delta = true;
    })
    .await;
    check(&bootstrap, &[(API_TYPE, json!("DELTA_GRPC")), (ADMIN, address(9999))]);
    let long = bootstrap_of(&json!({ "workdir": format!("/{}", "x".repeat(200)) }), |_| ()).await;
    let path = format!("/{}.sock", "x".repeat(97));
    check(&long, &[(ADMIN, json!({ "pipe": { "path": path, "mode": 384 } }))]);
}

#[tokio::test(start_paused = true)]
async fn values_nested_too_deeply_are_rejected() {
    let bed = Bed::start().await;
    for wrap in [|inner: Value| json!({ "a": inner }), |inner: Value| json!([inner])] {
        let mut inner = json!("inside");
        let mut answers = Vec::new();
        for _ in 0..110 {
            inner = wrap(inner);
            let otel_env = request(&bed, &json!({ "otelEnv": { "a": inner } }));
            let (status, text) = bed.post("/bootstrap", &[], &otel_env).await;
            if status == StatusCode::OK {
                check(&read(&text), &[("/node/metadata/otelEnvInventory/a", inner.clone())]);
            } else {
                assert!(
                    text.starts_with("dataplaneConfig, otelEnv: are nested too deep for the configuration of Envoy: "),
                    "{text}"
                );
            }
            answers.push(status);
        }
        answers.dedup();
        assert_eq!(answers, [StatusCode::OK, StatusCode::UNPROCESSABLE_ENTITY]);
    }
}

#[tokio::test(start_paused = true)]
async fn stored_dataplane_is_enough_without_authentication() {
    let bed = Bed::start_with(|settings| settings.authn = Authn::None).await;
    bed.put(dataplane("web-1")).await;
    let stored = json!({ "dataplaneToken": "", "dataplaneResource": "" });
    assert_eq!(bed.post("/bootstrap", &[], &request(&bed, &stored)).await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn bootstrap_is_json_on_request() {
    let bed = Bed::start().await;
    let request = request(&bed, &json!({}));
    let (_, yaml) = bed.post("/bootstrap", &[], &request).await;
    let (status, text) = bed.post("/bootstrap", &[("accept", "application/json")], &request).await;
    assert_eq!(status, StatusCode::OK);
    let expected = json!({
        "bootstrap": BASE64_STANDARD.encode(yaml),
        "kumaSidecarConfiguration": {
            "networking": { "corefileTemplate": null, "address": "10.0.0.1" },
            "metrics": { "aggregate": [] },
        },
    });
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn token_is_only_in_the_xds_credentials() {
    let bed = Bed::start().await;
    let secret = bed.token(&DataplaneClaims::default());
    let (status, text) = bed.post("/bootstrap", &[], &request(&bed, &json!({ "dataplaneToken": secret }))).await;
    assert_eq!(status, StatusCode::OK);
    let token = json!([{ "key": "authorization", "value": secret }]);
    let in_checks = INITIAL_METADATA.replace("/dynamicResources/adsConfig", "/hdsConfig");
    check(&read(&text), &[(INITIAL_METADATA, token.clone()), (&in_checks, token)]);
    assert_eq!(text.matches(&secret).count(), 2, "{text}");
}

#[tokio::test(start_paused = true)]
async fn bootstrap_has_hds_unless_it_is_disabled() {
    let bed = Bed::start().await;
    let (_, text) = bed.post("/bootstrap", &[], &request(&bed, &json!({}))).await;
    check(&read(&text), &[("/hdsConfig/apiType", json!("GRPC"))]);
    let bed = Bed::start_with(|settings| settings.health = None).await;
    let (_, text) = bed.post("/bootstrap", &[], &request(&bed, &json!({}))).await;
    check(&read(&text), &[("/hdsConfig", json!(null))]);
}

//! Metrics under the names and labels that Kuma's dashboards query.

use std::{collections::BTreeSet, time::Duration};

use hyper::StatusCode;
use kodiak_ads::{Credential, HealthHello, Proxies as _};
use kodiak_envoy::envoy::config::core::v3::Node;
use kodiak_xds_stream::TypeUrl;
use serde_json::json;

use crate::{
    ads::Stream,
    grpc::token,
    harness::{TestControlPlane, get},
    proxies::post,
};

/// Each series that the dashboard of Kuma's control plane selects and that Kodiak serves, with the labels it groups by.
const QUERIED: [(&str, &[&str]); 23] = [
    ("cp_info", &["zone"]),
    ("leader", &["zone"]),
    ("xds_streams_active", &["zone"]),
    ("xds_responses_sent", &["type_url"]),
    ("xds_requests_received", &["type_url", "confirmation=\"ACK\""]),
    ("xds_requests_received", &["type_url", "confirmation=\"NACK\""]),
    ("xds_generation", &["quantile=\"0.99\""]),
    ("xds_generation_count", &[]),
    ("xds_generation_errors", &[]),
    ("xds_delivery", &["quantile=\"0.99\""]),
    ("hds_streams_active", &[]),
    ("hds_requests_received", &[]),
    ("hds_responses_sent", &[]),
    ("api_server_http_request_duration_seconds_bucket", &["handler", "le"]),
    ("api_server_http_request_duration_seconds_count", &["code=\"200\""]),
    ("api_server_http_requests_inflight", &["handler"]),
    ("dp_server_http_request_duration_seconds_bucket", &["handler=\"/bootstrap\"", "le"]),
    ("dp_server_http_response_size_bytes_count", &["code=\"401\""]),
    ("resources_count", &["zone", "resource_type=\"Dataplane\""]),
    ("resources_count", &["zone", "resource_type=\"Mesh\""]),
    ("store_bucket", &["operation", "le"]),
    ("store_count", &["operation"]),
    ("store_sum", &["operation"]),
];

async fn scrape(cp: &TestControlPlane) -> String {
    get(cp.control_plane.diagnostics, "/metrics").await.text
}

#[tokio::test]
async fn dashboards_of_kuma_find_their_series_after_a_request_and_a_stream() {
    let cp = TestControlPlane::start().await;
    let dataplane = json!({
        "type": "Dataplane", "mesh": "default", "name": "web-1",
        "networking": { "address": "10.0.0.1", "inbound": [{ "port": 8080, "tags": { "kuma.io/service": "web" } }] },
    });
    let put = cp.put("/meshes/default/dataplanes/web-1", &dataplane).await;
    assert_eq!(put.status, StatusCode::CREATED, "{}", put.text);
    assert_eq!(cp.get("/meshes/default").await.status, StatusCode::OK);
    let refused = json!({ "mesh": "default", "name": "web-1", "dataplaneToken": "nonsense" });
    assert_eq!(post(&cp, "/bootstrap", &refused).await.status, StatusCode::UNAUTHORIZED);
    let mut stream = Stream::connect(&cp, "default", "web-1").await;
    stream.receive().await;
    // Delivered: it has answered its clusters and listeners.
    stream.request(TypeUrl::Listener);
    stream.receive().await;
    let credential = Credential(Some(token(&cp, "default", "web-1").await));
    let node = Node { id: "default.web-1".to_owned(), ..Node::default() };
    let hello = HealthHello { node, credential, peer: "127.0.0.1:1".parse().unwrap() };
    let _health = cp.control_plane.registry.connect_health(hello).await.ok().unwrap();

    // The acknowledgement and the report of it are on their way.
    let mut text = scrape(&cp).await;
    for _ in 0..600 {
        if missing(&text).is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        text = scrape(&cp).await;
    }
    assert_eq!(missing(&text), Vec::<String>::new(), "{text}");
    for sample in [
        "xds_streams_active{zone=\"default\"} 1",
        "hds_streams_active{zone=\"default\"} 1",
        "leader{zone=\"default\"} 1",
        "resources_count{zone=\"default\",resource_type=\"Dataplane\"} 1",
    ] {
        assert!(text.lines().any(|line| line == sample), "no {sample} in\n{text}");
    }
    check(&text);
}

#[tokio::test]
async fn kuma_names_can_be_turned_off() {
    let cp = TestControlPlane::start_with(|config| config.metrics.kuma_names = false).await;
    let text = scrape(&cp).await;
    check(&text);
    let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    assert_eq!(names.filter(|name| !name.starts_with("kodiak_")).collect::<Vec<_>>(), Vec::<&str>::new());
}

/// Series that have no sample.
fn missing(text: &str) -> Vec<String> {
    let samples: Vec<Sample<'_>> = text.lines().filter(|line| !line.starts_with('#')).map(sample).collect();
    let has = |wanted: &str, of: &Sample<'_>| {
        of.labels.iter().any(|(key, value)| *key == wanted || format!("{key}=\"{value}\"") == wanted)
    };
    let is_missing = |(name, labels): &&(&str, &[&str])| {
        !samples.iter().any(|sample| sample.name == *name && labels.iter().all(|label| has(label, sample)))
    };
    QUERIED.iter().filter(is_missing).map(|(name, labels)| format!("{name} {labels:?}")).collect()
}

struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, &'a str)>,
}

/// Reads `name{key="value",…} number`. No label of a control plane has a quote or a backslash.
fn sample(line: &str) -> Sample<'_> {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
    value.parse::<f64>().unwrap_or_else(|_| panic!("no number: {line}"));
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let is_name = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
    };
    let labels = labels.strip_suffix('}').unwrap_or_else(|| panic!("labels do not end: {line}"));
    let pairs = labels.split_terminator("\",").map(|label| label.trim_end_matches('"').split_once("=\""));
    let labels: Vec<(&str, &str)> = pairs.map(|pair| pair.unwrap_or_else(|| panic!("no label: {line}"))).collect();
    let keys: BTreeSet<&str> = labels.iter().map(|(key, _)| *key).collect();
    assert!(is_name(name) && keys.iter().all(|key| is_name(key)), "invalid name: {line}");
    assert_eq!(keys.len(), labels.len(), "a label twice: {line}");
    Sample { name, labels }
}

/// Whether a text is OpenMetrics: each family once, its type before its samples, and names that fit the type.
fn check(text: &str) {
    let body = text.strip_suffix("# EOF\n").expect("ends with EOF");
    let (mut families, mut series) = (BTreeSet::new(), BTreeSet::new());
    let (mut family, mut kind) = ("", "");
    for line in body.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split(' ').next().unwrap();
            assert!(families.insert(family), "{family} is there twice");
            kind = "";
        } else if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, of) = declared.split_once(' ').unwrap();
            assert_eq!(name, family, "type without help");
            kind = of;
        } else {
            let Sample { name, labels } = sample(line);
            let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("{line} is not of {family}"));
            let allowed: &[&str] = match kind {
                "counter" => &["_total"],
                "gauge" | "unknown" => &[""],
                "histogram" => &["_bucket", "_sum", "_count"],
                "summary" => &["", "_sum", "_count"],
                other => panic!("{family} has the type {other:?}"),
            };
            assert!(allowed.contains(&suffix), "{line} is no sample of a {kind}");
            let needed = match (kind, suffix) {
                ("histogram", "_bucket") => Some("le"),
                ("summary", "") => Some("quantile"),
                _ => None,
            };
            assert!(needed.is_none_or(|key| labels.iter().any(|(each, _)| *each == key)), "{line}");
            assert!(series.insert((name, labels)), "{line} is there twice");
        }
    }
}

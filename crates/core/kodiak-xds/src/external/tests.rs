//! Clusters of MeshExternalServices, and their TLS from the spec.

use std::sync::Arc;

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_model::kinds::mesh_external_service::{Endpoint, Source, Tls};
use kodiak_model::yaml;
use kodiak_xds_stream::TypeUrl;
use serde_json::{Value, json};

use super::*;
use crate::build_cluster;
use crate::input::{ExternalTls, UpstreamProtocol};
use crate::testing::{at, check};

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";
const KEY: &str = "-----BEGIN EC PRIVATE KEY-----";
const SYSTEM: &str = "/etc/ssl/certs/ca-certificates.crt";
const TLS: &str = "/transportSocket/typedConfig";
const COMMON: &str = "/transportSocket/typedConfig/commonTlsContext";

fn external(endpoints: &[(u32, &str)]) -> ExternalCluster {
    let endpoint = |(priority, address): &(u32, &str)| ExternalEndpoint {
        priority: *priority,
        address: (*address).to_owned(),
        port: 443,
    };
    ExternalCluster {
        name: "httpbin___default_extsvc_80".into(),
        upstream: UpstreamProtocol::Tcp,
        endpoints: endpoints.iter().map(endpoint).collect(),
        tls: None,
        ipv6: false,
        confs: Arc::default(),
    }
}

/// Sources resolve to their own names, except those that stand for missing ones.
fn tls_settings(spec: &str, endpoints: &[&str], system_ca: Option<&str>) -> Result<Option<ExternalTls>, String> {
    let document = yaml::parse(spec).unwrap().remove(0).value;
    let spec: Tls = serde_json::from_value(document).unwrap();
    let endpoint = |address: &&str| Endpoint { address: (*address).to_owned(), port: 443, priority: None };
    let endpoints: Vec<_> = endpoints.iter().map(endpoint).collect();
    let mut read = |source: &Source| match source.secret.as_deref() {
        Some("gone") | None => Err("there is no Secret \"gone\"".to_owned()),
        Some("empty") => Ok("".into()),
        Some(name) => Ok(name.into()),
    };
    super::tls(&spec, &endpoints, system_ca, &mut read)
}

#[track_caller]
fn with_tls(spec: &str, endpoints: &[&str], system_ca: Option<&str>) -> Cluster {
    let tls_settings = tls_settings(spec, endpoints, system_ca).unwrap().unwrap();
    cluster(&ExternalCluster { tls: Some(Arc::new(tls_settings)), ..external(&[(0, "10.0.0.1")]) })
}

/// SANs that are accepted, each with the types that are tried.
fn expected_names(cluster: &Cluster) -> Vec<(String, String)> {
    let matchers = at(cluster, &format!("{COMMON}/validationContext/matchTypedSubjectAltNames"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let named = |matcher: &Value| (text(&matcher["sanType"]), matcher["matcher"].to_string());
    matchers.as_array().into_iter().flatten().map(named).collect()
}

fn either(matcher: &Value) -> [(String, String); 2] {
    ["DNS", "IP_ADDRESS"].map(|san_type| (san_type.to_owned(), matcher.to_string()))
}

#[test]
fn hostnames_are_resolved_and_verified_with_system_cas() {
    let tls_settings = tls_settings("enabled: true", &["httpbin.org"], Some(SYSTEM)).unwrap();
    let http = ExternalCluster {
        upstream: UpstreamProtocol::Http1,
        tls: tls_settings.map(Arc::new),
        ..external(&[(0, "httpbin.org")])
    };
    check(
        &cluster(&http),
        r#"
        name: httpbin___default_extsvc_80
        type: STRICT_DNS
        dns_lookup_family: V4_ONLY
        connect_timeout: 5s
        circuit_breakers: {thresholds: [{track_remaining: true}]}
        load_assignment:
          cluster_name: httpbin___default_extsvc_80
          endpoints:
          - lb_endpoints:
            - endpoint: {address: {socket_address: {address: httpbin.org, port_value: 443}}}
              load_balancing_weight: 1
        transport_socket:
          name: envoy.transport_sockets.tls
          typed_config:
            "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
            sni: httpbin.org
            common_tls_context:
              validation_context:
                trusted_ca: {filename: /etc/ssl/certs/ca-certificates.crt}
                match_typed_subject_alt_names:
                - {san_type: DNS, matcher: {exact: httpbin.org}}
                - {san_type: IP_ADDRESS, matcher: {exact: httpbin.org}}
        typed_extension_protocol_options:
          envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
            "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
            common_http_protocol_options: {idle_timeout: 3600s, max_connection_duration: 0s, max_stream_duration: 0s}
            explicit_http_config: {http_protocol_options: {}}
        "#,
    );
}

#[test]
fn addresses_are_static_endpoints_with_priorities() {
    check(
        &cluster(&external(&[(3, "10.0.0.3"), (0, "10.0.0.1"), (3, "fd00::1")])),
        r#"
        name: httpbin___default_extsvc_80
        type: STATIC
        connect_timeout: 5s
        circuit_breakers: {thresholds: [{track_remaining: true}]}
        load_assignment:
          cluster_name: httpbin___default_extsvc_80
          endpoints:
          - locality: {sub_zone: priority-0}
            lb_endpoints:
            - endpoint: {address: {socket_address: {address: 10.0.0.1, port_value: 443}}}
              load_balancing_weight: 1
          - locality: {sub_zone: priority-3}
            priority: 3
            lb_endpoints:
            - endpoint: {address: {socket_address: {address: 10.0.0.3, port_value: 443}}}
              load_balancing_weight: 1
            - endpoint: {address: {socket_address: {address: "fd00::1", port_value: 443}}}
              load_balancing_weight: 1
        "#,
    );
}

#[test]
fn one_hostname_makes_all_endpoints_resolve_by_dns() {
    for (ipv6, family) in [(false, json!("V4_ONLY")), (true, Value::Null)] {
        let mixed = cluster(&ExternalCluster { ipv6, ..external(&[(0, "10.0.0.1"), (0, "httpbin.org")]) });
        assert_eq!(at(&mixed, "/type"), "STRICT_DNS");
        assert_eq!(at(&mixed, "/dnsLookupFamily"), family);
        assert_eq!(at(&mixed, "/loadAssignment/endpoints").as_array().unwrap().len(), 1);
    }
}

#[test]
fn external_cluster_references_nothing() {
    for endpoints in [&[][..], &[(0, "10.0.0.1")], &[(0, "httpbin.org")]] {
        let links = build_cluster(&cluster(&external(endpoints))).links;
        assert!(links.needs.iter().all(|(kind, _)| *kind != TypeUrl::Endpoint), "{links:?}");
        assert!(links.needs.is_empty() && links.faults.is_empty(), "{links:?}");
    }
    let spec = "{enabled: true, verification: {caCert: {secret: '-----BEGIN CERTIFICATE-----'}}}";
    assert!(build_cluster(&with_tls(spec, &["a.io"], None)).links.needs.is_empty());
}

#[test]
fn all_tls_settings_reach_envoy() {
    let spec = format!(
        r#"
        enabled: true
        version: {{min: TLS12, max: TLS13}}
        allowRenegotiation: true
        verification:
          serverName: api.example.com
          subjectAltNames: [{{value: example.com}}, {{type: Prefix, value: example.}}]
          caCert: {{secret: "{CERTIFICATE}"}}
          clientCert: {{secret: "{CERTIFICATE}"}}
          clientKey: {{secret: "{KEY}"}}
        "#
    );
    // Only the CA of the resource is trusted.
    let made = with_tls(&spec, &["httpbin.org"], Some(SYSTEM));
    let certificate = json!({"inlineBytes": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"});
    let key = json!({"inlineBytes": "LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0tLS0t"});
    assert_eq!(at(&made, &format!("{TLS}/sni")), "api.example.com");
    assert_eq!(at(&made, &format!("{TLS}/allowRenegotiation")), true);
    assert_eq!(at(&made, &format!("{COMMON}/validationContext/trustedCa")), certificate);
    let client = at(&made, &format!("{COMMON}/tlsCertificates"));
    assert_eq!(client, json!([{"certificateChain": certificate, "privateKey": key}]));
    let versions = json!({"tlsMinimumProtocolVersion": "TLSv1_2", "tlsMaximumProtocolVersion": "TLSv1_3"});
    assert_eq!(at(&made, &format!("{COMMON}/tlsParams")), versions);
    let matchers =
        [json!({"exact": "api.example.com"}), json!({"exact": "example.com"}), json!({"prefix": "example."})];
    assert_eq!(expected_names(&made), matchers.iter().flat_map(either).collect::<Vec<_>>());
}

#[test]
fn each_mode_disables_only_its_checks() {
    // Columns: mode; SNI; whether there are SANs, a CA and a client certificate.
    let modes = [
        ("Secured", "api.example.com", true, true, true),
        ("SkipSAN", "httpbin.org", false, true, true),
        ("SkipCA", "api.example.com", false, false, true),
        ("SkipAll", "httpbin.org", false, false, false),
    ];
    for (mode, sni, has_names, has_authority, has_client) in modes {
        let spec = format!(
            r#"
            enabled: true
            version: {{min: TLS13}}
            verification:
              mode: {mode}
              serverName: api.example.com
              subjectAltNames: [{{value: example.com}}]
              caCert: {{secret: "{CERTIFICATE}"}}
              clientCert: {{secret: "{CERTIFICATE}"}}
              clientKey: {{secret: "{KEY}"}}
            "#
        );
        let made = with_tls(&spec, &["httpbin.org"], Some(SYSTEM));
        assert_eq!(at(&made, &format!("{TLS}/sni")), sni, "{mode}");
        assert_eq!(!expected_names(&made).is_empty(), has_names, "{mode}");
        let common = at(&made, COMMON);
        assert_eq!(common.pointer("/validationContext/trustedCa").is_some(), has_authority, "{mode}");
        assert_eq!(common["tlsCertificates"].is_array(), has_client, "{mode}");
        assert_eq!(common["tlsParams"]["tlsMinimumProtocolVersion"], "TLSv1_3", "{mode}");
    }
}

#[test]
fn sources_of_disabled_checks_are_not_read() {
    for (mode, gone) in [("SkipCA", "caCert"), ("SkipAll", "caCert"), ("SkipAll", "clientCert")] {
        let spec = format!("{{enabled: true, verification: {{mode: {mode}, {gone}: {{secret: gone}}}}}}");
        assert!(tls_settings(&spec, &["httpbin.org"], None).is_ok(), "{spec}");
    }
}

#[test]
fn address_endpoints_need_the_address_as_san() {
    let made = with_tls("enabled: true", &["10.0.0.1", "httpbin.org"], Some(SYSTEM));
    assert_eq!(at(&made, &format!("{TLS}/sni")), Value::Null);
    assert_eq!(expected_names(&made), either(&json!({"exact": "10.0.0.1"})));
    let absolute = with_tls("enabled: true", &["httpbin.org."], Some(SYSTEM));
    assert_eq!(at(&absolute, &format!("{TLS}/sni")), "httpbin.org");
    assert_eq!(expected_names(&absolute), either(&json!({"exact": "httpbin.org"})));
}

#[test]
fn without_versions_envoy_chooses() {
    for version in ["", "version: {}", "version: {min: TLSAuto, max: TLSAuto}"] {
        let made = with_tls(&format!("enabled: true\n{version}"), &["httpbin.org"], Some(SYSTEM));
        assert_eq!(at(&made, &format!("{COMMON}/tlsParams")), Value::Null, "{version}");
    }
}

#[test]
fn one_version_bound_leaves_a_valid_range() {
    let cases = [
        ("{min: TLS10}", "TLSv1_0", "TLS_AUTO"),
        ("{min: TLS12}", "TLSv1_2", "TLS_AUTO"),
        ("{min: TLS13}", "TLSv1_3", "TLSv1_3"),
        ("{max: TLS13}", "TLS_AUTO", "TLSv1_3"),
        ("{max: TLS12}", "TLS_AUTO", "TLSv1_2"),
        ("{max: TLS11}", "TLSv1_1", "TLSv1_1"),
        ("{min: TLS10, max: TLS11}", "TLSv1_0", "TLSv1_1"),
    ];
    for (version, oldest, newest) in cases {
        let made = with_tls(&format!("enabled: true\nversion: {version}"), &["httpbin.org"], Some(SYSTEM));
        let parameters = at(&made, &format!("{COMMON}/tlsParams"));
        let bound = |field: &str| parameters[field].as_str().unwrap_or("TLS_AUTO").to_owned();
        let bounds = (bound("tlsMinimumProtocolVersion"), bound("tlsMaximumProtocolVersion"));
        assert_eq!(bounds, (oldest.to_owned(), newest.to_owned()), "{version}");
    }
}

#[test]
fn disabled_tls_is_ignored() {
    assert_eq!(tls_settings("verification: {mode: Bad, caCert: {secret: gone}}", &[], None), Ok(None));
}

#[test]
fn rejects_tls_that_cannot_be_verified_as_requested() {
    let cases = [
        ("", "spec.tls.verification.caCert is missing, and the proxy did not report a CA file"),
        (
            "verification: {mode: SkipSAN}",
            "spec.tls.verification.caCert is missing, and the proxy did not report a CA file",
        ),
        ("verification: {caCert: {secret: gone}}", "spec.tls.verification.caCert: there is no Secret \"gone\""),
        ("verification: {caCert: {}}", "spec.tls.verification.caCert: there is no Secret \"gone\""),
        ("verification: {caCert: {secret: empty}}", "spec.tls.verification.caCert is not PEM with a CERTIFICATE"),
        (
            "verification: {caCert: {secret: '-----BEGIN PRIVATE KEY-----'}}",
            "spec.tls.verification.caCert is not PEM with a CERTIFICATE",
        ),
        ("verification: {mode: skipCA}", "spec.tls.verification.mode is \"skipCA\", which is unsupported"),
        (
            "verification: {mode: SkipCA, clientCert: {secret: a}}",
            "spec.tls.verification.clientKey is required with clientCert",
        ),
        (
            "verification: {mode: SkipCA, clientKey: {secret: a}}",
            "spec.tls.verification.clientCert is required with clientKey",
        ),
        (
            "verification: {mode: SkipCA, clientCert: {secret: '-----BEGIN CERTIFICATE-----'}, clientKey: {secret: empty}}",
            "spec.tls.verification.clientKey is not PEM with a PRIVATE KEY",
        ),
        ("{version: {min: TLS9}, verification: {mode: SkipCA}}", "spec.tls.version.min is \"TLS9\""),
    ];
    for (spec, expected) in cases {
        let spec = if spec.starts_with('{') {
            spec.replacen('{', "{enabled: true, ", 1)
        } else {
            format!("enabled: true\n{spec}")
        };
        let error = tls_settings(&spec, &["httpbin.org"], Some("")).unwrap_err();
        assert!(error.starts_with(expected), "{spec}: {error}");
    }
    for (spec, expected) in [
        ("subjectAltNames: [{value: a}, {type: Prefix, value: ''}]", "[1].value is empty"),
        ("subjectAltNames: [{type: Suffix, value: a}]", "[0].type is \"Suffix\""),
    ] {
        let spec = format!("{{enabled: true, verification: {{{spec}}}}}");
        let error = tls_settings(&spec, &["httpbin.org"], Some(SYSTEM)).unwrap_err();
        assert!(error.starts_with(&format!("spec.tls.verification.subjectAltNames{expected}")), "{spec}: {error}");
    }
    let nameless = tls_settings("enabled: true", &[], Some(SYSTEM)).unwrap_err();
    assert!(nameless.starts_with("spec.tls.verification.serverName is missing"), "{nameless}");
}

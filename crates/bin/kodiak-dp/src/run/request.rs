//! The bootstrap request. Field names are those of kuma-dp.

use std::path::Path;

use serde_json::{Value, json};

use super::{Discovery, Options};
use crate::envoy::Version;

/// Folder of the sockets, relative to the working directory of Envoy. The same for all proxies, so that control planes build
/// the listeners at these sockets once for all of them.
const WORK_DIR: &str = ".";

/// Values that are known once the ports are bound and the version of Envoy was read.
pub(super) struct Found {
    pub(super) envoy: Version,
    pub(super) readiness_port: u16,
    pub(super) dns_port: Option<u16>,
}

pub(super) fn request(options: &Options, found: &Found) -> Value {
    let path = |path: Option<&Path>| path.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    let metrics = options.metrics_certificate.as_ref();
    let mut request = json!({
        "mesh": options.proxy.mesh,
        "name": options.proxy.name,
        "proxyType": "dataplane",
        "version": {
            "kumaDp": {"version": env!("CARGO_PKG_VERSION"), "gitTag": "", "gitCommit": "", "buildDate": ""},
            "envoy": {"version": found.envoy.to_string(), "build": "", "kumaDpCompatible": true},
        },
        "caCert": String::from_utf8_lossy(&options.ca_pem),
        "dynamicMetadata": {},
        "readinessPort": found.readiness_port,
        // False means that there is no probe proxy, despite the name.
        "appProbeProxyDisabled": false,
        "operatingSystem": std::env::consts::OS,
        "features": features(options),
        "resources": {"maxHeapSizeBytes": options.max_heap_bytes},
        "workdir": WORK_DIR,
        "metricsResources": {
            "certPath": path(metrics.map(|(cert, _)| cert.as_path())),
            "keyPath": path(metrics.map(|(_, key)| key.as_path())),
        },
        "systemCaPath": path(options.system_ca.as_deref()),
        "ipv6Enabled": options.ipv6,
        "spireResources": {"socketPath": path(options.spire_socket.as_deref())},
    });
    let token = options.token.as_ref();
    let optional = [
        ("dataplaneToken", token.map(|token| Value::from(token.text.clone()))),
        ("dataplaneTokenPath", token.and_then(|token| token.file.as_ref()).map(|file| json!(file))),
        ("dataplaneResource", options.proxy.resource.clone().map(Value::from)),
        ("dnsPort", found.dns_port.map(Value::from)),
        ("dataplaneConfig", transparent_proxy(options, found)),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            request[key] = value;
        }
    }
    request
}

fn features(options: &Options) -> Vec<&'static str> {
    let mut features = vec![
        "feature-reuse-port",
        "feature-strict-inbound-ports",
        "feature-tcp-accesslog-via-named-pipe",
        "feature-plaintext-callers",
    ];
    if options.discovery == Discovery::Delta {
        features.push("feature-delta-grpc");
    }
    if options.dns.is_some() {
        features.push("feature-embedded-dns");
    }
    if options.transparent_proxy.is_some() {
        features.push("feature-transparent-proxy-in-dataplane-metadata");
    }
    if options.bind_outbounds {
        features.push("feature-bind-outbounds");
    }
    if options.spire_socket.is_some() {
        features.push("feature-spire");
    }
    features
}

fn transparent_proxy(options: &Options, found: &Found) -> Option<Value> {
    let ports = options.transparent_proxy?;
    Some(json!({
        "ipFamilyMode": if options.ipv6 { "dualstack" } else { "ipv4" },
        "redirect": {
            "inbound": {"enabled": true, "port": ports.inbound_port},
            "outbound": {"enabled": true, "port": ports.outbound_port},
            "dns": {"enabled": found.dns_port.is_some(), "port": found.dns_port.unwrap_or_default()},
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envoy::PINNED;
    use crate::run::{Dns, Proxy, Token, TransparentProxy};

    fn options() -> Options {
        let proxy = Proxy { mesh: "default".to_owned(), name: "web-1".to_owned(), resource: None };
        Options::new("https://localhost:5678", "PEM", proxy, "/usr/bin/envoy".into())
    }

    fn asked(options: &Options) -> Value {
        let dns_port = options.dns.as_ref().map(|_| 15053);
        let found = Found { envoy: PINNED, readiness_port: 9902, dns_port };
        request(options, &found)
    }

    #[test]
    fn missing_values_are_not_sent() {
        let asked = asked(&options());
        for key in ["dataplaneToken", "dataplaneTokenPath", "dataplaneResource", "dnsPort", "dataplaneConfig"] {
            assert_eq!(asked.get(key), None, "{key}");
        }
        assert_eq!(
            asked["features"],
            json!([
                "feature-reuse-port",
                "feature-strict-inbound-ports",
                "feature-tcp-accesslog-via-named-pipe",
                "feature-plaintext-callers",
                "feature-delta-grpc"
            ])
        );
        assert_eq!(asked["version"]["envoy"]["version"], "1.40.0");
        assert_eq!((&asked["workdir"], &asked["readinessPort"]), (&json!("."), &json!(9902)));
        assert_eq!(asked["systemCaPath"], "");
    }

    #[test]
    fn all_options_are_sent() {
        let mut options = options();
        options.token = Some(Token { text: "secret".to_owned(), file: Some("/run/token".into()) });
        options.proxy.resource = Some("{}".to_owned());
        options.dns = Some(Dns { port: 15053, resolv_conf: "/etc/resolv.conf".into() });
        options.transparent_proxy = Some(TransparentProxy { inbound_port: 15006, outbound_port: 15001 });
        options.discovery = Discovery::StateOfTheWorld;
        options.system_ca = Some("/etc/ca.pem".into());
        options.bind_outbounds = true;
        options.metrics_certificate = Some(("/c.pem".into(), "/k.pem".into()));
        options.max_heap_bytes = 7;
        assert!(!format!("{options:?}").contains("secret"));
        let asked = asked(&options);
        assert_eq!((&asked["dataplaneToken"], &asked["dataplaneTokenPath"]), (&json!("secret"), &json!("/run/token")));
        assert_eq!((&asked["dataplaneResource"], &asked["dnsPort"]), (&json!("{}"), &json!(15053)));
        assert_eq!(asked["systemCaPath"], "/etc/ca.pem");
        let features: Vec<_> = asked["features"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(!features.contains(&"feature-delta-grpc"), "{features:?}");
        assert_eq!(asked["metricsResources"], json!({"certPath": "/c.pem", "keyPath": "/k.pem"}));
        assert_eq!(asked["resources"]["maxHeapSizeBytes"], 7);
        for feature in
            ["feature-bind-outbounds", "feature-embedded-dns", "feature-transparent-proxy-in-dataplane-metadata"]
        {
            assert!(features.contains(&feature), "{features:?}");
        }
        assert_eq!(
            asked["dataplaneConfig"],
            json!({"ipFamilyMode": "ipv4", "redirect": {
                "inbound": {"enabled": true, "port": 15006},
                "outbound": {"enabled": true, "port": 15001},
                "dns": {"enabled": true, "port": 15053},
            }})
        );
    }
}

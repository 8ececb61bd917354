//! OpenTelemetry collectors in the policies for logs, metrics and traces.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use kodiak_envoy::envoy::config::core::v3::{HttpService, HttpUri, http_uri::HttpUpstreamType};

use kodiak_model::address::{is_dns_name, is_ip};
use kodiak_model::{Choice, FieldPath, Problems, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::target::CollectorProtocol;

/// Port of OTLP over gRPC.
pub(crate) const OTLP_PORT: u16 = 4317;

/// Time for one request over HTTP.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

words! {
    pub enum CollectorKind {
        MeshOpenTelemetryBackend = "MeshOpenTelemetryBackend",
    }
}

/// Reference to a collector resource, by name or by labels. When several match, the oldest is used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["kind"]))]
pub struct CollectorRef {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Choice<CollectorKind>>,
    /// For resources of the same control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// For resources of another control plane, whose names are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

/// Address of a collector, and the transport of OTLP to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpEndpoint {
    /// Without the brackets of an IPv6 address.
    pub host: String,
    pub port: u32,
    pub transport: OtlpTransport,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OtlpTransport {
    Grpc,
    /// Only MeshOpenTelemetryBackends have it. The prefix of paths does not end with a slash.
    Http {
        prefix: String,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum OtlpSignal {
    Logs,
    Metrics,
    Traces,
}

impl OtlpEndpoint {
    /// Reads `host` and `host:port` as gRPC, and a URL with `http` as OTLP over HTTP.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, transport) = match text.strip_prefix("http://") {
            Some(rest) => {
                let (address, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                (address, OtlpTransport::Http { prefix: prefix.trim_end_matches('/').to_owned() })
            }
            None => (text, OtlpTransport::Grpc),
        };
        let (host, port) = endpoint(address)?;
        Some(Self { host, port, transport })
    }

    /// `host:port`, with brackets for IPv6.
    pub fn authority(&self) -> String {
        authority(&self.host, self.port)
    }

    pub fn protocol(&self) -> CollectorProtocol {
        match self.transport {
            OtlpTransport::Grpc => CollectorProtocol::Grpc,
            OtlpTransport::Http { .. } => CollectorProtocol::Http,
        }
    }

    /// Path that a signal is posted to. `None` for gRPC.
    pub(crate) fn http_path(&self, signal: OtlpSignal) -> Option<String> {
        let OtlpTransport::Http { prefix } = &self.transport else { return None };
        let signal = match signal {
            OtlpSignal::Logs => "logs",
            OtlpSignal::Metrics => "metrics",
            OtlpSignal::Traces => "traces",
        };
        Some(format!("{prefix}/v1/{signal}"))
    }

    /// Envoy's settings to post a signal through the cluster of the collector. `None` for gRPC.
    pub(crate) fn http_service(&self, signal: OtlpSignal, cluster: &str) -> Option<HttpService> {
        let uri = HttpUri {
            uri: format!("http://{}{}", self.authority(), self.http_path(signal)?),
            timeout: Some(kodiak_envoy::duration(EXPORT_TIMEOUT)),
            http_upstream_type: Some(HttpUpstreamType::Cluster(cluster.to_owned())),
        };
        Some(HttpService { http_uri: Some(uri), ..HttpService::default() })
    }
}

/// `host:port`, with brackets for IPv6.
pub(crate) fn authority(host: &str, port: u32) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Exactly one of the two must be set. `check_endpoint` adds the endpoint rules of the policy.
pub(crate) fn check(
    endpoint: Option<&str>,
    backend_ref: Option<&CollectorRef>,
    at: &FieldPath<'_>,
    problems: &mut Problems,
    check_endpoint: impl Fn(&str, &FieldPath<'_>, &mut Problems),
) {
    match (endpoint.filter(|endpoint| !endpoint.is_empty()), backend_ref) {
        (Some(_), Some(_)) => {
            problems.add(at, "openTelemetry must have only one type defined: endpoint, backendRef");
        }
        (None, None) => problems.add(at, "openTelemetry must have exactly one defined: endpoint, backendRef"),
        (None, Some(backend_ref)) => backend_ref.check(&at.field("backendRef"), problems),
        (Some(endpoint), None) if endpoint.contains(['/', '?', '#']) => {
            problems.add(&at.field("endpoint"), "must be in host:port format, not a URL");
        }
        (Some(endpoint), None) => check_endpoint(endpoint, &at.field("endpoint"), problems),
    }
}

/// Host and port of an endpoint. `None` if it is neither a host nor a host and a port.
pub(crate) fn endpoint(text: &str) -> Option<(String, u32)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None if text.parse::<Ipv6Addr>().is_ok() => (text, None),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Some(OTLP_PORT), |port| port.parse::<u16>().ok().filter(|port| *port != 0))?;
    (is_ip(host) || is_dns_name(host)).then(|| (host.to_owned(), port.into()))
}

impl CollectorRef {
    fn check(&self, at: &FieldPath<'_>, problems: &mut Problems) {
        let Self { kind, name, labels } = self;
        kind.clone().unwrap_or(Choice::Unknown(String::new())).check(at, "kind", problems);
        let named = name.as_ref().is_some_and(|name| !name.is_empty());
        let labelled = labels.as_ref().is_some_and(|labels| !labels.is_empty());
        match (named, labelled) {
            (true, true) => problems.add(at, "backendRef must have only one type defined: name, labels"),
            (false, false) => problems.add(at, "backendRef must have exactly one defined: name, labels"),
            (true, false) | (false, true) => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{OtlpEndpoint, OtlpSignal, OtlpTransport, endpoint};

    #[test]
    fn urls_are_otlp_over_http() {
        let read = |text: &str| {
            let endpoint = OtlpEndpoint::parse(text)?;
            Some((endpoint.authority(), endpoint.http_path(OtlpSignal::Logs)))
        };
        assert_eq!(read("collector"), Some(("collector:4317".to_owned(), None)));
        let http = |authority: &str, path: &str| Some((authority.to_owned(), Some(path.to_owned())));
        assert_eq!(read("http://collector:4318"), http("collector:4318", "/v1/logs"));
        assert_eq!(read("http://[fd00::1]:4318/a/b/"), http("[fd00::1]:4318", "/a/b/v1/logs"));
        for bad in ["http://", "http:///a", "https://collector:1", "http://collector:0/a"] {
            assert_eq!(OtlpEndpoint::parse(bad), None, "{bad}");
        }
        let metrics = OtlpEndpoint::parse("http://c:1/p").unwrap();
        assert_eq!(metrics.transport, OtlpTransport::Http { prefix: "/p".to_owned() });
        assert_eq!(metrics.http_path(OtlpSignal::Metrics).as_deref(), Some("/p/v1/metrics"));
    }

    #[test]
    fn endpoint_has_a_default_port_and_ipv6_in_brackets() {
        let some = |host: &str, port| Some((host.to_owned(), port));
        for (text, expected) in [
            ("collector.observability", some("collector.observability", 4317)),
            ("collector:4318", some("collector", 4318)),
            ("10.0.0.1:1", some("10.0.0.1", 1)),
            ("[fd00::1]:5", some("fd00::1", 5)),
            ("[fd00::1]", some("fd00::1", 4317)),
            ("fd00::1", some("fd00::1", 4317)),
            ("", None),
            (":4317", None),
            ("collector:", None),
            ("collector:0", None),
            ("collector:65536", None),
            ("[collector]:1", None),
            ("[fd00::1]x", None),
            ("http://collector", None),
            ("a b:1", None),
        ] {
            assert_eq!(endpoint(text), expected, "{text}");
        }
    }
}

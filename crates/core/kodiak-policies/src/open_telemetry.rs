//! OpenTelemetry collectors in the policies for logs, metrics and traces.

use std::collections::BTreeMap;

use kodiak_model::address::{is_dns_name, is_ip};
use kodiak_model::{Choice, FieldPath, Problems, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// Port of collectors, for OTLP over gRPC.
pub(crate) const PORT: u32 = 4317;

/// Host and port of `host:port`, `[ipv6]:port` or a host alone. `None` when it is not one.
pub(crate) fn endpoint(text: &str) -> Option<(String, u32)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, rest)| (host, rest.strip_prefix(':')))?,
        // An IPv6 address without brackets has no port.
        None if is_ip(text) => (text, None),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Some(PORT), |port| port.parse::<u16>().ok().filter(|port| *port != 0).map(u32::from))?;
    (is_ip(host) || is_dns_name(host)).then(|| (host.to_owned(), port))
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
    use super::endpoint;

    #[test]
    fn endpoint_has_a_host_and_a_port() {
        let read = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(endpoint("otel-collector.observability:4318"), read("otel-collector.observability", 4318));
        assert_eq!(endpoint("collector"), read("collector", 4317));
        assert_eq!(endpoint("10.0.0.1:1"), read("10.0.0.1", 1));
        assert_eq!(endpoint("[::1]:4318"), read("::1", 4318));
        assert_eq!(endpoint("[::1]"), read("::1", 4317));
        assert_eq!(endpoint("::1"), read("::1", 4317));
        for bad in ["", ":4317", "host:", "host:0", "host:70000", "host:port", "[::1", "http://host", "a b:1"] {
            assert_eq!(endpoint(bad), None, "{bad}");
        }
    }
}

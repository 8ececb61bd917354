//! OpenTelemetry collectors in the policies for logs, metrics and traces.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use kodiak_model::{Choice, FieldPath, Problems, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Port of OTLP over gRPC.
const OTLP_PORT: u16 = 4317;

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
    (!host.is_empty()).then(|| (host.to_owned(), port.into()))
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
        ] {
            assert_eq!(endpoint(text), expected, "{text}");
        }
    }
}

//! References of policies to MeshOpenTelemetryBackends: `backends[].openTelemetry.backendRef` of a conf.
//!
//! References are resolved before confs are merged. The hooks of policies see only `endpoint`: `host:port` for gRPC, and
//! a URL for HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kodiak_model::kinds::mesh_open_telemetry_backend::{Endpoint, MeshOpenTelemetryBackend, Protocol};
use kodiak_model::policy::{Body, Conf};
use kodiak_model::{Choice, Labels, labels};
use serde_json::Value;

use crate::open_telemetry::{CollectorRef, OTLP_PORT, authority};

/// Address of a backend without one. Kodiak does not read `HOST_IP` of the environment of a proxy.
const OWN_HOST: &str = "127.0.0.1";

#[derive(Debug, Clone, PartialEq)]
pub struct OtlpBackend {
    pub labels: Arc<Labels>,
    pub created: Timestamp,
    pub spec: Arc<MeshOpenTelemetryBackend>,
}

/// The MeshOpenTelemetryBackends of a mesh, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OtlpBackends(BTreeMap<Arc<str>, Arc<OtlpBackend>>);

/// A reference without a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresolved {
    pub path: String,
    pub message: String,
}

impl OtlpBackends {
    pub fn set(&mut self, name: &Arc<str>, backend: Option<Arc<OtlpBackend>>) {
        match backend {
            Some(backend) => drop(self.0.insert(name.clone(), backend)),
            None => drop(self.0.remove(name)),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The body with the endpoints of the backends that it references. A reference without a target stays: hooks leave
    /// such a backend out.
    pub fn resolve(&self, mut body: Body) -> Body {
        confs(&mut body, |_, conf| *conf = self.resolve_conf(conf));
        body
    }

    pub fn unresolved(&self, body: &Body) -> Vec<Unresolved> {
        let mut unresolved = Vec::new();
        confs(&mut body.clone(), |path, conf| {
            let missing = references(conf).into_iter().filter(|(_, reference)| self.find(reference).is_none());
            unresolved.extend(missing.map(|(n, reference)| Unresolved {
                path: format!("{path}.backends[{n}].openTelemetry.backendRef"),
                message: format!("there is no {}: nothing is sent to this backend", shown(&reference)),
            }));
        });
        unresolved
    }

    fn resolve_conf(&self, conf: &Conf) -> Conf {
        let found: Vec<(usize, String)> = references(conf)
            .into_iter()
            .filter_map(|(n, reference)| Some((n, endpoint(&self.find(&reference)?.spec))))
            .collect();
        if found.is_empty() {
            return conf.clone();
        }
        let mut value = conf.json().clone();
        for (n, endpoint) in found {
            value["backends"][n]["openTelemetry"] = serde_json::json!({ "endpoint": endpoint });
            for (key, written) in conf.json()["backends"][n]["openTelemetry"].as_object().into_iter().flatten() {
                if key != "backendRef" {
                    value["backends"][n]["openTelemetry"][key] = written.clone();
                }
            }
        }
        Conf::new(value)
    }

    /// By labels, the oldest one that has all of them.
    fn find(&self, reference: &CollectorRef) -> Option<&OtlpBackend> {
        let CollectorRef { kind: _, name, labels } = reference;
        if let Some(name) = name.as_deref().filter(|name| !name.is_empty()) {
            return self.0.get(name).map(|backend| &**backend);
        }
        let labels = labels.as_ref().filter(|labels| !labels.is_empty())?;
        let named = self.0.iter().filter(|(name, backend)| {
            let value = |key: &str| match key {
                labels::DISPLAY_NAME => Some(labels::display_name(&backend.labels, name)),
                _ => backend.labels.get(key).map(String::as_str),
            };
            labels.iter().all(|(key, wanted)| value(key) == Some(wanted))
        });
        named.min_by_key(|(name, backend)| (backend.created, *name)).map(|(_, backend)| &**backend)
    }
}

pub fn has_references(body: &Body) -> bool {
    let mut has = false;
    confs(&mut body.clone(), |_, conf| has |= !references(conf).is_empty());
    has
}

/// All confs of a policy, with their paths.
fn confs(body: &mut Body, mut change: impl FnMut(&str, &mut Conf)) {
    let Body { target: _, to, from, rules, default } = body;
    for (list, items) in [("to", to), ("from", from)] {
        for (n, item) in items.iter_mut().enumerate() {
            change(&format!("spec.{list}[{n}].default"), &mut item.conf);
        }
    }
    for (n, rule) in rules.iter_mut().enumerate() {
        change(&format!("spec.rules[{n}].default"), &mut rule.conf);
    }
    if let Some(conf) = default {
        change("spec.default", conf);
    }
}

/// By position in `backends`.
fn references(conf: &Conf) -> Vec<(usize, CollectorRef)> {
    let backends = conf.json().get("backends").and_then(Value::as_array);
    let reference = |(n, backend): (usize, &Value)| {
        let written = backend.get("openTelemetry")?.get("backendRef").filter(|written| !written.is_null())?;
        Some((n, serde_json::from_value(written.clone()).ok()?))
    };
    backends.into_iter().flatten().enumerate().filter_map(reference).collect()
}

fn endpoint(spec: &MeshOpenTelemetryBackend) -> String {
    let MeshOpenTelemetryBackend { endpoint, protocol, env: _ } = spec;
    let Endpoint { address, port, path } = endpoint.clone().unwrap_or_default();
    let port = port.and_then(|port| u32::try_from(port).ok()).unwrap_or(u32::from(OTLP_PORT));
    let authority = authority(address.as_deref().unwrap_or(OWN_HOST), port);
    match protocol.as_ref().and_then(Choice::known).unwrap_or(Protocol::Grpc) {
        Protocol::Grpc => authority,
        Protocol::Http => format!("http://{authority}{}", path.unwrap_or_default().trim_end_matches('/')),
    }
}

fn shown(reference: &CollectorRef) -> String {
    let CollectorRef { kind: _, name, labels } = reference;
    match (name, labels) {
        (Some(name), _) => format!("MeshOpenTelemetryBackend {name:?}"),
        (None, labels) => {
            let pairs: Vec<String> = labels.iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
            format!("MeshOpenTelemetryBackend labelled {}", pairs.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{conf, value};

    fn backends(written: &[(&str, i64, &str, &str)]) -> OtlpBackends {
        let mut backends = OtlpBackends::default();
        for (name, created, labels, spec) in written {
            let backend = OtlpBackend {
                labels: Arc::new(serde_json::from_value(value(labels)).unwrap()),
                created: Timestamp::from_second(*created).unwrap(),
                spec: Arc::new(serde_json::from_value(value(spec)).unwrap()),
            };
            backends.set(&Arc::from(*name), Some(Arc::new(backend)));
        }
        backends
    }

    fn referring(reference: &str) -> Body {
        let text = format!(
            "backends: [{{type: Zipkin}}, {{type: OpenTelemetry, openTelemetry: {{backendRef: {reference}, body: x}}}}]"
        );
        Body { default: Some(conf(&text)), ..Body::default() }
    }

    fn resolved(backends: &OtlpBackends, reference: &str) -> Value {
        let body = backends.resolve(referring(reference));
        body.default.unwrap().json()["backends"][1]["openTelemetry"].clone()
    }

    #[test]
    fn reference_becomes_the_endpoint_and_other_fields_stay() {
        let backends = backends(&[
            ("main", 1, "{}", "{endpoint: {address: collector, port: 4320}}"),
            ("own", 1, "{}", "{}"),
            ("vendor", 1, "{}", "{protocol: http, endpoint: {address: 'fd00::1', port: 4318, path: /tenant/}}"),
        ]);
        for (name, expected) in
            [("main", "collector:4320"), ("own", "127.0.0.1:4317"), ("vendor", "http://[fd00::1]:4318/tenant")]
        {
            let resolved = resolved(&backends, &format!("{{kind: MeshOpenTelemetryBackend, name: {name}}}"));
            assert_eq!(resolved, serde_json::json!({ "endpoint": expected, "body": "x" }));
        }
    }

    #[test]
    fn oldest_backend_with_all_labels_is_used() {
        let backends = backends(&[
            ("a", 3, "{team: x, env: prod}", "{endpoint: {address: a}}"),
            ("b", 2, "{team: x, env: prod}", "{endpoint: {address: b}}"),
            ("c", 1, "{team: x}", "{endpoint: {address: c}}"),
        ]);
        let by = |labels: &str| resolved(&backends, &format!("{{kind: MeshOpenTelemetryBackend, labels: {labels}}}"));
        assert_eq!(by("{team: x, env: prod}")["endpoint"], "b:4317");
        assert_eq!(by("{team: x}")["endpoint"], "c:4317");
        assert_eq!(by("{kuma.io/display-name: a}")["endpoint"], "a:4317");
        assert_eq!(by("{team: y}")["endpoint"], Value::Null);
    }

    #[test]
    fn reference_without_a_target_is_reported() {
        let body = referring("{kind: MeshOpenTelemetryBackend, labels: {team: x}}");
        assert!(has_references(&body));
        assert_eq!(
            OtlpBackends::default().unresolved(&body),
            [Unresolved {
                path: "spec.default.backends[1].openTelemetry.backendRef".to_owned(),
                message: "there is no MeshOpenTelemetryBackend labelled team=x: nothing is sent to this backend"
                    .to_owned(),
            }]
        );
        assert!(!has_references(&Body { default: Some(conf("backends: [{type: Zipkin}]")), ..Body::default() }));
    }
}

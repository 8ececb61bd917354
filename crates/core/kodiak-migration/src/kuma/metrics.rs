//! `Mesh.metrics` to MeshMetric.

use serde_json::{Map, Value, json};

use super::{
    facts::MeshFacts,
    fields::Fields,
    outcome::{ExportedResource, NewResource, Outcomes},
};

/// Tags that Kuma fills in.
const DEFAULT_SERVICE: &str = "dataplane-metrics";

/// A MeshMetric for the enabled backend, if there is one.
pub(super) fn convert(mesh: &ExportedResource, facts: &MeshFacts, out: &mut Outcomes) {
    let enabled = facts.mesh.pointer("/metrics/enabledBackend").and_then(Value::as_str);
    let Some(name) = enabled.filter(|name| !name.is_empty()) else { return };
    let section = ExportedResource { kind: "Mesh.metrics".to_owned(), mesh: mesh.name.clone(), name: name.to_owned() };
    if let Some(other) = facts.policies("MeshMetric").first() {
        let reason = format!("the mesh has MeshMetric {other:?} too, which takes precedence in Kuma");
        out.leave_out(section, reason, "check that the MeshMetric selects all proxies that need metrics");
        return;
    }
    match conf(name, facts) {
        Ok((conf, notes)) => {
            let spec = json!({ "targetRef": { "kind": "Mesh" }, "default": conf });
            let mesh = mesh.name.clone();
            let new = NewResource { kind: "MeshMetric", mesh, name: format!("metrics-{name}"), spec };
            out.convert(&[section], vec![new], notes);
        }
        Err(reason) => out.leave_out(section, reason, "write a MeshMetric by hand"),
    }
}

fn conf(name: &str, facts: &MeshFacts) -> Result<(Value, Vec<String>), String> {
    let mut old = Fields::of(Some(facts.backend("metrics", Some(name), "enabledBackend")?), "metrics backend")?;
    old.take("name");
    let backend_type = old.text("type")?.unwrap_or_default();
    if backend_type != "prometheus" {
        return Err(format!("the metrics backend has the type {backend_type:?}, which has no counterpart"));
    }
    let mut conf = old.object("conf")?.unwrap_or(Fields::of(None, "conf")?);
    old.end()?;
    let mut notes = Vec::new();
    let mut prometheus = conf.copy(&[("port", "port"), ("path", "path")]);
    prometheus.insert("tls".to_owned(), json!({ "mode": tls_mode(&mut conf, facts)? }));
    let tags = conf.take("tags");
    let is_default = tags.as_ref().is_none_or(|tags| *tags == json!({ "kuma.io/service": DEFAULT_SERVICE }));
    if !is_default {
        notes.push("the tags of the endpoint are not taken over: targets have the tags of their Dataplane".to_owned());
    }
    let applications: Vec<Value> =
        conf.list("aggregate")?.into_iter().filter_map(|one| application(one).transpose()).collect::<Result<_, _>>()?;
    let mut used_only = false;
    if let Some(mut envoy) = conf.object("envoy")? {
        used_only = envoy.flag("usedOnly")?.unwrap_or_default();
        if envoy.text("filterRegex")?.is_some_and(|regex| !regex.is_empty()) {
            return Err(
                "conf.envoy.filterRegex matches Envoy's names, and profiles of a MeshMetric those of Prometheus"
                    .to_owned(),
            );
        }
        envoy.end()?;
    }
    conf.end()?;
    let mut new = Map::from_iter([("sidecar".to_owned(), json!({ "includeUnused": !used_only }))]);
    if !applications.is_empty() {
        new.insert("applications".to_owned(), json!(applications));
    }
    new.insert("backends".to_owned(), json!([{ "type": "Prometheus", "prometheus": prometheus }]));
    notes.push("settings in `metrics` of a Dataplane have no effect any more".to_owned());
    Ok((Value::Object(new), notes))
}

fn tls_mode(conf: &mut Fields, facts: &MeshFacts) -> Result<&'static str, String> {
    let skips = conf.flag("skipMTLS")?.unwrap_or_default();
    let mode = match conf.object("tls")? {
        Some(mut tls) => {
            let mode = tls.text("mode")?;
            tls.end()?;
            mode
        }
        None => None,
    };
    match mode.as_deref() {
        Some("activeMTLSBackend") => Ok("ActiveMTLSBackend"),
        Some("providedTLS") => Ok("ProvidedTLS"),
        Some("disabled") => Ok("Disabled"),
        Some(other) => Err(format!("conf.tls.mode: {other:?} has no counterpart")),
        None if skips || !facts.has_mtls() => Ok("Disabled"),
        None => Ok("ActiveMTLSBackend"),
    }
}

/// `None` for an application that is not scraped.
fn application(old: Value) -> Result<Option<Value>, String> {
    let mut old = Fields::of(Some(old), "conf.aggregate")?;
    let new = old.copy(&["name", "path", "address", "port"].map(|field| (field, field)));
    let enabled = old.flag("enabled")?.unwrap_or(true);
    old.end()?;
    Ok(enabled.then_some(Value::Object(new)))
}

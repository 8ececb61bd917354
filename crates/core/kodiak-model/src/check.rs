//! Validation: turns an untyped document into a checked resource. REST, the CLI, admission and sync all use it.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    Draft, Erased, FieldPath, Kind, Kri, PortSection, Problems, ResourceKey, Scope, Shape, Spec,
    conform::{UnknownField, conform},
    dns,
    labels::{self, Labels, Place},
    language::{self, CheckCtx},
    names, sni, written,
};

/// A resource that passed validation, with the labels it is stored with.
#[derive(Debug, Clone)]
pub struct Checked {
    pub kind: &'static Kind,
    pub mesh: String,
    pub name: String,
    pub labels: Labels,
    /// Canonical JSON text.
    spec: String,
    /// The same as the type of its kind.
    value: Erased,
    pub warnings: Vec<String>,
    pub ports: Vec<PortSection>,
}

impl Checked {
    /// A resource that was checked when it was stored.
    pub fn stored(
        kind: &'static Kind,
        key: &ResourceKey,
        labels: Labels,
        spec: &str,
    ) -> Result<Self, serde_json::Error> {
        let value = (kind.language.decode)(spec)?;
        let (mesh, name, spec) = (key.mesh.to_string(), key.name.to_string(), spec.to_owned());
        Ok(Self { kind, mesh, name, labels, spec, value, warnings: Vec::new(), ports: Vec::new() })
    }

    /// Canonical JSON text.
    pub fn spec(&self) -> &str {
        &self.spec
    }

    /// The spec as its type; `None` for the type of another kind.
    pub fn typed<S: Spec>(&self) -> Option<Arc<S>> {
        self.value.get()
    }

    /// Replaces the spec: text and value stay one. Fields that are not written stay so unless they change.
    pub fn replace<S: Spec>(&mut self, spec: S) {
        let new = language::to_value(&spec);
        let old = self.typed::<S>().map(|old| language::to_value(&*old));
        let written = serde_json::from_str(&self.spec).ok();
        self.spec = match (written, old) {
            (Some(written), Some(old)) => written::changed(&written, &old, new).to_string(),
            _ => new.to_string(),
        };
        self.value = Erased::new(spec);
    }

    /// Writes a field with its present value, also when its author left it out.
    pub fn write_field(&mut self, field: &str) {
        let written = serde_json::from_str::<Value>(&self.spec).ok();
        let complete = (self.kind.language.complete)(&self.spec).ok();
        let (Some(mut written), Some(complete)) = (written, complete) else { return };
        if let (Some(fields), Some(value)) = (written.as_object_mut(), complete.get(field)) {
            fields.insert(field.to_owned(), value.clone());
            self.spec = written::as_written(complete, &written).to_string();
        }
    }

    /// As [`replace`](Self::replace), from JSON of the same kind.
    pub fn replace_json(&mut self, spec: &Value) -> Result<(), serde_json::Error> {
        let text = spec.to_string();
        self.value = (self.kind.language.decode)(&text)?;
        self.spec = text;
        Ok(())
    }
}

/// Reports all problems at once: those of the spec first, then those of names and labels.
pub fn check(kind: &'static Kind, draft: Draft, place: &Place) -> Result<Checked, Problems> {
    let meta = Meta {
        kind,
        mesh: draft.mesh.clone().unwrap_or_default(),
        name: draft.name.clone(),
        labels: draft.labels.clone(),
    };
    let mut problems = Problems::default();
    let spec = spec(kind, draft, &mut problems);
    meta.check(place, &mut problems);
    match spec {
        Some(spec) if problems.is_empty() => Ok(meta.with(spec, place)),
        _ => Err(problems),
    }
}

/// Envelope of a resource: everything beside its spec.
pub struct Meta {
    pub kind: &'static Kind,
    pub mesh: String,
    pub name: String,
    pub labels: Labels,
}

/// A spec that passed validation, and the warnings about its document.
pub struct ValidSpec {
    spec: crate::CheckedSpec,
    warnings: Vec<String>,
}

impl ValidSpec {
    /// The canonical JSON text.
    pub fn json(&self) -> &str {
        &self.spec.json
    }

    /// The spec as its type; `None` for the type of another kind.
    pub fn typed<S: Spec>(&self) -> Option<Arc<S>> {
        self.spec.value.get()
    }
}

impl Meta {
    pub fn check(&self, place: &Place, problems: &mut Problems) {
        names::check(self.kind, &self.mesh, &self.name, problems);
        labels::check(&self.mesh, &self.labels, place, problems);
    }

    pub fn with(self, found: ValidSpec, place: &Place) -> Checked {
        let Self { kind, mesh, name, labels } = self;
        let ValidSpec { spec, mut warnings } = found;
        let labels = labels::compute(kind, &mesh, &labels, &spec.labels, place);
        warnings.extend(kind.without_effect.map(|why| format!("{} has no effect: {why}", kind.name)));
        warnings.extend(name_warnings(kind, &mesh, &name, &labels, &spec.ports));
        warnings.extend(spec.warnings);
        Checked { kind, mesh, name, labels, spec: spec.json, value: spec.value, warnings, ports: spec.ports }
    }
}

/// Validates the spec of a draft: against its schema, then against the rules of its kind.
pub fn spec(kind: &'static Kind, draft: Draft, problems: &mut Problems) -> Option<ValidSpec> {
    let Draft { kind: _, mesh, name, labels, spec, status: _, unknown } = draft;
    let root = root_of(kind);
    let Some(mut value) = spec else {
        problems.add(&FieldPath::ROOT, "spec in body is required");
        return None;
    };
    let findings = conform(&mut value, kind.spec_node(), kind.shape, &root);
    let mut warnings: Vec<_> = unknown.iter().map(|field| format!("unknown field {field} is ignored")).collect();
    warnings.extend(findings.unknown.iter().map(ToString::to_string));
    if !findings.problems.is_empty() {
        problems.extend(findings.problems);
        return None;
    }
    let ctx = CheckCtx { mesh: mesh.as_deref().unwrap_or_default(), name: &name, labels: &labels };
    let spec = (kind.language.check)(value, &root, &ctx, problems)?;
    Some(ValidSpec { spec, warnings })
}

/// Unknown fields of a rejected document. A misspelt field is often the reason for the rejection.
pub fn unknown_fields(kind: &Kind, spec: &Value) -> Vec<UnknownField> {
    let root = root_of(kind);
    conform(&mut spec.clone(), kind.spec_node(), kind.shape, &root).unknown
}

fn root_of(kind: &Kind) -> FieldPath<'static> {
    match kind.shape {
        Shape::Legacy => FieldPath::ROOT,
        Shape::Plugin => FieldPath::SPEC,
    }
}

/// Names that are not valid DNS labels are deprecated, but still accepted.
fn name_warnings(kind: &Kind, mesh: &str, name: &str, labels: &Labels, ports: &[PortSection]) -> Vec<String> {
    let named_in_dns = matches!(kind.name, "Mesh" | "Zone") || kind.language.destination;
    if !named_in_dns {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    let shown = labels::display_name(labels, name);
    let faults = dns::dns_1035_label(shown);
    if !faults.is_empty() {
        let (kind, faults) = (kind.name, faults.join("; "));
        warnings.push(format!(
            "Invalid {kind} resource name: '{shown}'. It does not conform to the DNS format (RFC 1035). This is deprecated. Errors: {faults}"
        ));
    }
    let mesh = if kind.scope == Scope::Mesh { mesh } else { "" };
    if let Some(kri) = Kri::of(kind, mesh, name, labels) {
        for port in ports {
            if let Err(fault) = sni::of(&kri, &port.section) {
                let (kind, port) = (kind.name, port.port);
                warnings.push(format!("Invalid {kind} SNI (port \"{port}\"): {fault}. This is deprecated."));
            }
        }
    }
    warnings
}

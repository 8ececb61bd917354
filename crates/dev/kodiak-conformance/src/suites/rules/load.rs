//! Reads and validates inputs like user resources.

use std::sync::Arc;

use anyhow::Context as _;
use kodiak_kinds::kinds;
use kodiak_model::{Kind, Labels, PortSection, Problems, Scope, check, policy::Body, yaml};
use kodiak_rules::{Policy, Resource};
use serde_json::Value;

#[derive(Clone)]
pub(super) struct Document {
    pub(super) kind: &'static Kind,
    /// Empty for a Mesh.
    pub(super) mesh: String,
    pub(super) name: String,
    pub(super) labels: Labels,
    pub(super) spec: Value,
    pub(super) ports: Vec<PortSection>,
    pub(super) body: Option<Body>,
}

/// The inner error is why they cannot be read.
pub(super) fn documents(text: &str) -> anyhow::Result<Result<Vec<Document>, String>> {
    let mut documents = Vec::new();
    for document in yaml::parse(text)? {
        let draft = kodiak_kinds::draft(document.value).map_err(|problems| anyhow::anyhow!("{problems}"))?;
        let Some(kind) = kinds().by_name(&draft.kind) else {
            return Ok(Err(format!("kind {} is unsupported", draft.kind)));
        };
        let mut problems = Problems::default();
        let found = check::spec(kind, draft.clone(), &mut problems);
        let found = found.with_context(|| format!("{} {}: {problems}", draft.kind, draft.name))?;
        let spec: Value = serde_json::from_str(found.json())?;
        let body = Body::stored(kind, found.json())?;
        let mesh = match kind.scope {
            Scope::Global => String::new(),
            Scope::Mesh => draft.mesh.unwrap_or_else(|| "default".to_owned()),
        };
        let ports = (kind.language.ports)(found.json());
        documents.push(Document { kind, mesh, name: draft.name, labels: draft.labels, spec, ports, body });
    }
    Ok(Ok(documents))
}

impl Document {
    pub(super) fn policy(&self) -> Option<Arc<Policy>> {
        let (mesh, name, labels) = (self.mesh.as_str().into(), self.name.as_str().into(), self.labels.clone().into());
        Some(Arc::new(Policy { kind: self.kind, mesh, name, labels, body: self.body.clone()? }))
    }

    pub(super) fn resource(&self) -> Resource {
        let (mesh, name, labels) = (self.mesh.as_str().into(), self.name.as_str().into(), self.labels.clone().into());
        Resource { kind: self.kind, mesh, name, labels, ports: self.ports.clone() }
    }
}

//! Names of resources in responses.

use std::sync::Arc;

use kodiak_model::Labels;
use kodiak_rules::{Policy, Resource, outbound::Entry};
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ResourceMeta {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// Empty for a Mesh.
    pub(crate) mesh: String,
    pub(crate) name: String,
    pub(crate) labels: Labels,
}

impl ResourceMeta {
    pub(crate) fn new(kind: &'static str, mesh: &str, name: &str, labels: &Labels) -> Self {
        Self { kind, mesh: mesh.to_owned(), name: name.to_owned(), labels: labels.clone() }
    }

    pub(crate) fn of_policy(policy: &Policy) -> Self {
        Self::new(policy.kind.name, &policy.mesh, &policy.name, &policy.labels)
    }

    pub(crate) fn of_resource(resource: &Resource) -> Self {
        Self::new(resource.kind.name, &resource.mesh, &resource.name, &resource.labels)
    }
}

/// Policy that a rule originates from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Origin {
    pub(crate) kri: String,
    /// Legacy name of the MeshService that some of it targets.
    #[serde(rename = "viaOldName", skip_serializing_if = "Option::is_none")]
    pub(crate) via_legacy_name: Option<String>,
}

/// Each policy once, where it stands first.
pub(crate) fn origins<'a>(policies: impl IntoIterator<Item = &'a Arc<Policy>>) -> Vec<Origin> {
    collected(policies.into_iter().map(|policy| (policy, None)))
}

/// Each policy once, where it stands first.
pub(crate) fn entry_origins(entries: &[Entry]) -> Vec<Origin> {
    collected(entries.iter().map(|entry| (&entry.policy, entry.legacy_name())))
}

fn collected<'a>(found: impl Iterator<Item = (&'a Arc<Policy>, Option<&'a str>)>) -> Vec<Origin> {
    let mut origins: Vec<Origin> = Vec::new();
    for (policy, legacy_name) in found {
        let (kri, via_legacy_name) = (policy.kri().to_string(), legacy_name.map(str::to_owned));
        match origins.iter_mut().find(|origin| origin.kri == kri) {
            Some(known) => known.via_legacy_name = known.via_legacy_name.take().or(via_legacy_name),
            None => origins.push(Origin { kri, via_legacy_name }),
        }
    }
    origins
}

//! How resources are named in answers.

use std::sync::Arc;

use kodiak_model::Labels;
use kodiak_rules::{Policy, Resource};
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResourceMeta {
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Empty for a Mesh.
    pub mesh: String,
    pub name: String,
    pub labels: Labels,
}

impl ResourceMeta {
    pub fn new(kind: &'static str, mesh: &str, name: &str, labels: &Labels) -> Self {
        Self { kind, mesh: mesh.to_owned(), name: name.to_owned(), labels: labels.clone() }
    }

    pub(super) fn of_policy(policy: &Policy) -> Self {
        Self::new(policy.kind.name, &policy.mesh, &policy.name, &policy.labels)
    }

    pub(super) fn of_resource(resource: &Resource) -> Self {
        Self::new(resource.kind.name, &resource.mesh, &resource.name, &resource.labels)
    }
}

/// A policy that something comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    pub kri: String,
}

/// Each policy once, where it stands first.
pub(super) fn origins<'a>(policies: impl IntoIterator<Item = &'a Arc<Policy>>) -> Vec<Origin> {
    let mut origins: Vec<Origin> = Vec::new();
    for policy in policies {
        let origin = Origin { kri: policy.kri().to_string() };
        if !origins.contains(&origin) {
            origins.push(origin);
        }
    }
    origins
}

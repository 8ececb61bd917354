//! `/meshes/{mesh}/_migration/identity/convert`.

use kodiak_migration::identity_permissions::{self as facts, PermissionOutcome};
use kodiak_model::Word as _;
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
pub(crate) struct PermissionConversion {
    pub(crate) items: Vec<ConvertedPermission>,
    pub(crate) proof: PermissionProof,
    /// Whether the changed documents were stored.
    pub(crate) applied: bool,
}

/// Document, with `rules` in place of `from` if it changed.
#[derive(Serialize)]
pub(crate) struct ConvertedPermission {
    pub(crate) document: Value,
    pub(crate) changed: bool,
    pub(crate) findings: Vec<PermissionFinding>,
}

#[derive(Serialize)]
pub(crate) struct PermissionFinding {
    path: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    reference: String,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    new: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

#[derive(Serialize)]
pub(crate) struct PermissionProof {
    callers: usize,
    inbounds: usize,
    verdicts: usize,
    changed: Vec<Difference>,
    open: Vec<Difference>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Difference {
    caller: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    spiffe_id: Option<String>,
    inbound: String,
    before: &'static str,
    after: &'static str,
    policies: Vec<String>,
}

impl From<facts::PermissionFinding> for PermissionFinding {
    fn from(finding: facts::PermissionFinding) -> Self {
        let facts::PermissionFinding { path, reference, outcome, new, message } = finding;
        let outcome = match outcome {
            PermissionOutcome::Converted => "Converted",
            PermissionOutcome::Dropped => "Dropped",
            PermissionOutcome::Unchanged => "Unchanged",
            PermissionOutcome::Refused => "Refused",
        };
        Self { path, reference, outcome, new, message }
    }
}

impl From<facts::PermissionProof> for PermissionProof {
    fn from(proof: facts::PermissionProof) -> Self {
        let facts::PermissionProof { callers, inbounds, verdicts, changed, open } = proof;
        let all = |differences: Vec<facts::Difference>| differences.into_iter().map(Difference::from).collect();
        Self { callers, inbounds, verdicts, changed: all(changed), open: all(open) }
    }
}

impl From<facts::Difference> for Difference {
    fn from(difference: facts::Difference) -> Self {
        let facts::Difference { caller, spiffe_id, inbound, before, after, policies } = difference;
        let policies = policies.iter().map(ToString::to_string).collect();
        Self { caller, spiffe_id, inbound, before: before.text(), after: after.text(), policies }
    }
}

//! `_references` of a Dataplane, and its status in lists.

use kodiak_inspection::reference_status::{self, ReferenceProblem, Why};
use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct References {
    references: Vec<Reference>,
}

#[derive(Serialize)]
struct Reference {
    path: String,
    means: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<Trouble>,
}

#[derive(Serialize)]
struct Trouble {
    reason: &'static str,
    message: String,
}

impl From<Vec<reference_status::Reference>> for References {
    fn from(references: Vec<reference_status::Reference>) -> Self {
        Self { references: references.into_iter().map(Reference::from).collect() }
    }
}

impl From<reference_status::Reference> for Reference {
    fn from(reference: reference_status::Reference) -> Self {
        let reference_status::Reference { path, means, trouble } = reference;
        Self { path, means, trouble: trouble.map(Trouble::from) }
    }
}

impl From<ReferenceProblem> for Trouble {
    fn from(ReferenceProblem { reason, message }: ReferenceProblem) -> Self {
        let reason = match reason {
            Why::Unresolved => "Unresolved",
            Why::Ambiguous => "Ambiguous",
            Why::NoEffect => "NoEffect",
            Why::HidesObjects => "HidesObjects",
        };
        Self { reason, message }
    }
}

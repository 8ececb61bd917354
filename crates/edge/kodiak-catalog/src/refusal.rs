//! Why a request was not carried out.

use kodiak_model::{Problems, ResourceKey};
use kodiak_store::StoreError;

/// What was being done when a document turned out to be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Reading and checking the document by itself.
    Check,
    Create,
    Update,
    /// Holding it against labels that must stay.
    Labels,
    Delete,
}

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("the mesh does not exist")]
    NoMesh,
    #[error("the Mesh {0:?} cannot be read by this version; apply it again")]
    UnreadableMesh(String),
    #[error("the resource does not exist")]
    NotFound,
    /// Not a resource at all.
    #[error("{0}")]
    Malformed(String),
    #[error("the resource is not valid: {problems}")]
    Invalid { stage: Stage, problems: Problems },
    /// The author of the write lacks a right that some fields need.
    #[error("access denied: {problems}")]
    Denied { problems: Problems },
    /// Somebody else was faster, again and again.
    #[error("{0} changed while it was being written")]
    Conflict(ResourceKey),
    #[error("cannot reach the store")]
    Store(#[source] StoreError),
    /// Something of ours failed, not of the user's.
    #[error("cannot make what belongs to the resource")]
    Make(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Refusal {
    pub(crate) fn invalid(stage: Stage, problems: impl Into<Problems>) -> Self {
        Self::Invalid { stage, problems: problems.into() }
    }

    pub(crate) fn make(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Make(Box::new(error))
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict(key) => Self::Conflict(key),
            StoreError::NotFound(_) => Self::NotFound,
            StoreError::OwnerMissing { .. } => Self::NoMesh,
            other => Self::Store(other),
        }
    }
}

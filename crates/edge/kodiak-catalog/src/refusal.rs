//! Reasons for which a request is rejected.

use kodiak_model::{Cancelled, FieldPath, Problems, ResourceKey};
use kodiak_store::StoreError;

/// Step at which a document was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Validation of the document by itself.
    Check,
    Create,
    Update,
    /// Comparison with immutable labels.
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
    /// The body is not a resource.
    #[error("{0}")]
    Malformed(String),
    #[error("the resource is not valid: {problems}")]
    Invalid { stage: Stage, problems: Problems },
    /// The author lacks a right that some fields require.
    #[error("access denied: {problems}")]
    Denied { problems: Problems },
    /// Concurrent writes won repeatedly.
    #[error("{0} was changed by concurrent writes; try again")]
    Conflict(ResourceKey),
    #[error("the store is unavailable")]
    Store(#[source] StoreError),
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// An internal error.
    #[error("failed to generate keys or certificates for the resource")]
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
            StoreError::Invalid { problem, .. } => {
                let mut problems = Problems::default();
                problems.add(&FieldPath::ROOT, problem);
                Self::invalid(Stage::Check, problems)
            }
            other => Self::Store(other),
        }
    }
}

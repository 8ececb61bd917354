//! Where a route is answered: a lookup on the threads that serve connections, everything else on the pool.
//!
//! A computed handler is a plain function that needs a [`ComputedCall`], and only the dispatcher makes one, on a thread of
//! the pool: it cannot run anywhere else. A lookup is a future, so that it may wait for the store or for a proxy.

use std::{future::Future, pin::Pin, sync::Arc};

use axum::response::Response;
use kodiak_model::Kind;

use crate::{
    Api, ApiError,
    handlers::{ApiCall, ComputedCall},
};

pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Response, ApiError>> + Send>>;
pub(crate) type Lookup = Arc<dyn Fn(Api, ApiCall) -> Answer + Send + Sync>;
pub(crate) type Compute = Arc<dyn Fn(&Api, &ComputedCall) -> Result<Computed, ApiError> + Send + Sync>;

/// Handler of a route.
#[derive(Clone)]
pub(crate) enum Run {
    /// Costs as much as the text of its answer, whatever is stored. Or it waits.
    Lookup(Lookup),
    /// Reads a whole mesh, or documents.
    Computed(Compute),
    /// Stores one document; with `dryRun` it is computed.
    Write { write: Lookup, dry_run: Compute },
}

/// Cost of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cost {
    Lookup,
    Computed,
    Write,
}

impl Cost {
    /// Value of `x-kodiak-cost` in the OpenAPI document.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Computed => "computed",
            Self::Write => "write",
        }
    }
}

/// Result of a computation.
pub(crate) enum Computed {
    Answer(Response),
    /// Writes to store next, off the pool.
    Store(Answer),
}

impl Run {
    pub(crate) fn cost(&self) -> Cost {
        match self {
            Self::Lookup(_) => Cost::Lookup,
            Self::Computed(_) => Cost::Computed,
            Self::Write { .. } => Cost::Write,
        }
    }

    pub(super) fn lookup<F>(handler: fn(Api, ApiCall) -> F) -> Self
    where
        F: Future<Output = Result<Response, ApiError>> + Send + 'static,
    {
        Self::Lookup(Arc::new(move |api, call| Box::pin(handler(api, call))))
    }

    pub(super) fn lookup_of<F>(kind: &'static Kind, handler: fn(Api, &'static Kind, ApiCall) -> F) -> Self
    where
        F: Future<Output = Result<Response, ApiError>> + Send + 'static,
    {
        Self::Lookup(Arc::new(move |api, call| Box::pin(handler(api, kind, call))))
    }

    pub(super) fn computed(handler: fn(&Api, &ComputedCall) -> Result<Response, ApiError>) -> Self {
        Self::Computed(Arc::new(move |api, call| handler(api, call).map(Computed::Answer)))
    }

    pub(super) fn computed_of(
        kind: &'static Kind,
        handler: fn(&Api, &'static Kind, &ComputedCall) -> Result<Response, ApiError>,
    ) -> Self {
        Self::Computed(Arc::new(move |api, call| handler(api, kind, call).map(Computed::Answer)))
    }

    /// A computation whose result may be stored.
    pub(super) fn stored(handler: fn(&Api, &ComputedCall) -> Result<Computed, ApiError>) -> Self {
        Self::Computed(Arc::new(handler))
    }

    pub(super) fn write_of<F>(
        kind: &'static Kind,
        write: fn(Api, &'static Kind, ApiCall) -> F,
        dry_run: fn(&Api, &'static Kind, &ComputedCall) -> Result<Response, ApiError>,
    ) -> Self
    where
        F: Future<Output = Result<Response, ApiError>> + Send + 'static,
    {
        Self::Write {
            write: Arc::new(move |api, call| Box::pin(write(api, kind, call))),
            dry_run: Arc::new(move |api, call| dry_run(api, kind, call).map(Computed::Answer)),
        }
    }
}

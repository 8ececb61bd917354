//! Handlers of the routes: each returns JSON. A lookup takes an [`ApiCall`], a computed answer a [`ComputedCall`].

pub(crate) mod backup;
pub(crate) mod base;
pub(crate) mod diff;
pub(crate) mod insights;
pub(crate) mod inspect;
pub(crate) mod overviews;
pub(crate) mod resources;
pub(crate) mod tokens;

use std::ops::Deref;

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use kodiak_model::Cancellation;

use crate::body::DocumentLimits;

/// The part of a request that every handler reads: authenticated, with its path and query parsed.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    /// Values of the path parameters, in the order of the route's path.
    pub(crate) params: Vec<String>,
    pub(crate) query: String,
    /// Path of the route with its placeholders, `/meshes/{mesh}/...`.
    pub(crate) route: String,
    /// `http://host:port` and the path, for links to the next page.
    pub(crate) url: String,
    pub(crate) user: crate::User,
}

/// Request of a lookup.
pub(crate) struct ApiCall {
    pub(crate) question: Question,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

/// Request of a computed answer. The dispatcher makes it on a thread of the pool.
pub(crate) struct ComputedCall {
    pub(crate) question: Question,
    /// Within the limits of the caller.
    pub(crate) body: Bytes,
    pub(crate) limits: DocumentLimits,
    /// Cancelled when nobody waits for the answer any more. Whatever reads a mesh or documents takes it.
    pub(crate) cancellation: Cancellation,
}

impl Question {
    pub(crate) fn param(&self, n: usize) -> &str {
        self.params.get(n).map_or("", String::as_str)
    }

    pub(crate) fn query_value(&self, name: &str) -> Option<String> {
        crate::list::pairs(&self.query).into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

impl Deref for ApiCall {
    type Target = Question;

    fn deref(&self) -> &Question {
        &self.question
    }
}

impl Deref for ComputedCall {
    type Target = Question;

    fn deref(&self) -> &Question {
        &self.question
    }
}

pub(crate) fn json(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

//! Handlers of the routes: each takes an [`ApiCall`] and returns JSON.

pub(crate) mod backup;
pub(crate) mod base;
pub(crate) mod diff;
pub(crate) mod insights;
pub(crate) mod inspect;
pub(crate) mod overviews;
pub(crate) mod resources;
pub(crate) mod tokens;

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

/// Request as handlers see it: authenticated, with its path and query parsed.
pub(crate) struct ApiCall {
    /// Values of the path parameters, in the order of the route's path.
    pub(crate) params: Vec<String>,
    pub(crate) query: String,
    /// Path of the route with its placeholders, `/meshes/{mesh}/...`.
    pub(crate) route: String,
    /// `http://host:port` and the path, for links to the next page.
    pub(crate) url: String,
    pub(crate) user: crate::User,
    pub(crate) headers: axum::http::HeaderMap,
    pub(crate) body: axum::body::Body,
}

impl ApiCall {
    pub(crate) fn param(&self, n: usize) -> &str {
        self.params.get(n).map_or("", String::as_str)
    }

    pub(crate) fn query_value(&self, name: &str) -> Option<String> {
        crate::list::pairs(&self.query).into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

pub(crate) fn json(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

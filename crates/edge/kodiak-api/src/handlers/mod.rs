//! What each route does. A handler takes what was asked and answers with JSON.

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

/// A request, as far as handlers look at it.
pub(crate) struct Asked {
    /// The segments in braces of the route's path, in their order.
    pub(crate) params: Vec<String>,
    pub(crate) query: String,
    /// The path of the route, with its braces.
    pub(crate) route: String,
    /// `http://host:port` and the path, to point clients at other pages.
    pub(crate) url: String,
    pub(crate) user: crate::User,
    pub(crate) headers: axum::http::HeaderMap,
    pub(crate) body: axum::body::Body,
}

impl Asked {
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

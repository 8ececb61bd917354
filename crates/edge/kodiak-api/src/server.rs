//! The router as a service of the accept loop.

use std::convert::Infallible;

use axum::{Router, body::Body, extract::Request, response::Response};
use hyper::body::Incoming;
use kodiak_listen::{Client, Service};
use tower::ServiceExt;

use crate::Connection;

/// Serves a router; requests carry their [`Connection`] as an extension.
#[derive(Clone)]
pub struct Routed(pub Router);

impl Service for Routed {
    type Body = Body;

    async fn call(&self, request: hyper::Request<Incoming>, client: Client) -> Response {
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(Connection::from(&client));
        let answered: Result<Response, Infallible> = self.0.clone().oneshot(request).await;
        answered.unwrap_or_else(|never| match never {})
    }
}

//! Configuration that the control plane publishes for the sidecar process, through Envoy.

use std::path::Path;

use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};

use crate::socket::{self, Answer};

/// The document of a path, unless it has this version. `None` when nothing changed, or the request failed.
pub(crate) async fn changed(socket: &Path, path: &str, version: Option<&HeaderValue>) -> Option<Answer> {
    let known: Vec<_> = version.iter().map(|version| ("if-none-match", (*version).clone())).collect();
    match socket::ask(socket, Method::GET, path, &known).await {
        Ok(answer) if answer.status == StatusCode::OK => Some(answer),
        // Not modified, or Envoy has nothing for us yet.
        Ok(_) => None,
        Err(error) => {
            tracing::debug!(%error, path, "failed to get the configuration from Envoy");
            None
        }
    }
}

//! Answers about calls: the call graph of a mesh, and why one call works or fails.

use axum::{http::StatusCode, response::Response};
use kodiak_inspection::{
    calls::{CallGraph, Calls},
    why::{self, WhyContext, WhyError},
};
use kodiak_model::ResourceKey;
use kodiak_rules::Shadow;
use kodiak_store::Snapshot;

use super::{ApiCall, answer, query};
use crate::{Api, ApiError};

const TITLE: &str = "Could not examine calls";

/// `GET /meshes/{mesh}/_graph`; `client` and `destination` restrict it, `shadow` includes shadow policies.
pub(crate) async fn graph(api: Api, call: ApiCall) -> Result<Response, ApiError> {
    let shadow = if query::flag(&call, "shadow")?.unwrap_or(false) { Shadow::Included } else { Shadow::Ignored };
    let (client, destination) = (call.query_value("client"), call.query_value("destination"));
    let (snapshot, mesh) = find_mesh(&api, &call)?;
    let made = off_the_runtime(move || {
        let calls = Calls::of(snapshot.world(), &mesh, shadow);
        CallGraph::of(&calls, client.as_deref(), destination.as_deref())
    });
    Ok(answer(&made.await?.map_err(|error| unknown(&error))?))
}

/// `GET /meshes/{mesh}/_why?client=..&destination=..`
pub(crate) async fn why(api: Api, call: ApiCall) -> Result<Response, ApiError> {
    let (client, destination) = (required(&call, "client")?, required(&call, "destination")?);
    let (snapshot, mesh) = find_mesh(&api, &call)?;
    let context: WhyContext = api.config().calls;
    let made = off_the_runtime(move || why::why(snapshot.world(), &mesh, context, &client, &destination));
    Ok(answer(&made.await?.map_err(|error| unknown(&error))?))
}

fn required(call: &ApiCall, name: &str) -> Result<String, ApiError> {
    let value = call.query_value(name).filter(|value| !value.is_empty());
    value.ok_or_else(|| ApiError::bad_request(format_args!("query parameter '{name}' is required")))
}

/// The graph of a large mesh takes up to a second, and other requests must not wait for it.
async fn off_the_runtime<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "examining calls failed");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, TITLE, "Internal Server Error")
    })
}

fn find_mesh(api: &Api, call: &ApiCall) -> Result<(Snapshot, String), ApiError> {
    let mesh = call.param(0);
    let snapshot = api.catalog().store().snapshot();
    if snapshot.get(&ResourceKey::global("Mesh", mesh)).is_none() {
        return Err(ApiError::not_found(TITLE));
    }
    Ok((snapshot, mesh.to_owned()))
}

fn unknown(error: &WhyError) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, TITLE, error.to_string())
}

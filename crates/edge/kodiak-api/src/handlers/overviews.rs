//! Overviews: resources together with their insights.

use axum::{http::StatusCode, response::Response};
use kodiak_model::{Kind, Overview, ResourceKey, Scope};

use super::{ApiCall, ComputedCall, json, resources};
use crate::{Api, ApiError, render};

const NOT_FOUND: &str = "Could not retrieve a resource";

pub(crate) fn list(api: &Api, kind: &'static Kind, call: &ComputedCall) -> Result<Response, ApiError> {
    let overview = overview_of(kind);
    let snapshot = api.catalog().store().snapshot();
    resources::list_with(api, kind, call, &snapshot, |record| {
        let insight = snapshot.get(&ResourceKey::in_mesh(overview.insight, &record.key.mesh, &record.key.name));
        render::overview(kind, &overview, record, insight)
    })
}

pub(crate) async fn get(api: Api, kind: &'static Kind, call: ApiCall) -> Result<Response, ApiError> {
    let overview = overview_of(kind);
    let (mesh, name) = match kind.scope {
        Scope::Mesh => (call.param(0), call.param(1)),
        Scope::Global => ("", call.param(0)),
    };
    api.catalog().require_mesh(kind, mesh).map_err(|refusal| ApiError::refused(refusal, NOT_FOUND))?;
    let snapshot = api.catalog().store().snapshot();
    let record =
        snapshot.get(&ResourceKey::in_mesh(kind.name, mesh, name)).ok_or_else(|| ApiError::not_found(NOT_FOUND))?;
    let insight = snapshot.get(&ResourceKey::in_mesh(overview.insight, mesh, name));
    Ok(json(StatusCode::OK, render::overview(kind, &overview, record, insight)))
}

fn overview_of(kind: &Kind) -> Overview {
    kind.overview.expect("overview routes are made only for kinds with an overview")
}

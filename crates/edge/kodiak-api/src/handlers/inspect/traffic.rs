//! Observed traffic of a mesh.

use axum::response::Response;
use kodiak_model::ResourceKey;
use kodiak_traffic::ObservedTraffic;

use super::{ApiCall, NOT_FOUND, answer};
use crate::{Api, ApiError, shapes};

/// `GET /meshes/{mesh}/_traffic`
pub(crate) async fn traffic(api: Api, call: ApiCall) -> Result<Response, ApiError> {
    let mesh = call.param(0);
    let snapshot = api.catalog().store().snapshot();
    if snapshot.get(&ResourceKey::global("Mesh", mesh)).is_none() {
        return Err(ApiError::not_found(NOT_FOUND));
    }
    let (recorded, observing) = api.proxies().traffic(mesh);
    let observed = ObservedTraffic::of(snapshot.world(), mesh, &recorded);
    Ok(answer(&shapes::traffic::Traffic::of(mesh, observing, observed)))
}

//! Observed traffic of a mesh.

use axum::response::Response;
use kodiak_model::ResourceKey;
use kodiak_traffic::ObservedTraffic;

use super::{ComputedCall, NOT_FOUND, answer};
use crate::{Api, ApiError, shapes};

/// `GET /meshes/{mesh}/_traffic`
pub(crate) fn traffic(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let mesh = call.param(0);
    let snapshot = api.catalog().store().snapshot();
    if snapshot.get(&ResourceKey::global("Mesh", mesh)).is_none() {
        return Err(ApiError::not_found(NOT_FOUND));
    }
    let (recorded, observing) = api.proxies().traffic(mesh);
    let observed = ObservedTraffic::of(snapshot.world(), mesh, &recorded);
    call.cancellation.check()?;
    Ok(answer(&shapes::traffic::Traffic::of(mesh, observing, observed)))
}

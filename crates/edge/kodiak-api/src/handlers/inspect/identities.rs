//! Certificates of the proxies of a mesh, and their progress towards the issuers of the target.

use axum::response::Response;
use jiff::Timestamp;
use kodiak_identity::Moment;
use kodiak_inspection::identities::MeshIdentities;
use kodiak_model::Place;

use super::{ComputedCall, NOT_FOUND, answer, calls::find_mesh};
use crate::{Api, ApiError, shapes};

/// `GET /meshes/{mesh}/_identities`
pub(crate) fn identities(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let (snapshot, mesh) = find_mesh(api, call)?;
    let zone = match api.catalog().place() {
        Place::Zone { name } => name.clone(),
        Place::Global => String::new(),
    };
    let moment = Moment { now: Timestamp::now(), limits: api.config().absence };
    let found = MeshIdentities::of(snapshot.world(), &mesh, &zone, &moment, &call.cancellation)?;
    let found = found.ok_or_else(|| ApiError::not_found(NOT_FOUND))?;
    Ok(answer(&shapes::identities::CertificateReport::of(&mesh, found)))
}

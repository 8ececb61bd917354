//! Certificates of the proxies of a mesh, and their progress towards the issuers of the target.

use axum::response::Response;
use jiff::Timestamp;
use kodiak_identity::Moment;
use kodiak_inspection::identities::MeshIdentities;
use kodiak_model::Place;

use super::{
    ApiCall, NOT_FOUND, answer,
    calls::{find_mesh, off_the_runtime},
};
use crate::{Api, ApiError, shapes};

/// `GET /meshes/{mesh}/_identities`
pub(crate) async fn identities(api: Api, call: ApiCall) -> Result<Response, ApiError> {
    let (snapshot, mesh) = find_mesh(&api, &call)?;
    let zone = match api.catalog().place() {
        Place::Zone { name } => name.clone(),
        Place::Global => String::new(),
    };
    let moment = Moment { now: Timestamp::now(), limits: api.config().absence };
    let made = off_the_runtime(move || {
        let found = MeshIdentities::of(snapshot.world(), &mesh, &zone, &moment)?;
        Some(shapes::identities::CertificateReport::of(&mesh, found))
    });
    let found = made.await?.ok_or_else(|| ApiError::not_found(NOT_FOUND))?;
    Ok(answer(&found))
}

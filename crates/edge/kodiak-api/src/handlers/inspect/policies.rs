//! Merged policy configuration of a proxy: in full, or for one inbound, one destination or one route.

use std::sync::Arc;

use axum::{http::StatusCode, response::Response};
use kodiak_inspection::inspect::MeshView;
use kodiak_kinds::kinds;
use kodiak_model::{Kind, Kri, Place};
use kodiak_rules::Proxy;

use super::{ComputedCall, NOT_FOUND, Question, answer, find_proxy, find_resource};
use crate::{
    Api, ApiError,
    shapes::{layout, policies, routes, rules},
};

/// `_rules`: all rules, grouped by kind.
pub(crate) fn rules(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let (view, proxy) = find_proxy(api, call)?;
    Ok(answer(&rules::of_proxy(&view, &proxy)))
}

/// `meshgateways/{name}/_rules`
pub(crate) fn gateway_rules(api: &Api, kind: &'static Kind, call: &ComputedCall) -> Result<Response, ApiError> {
    let (snapshot, record) = find_resource(api, kind, call, NOT_FOUND)?;
    let mut gateways = snapshot.world().gateways(&record.key.mesh);
    let gateway = gateways.find(|gateway| gateway.name == record.key.name);
    let gateway = gateway.ok_or_else(|| ApiError::not_found(NOT_FOUND))?;
    let view = api.meshes().view(&snapshot, &record.key.mesh, &call.cancellation)?;
    Ok(answer(&rules::of_gateway(&view, &gateway)))
}

/// `_policies`: for the proxy as a whole.
pub(crate) fn of_proxy(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let (view, proxy) = find_exclusive(api, call, "_policies")?;
    Ok(answer(&policies::of_proxy(&view, &proxy)))
}

/// `_inbounds/{kri}/_policies`
pub(crate) fn of_inbound(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let (view, proxy) = find_exclusive(api, call, "_policies")?;
    let inbound = kri(call, 2)?;
    // Kuma answers 500 here, and its clients expect it.
    let missing = || {
        let title = "Could not find the inbound";
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, title, "Internal Server Error")
    };
    policies::of_inbound(&view, &proxy, &inbound.section).map(|found| answer(&found)).ok_or_else(missing)
}

/// `_outbounds/{kri}/_policies`
pub(crate) fn of_outbound(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let (view, proxy) = find_exclusive(api, call, "_policies")?;
    Ok(answer(&policies::of_destination(&view, &proxy, &kri(call, 2)?)))
}

/// `_outbounds/{kri}/_routes`
pub(crate) fn routes(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let (view, proxy) = find_exclusive(api, call, "_policies")?;
    Ok(answer(&routes::of_destination(&view, &proxy, &kri(call, 2)?)))
}

/// `_outbounds/{kri}/_routes/{kri}/_policies`
pub(crate) fn of_route(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let (view, proxy) = find_exclusive(api, call, "_policies")?;
    let (outbound, route) = (kri(call, 2)?, kri(call, 3)?);
    Ok(answer(&policies::of_route(&view, &proxy, &outbound, &route)))
}

/// `_layout`: inbounds, listeners and outbounds with their KRIs.
pub(crate) fn layout(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let (view, proxy) = find_exclusive(api, call, "_layout")?;
    let zone = match api.catalog().place() {
        Place::Zone { name } => name.as_str(),
        Place::Global => "",
    };
    let redirected = api.catalog().store().snapshot().world().redirects_outbound(&proxy).unwrap_or_default();
    Ok(answer(&layout::of_proxy(&view, &proxy, zone, redirected)))
}

/// Refuses unless `meshServices.mode` is Exclusive: only then does every destination have a KRI.
fn find_exclusive(api: &Api, call: &ComputedCall, endpoint: &str) -> Result<(Arc<MeshView>, Arc<Proxy>), ApiError> {
    let (view, proxy) = find_proxy(api, call)?;
    if view.has_legacy_destinations() {
        let text = format!("can't use {endpoint} endpoint without meshService enabled");
        return Err(ApiError::bad_request(text));
    }
    Ok((view, proxy))
}

fn kri(call: &Question, param: usize) -> Result<Kri, ApiError> {
    Kri::parse(kinds(), call.param(param)).map_err(ApiError::bad_request)
}

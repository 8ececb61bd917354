//! What policies come to at a proxy: all of it, or for one inbound, one destination or one route.

use std::sync::Arc;

use axum::{http::StatusCode, response::Response};
use kodiak_inspection::inspect::{MeshView, layout, policies, routes, rules};
use kodiak_kinds::kinds;
use kodiak_model::{Kind, Kri, Place};
use kodiak_rules::Proxy;

use super::{Asked, NOT_FOUND, answer, find_proxy, find_resource};
use crate::{Api, ApiError};

/// `_rules`: all rules, kind by kind.
pub(crate) async fn rules(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let (view, proxy) = find_proxy(&api, &asked)?;
    Ok(answer(&rules::of_proxy(&view, &proxy)))
}

/// `meshgateways/{name}/_rules`
pub(crate) async fn gateway_rules(api: Api, kind: &'static Kind, asked: Asked) -> Result<Response, ApiError> {
    let (snapshot, record) = find_resource(&api, kind, &asked, NOT_FOUND)?;
    let mut gateways = snapshot.world().gateways(&record.key.mesh);
    let gateway = gateways.find(|gateway| gateway.name == record.key.name);
    let gateway = gateway.ok_or_else(|| ApiError::not_found(NOT_FOUND))?;
    let view = api.meshes().view(&snapshot, &record.key.mesh);
    Ok(answer(&rules::of_gateway(&view, &gateway)))
}

/// `_policies`: for the proxy as a whole.
pub(crate) async fn of_proxy(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let (view, proxy) = find_exclusive(&api, &asked, "_policies")?;
    Ok(answer(&policies::of_proxy(&view, &proxy)))
}

/// `_inbounds/{kri}/_policies`
pub(crate) async fn of_inbound(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let (view, proxy) = find_exclusive(&api, &asked, "_policies")?;
    let inbound = kri(&asked, 2)?;
    // Clients of Kuma know it as an error of the server.
    let missing = || {
        let title = "Could not find the inbound";
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, title, "Internal Server Error")
    };
    policies::of_inbound(&view, &proxy, &inbound.section).map(|found| answer(&found)).ok_or_else(missing)
}

/// `_outbounds/{kri}/_policies`
pub(crate) async fn of_outbound(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let (view, proxy) = find_exclusive(&api, &asked, "_policies")?;
    Ok(answer(&policies::of_destination(&view, &proxy, &kri(&asked, 2)?)))
}

/// `_outbounds/{kri}/_routes`
pub(crate) async fn routes(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let (view, proxy) = find_exclusive(&api, &asked, "_policies")?;
    Ok(answer(&routes::of_destination(&view, &proxy, &kri(&asked, 2)?)))
}

/// `_outbounds/{kri}/_routes/{kri}/_policies`
pub(crate) async fn of_route(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let (view, proxy) = find_exclusive(&api, &asked, "_policies")?;
    let (outbound, route) = (kri(&asked, 2)?, kri(&asked, 3)?);
    Ok(answer(&policies::of_route(&view, &proxy, &outbound, &route)))
}

/// `_layout`: what there is to ask about.
pub(crate) async fn layout(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let (view, proxy) = find_exclusive(&api, &asked, "_layout")?;
    let zone = match api.catalog().place() {
        Place::Zone { name } => name.as_str(),
        Place::Global => "",
    };
    let redirected = api.catalog().store().snapshot().world().redirects_outbound(&proxy).unwrap_or_default();
    Ok(answer(&layout::of_proxy(&view, &proxy, zone, redirected)))
}

/// Only where all destinations are resources is there a name to ask for each.
fn find_exclusive(api: &Api, asked: &Asked, endpoint: &str) -> Result<(Arc<MeshView>, Arc<Proxy>), ApiError> {
    let (view, proxy) = find_proxy(api, asked)?;
    if !view.is_exclusive() {
        let text = format!("can't use {endpoint} endpoint without meshService enabled");
        return Err(ApiError::bad_request(text));
    }
    Ok((view, proxy))
}

fn kri(asked: &Asked, param: usize) -> Result<Kri, ApiError> {
    Kri::parse(kinds(), asked.param(param)).map_err(ApiError::bad_request)
}

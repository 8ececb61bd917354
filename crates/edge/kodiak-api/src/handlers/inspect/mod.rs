//! Inspection of one proxy: configuration, connection status, Envoy's admin interface, and policies.

mod calls;
mod hostnames;
mod identities;
mod identity_migration;
mod matches;
mod members;
mod mesh;
mod migration;
mod old;
mod policies;
mod query;
mod references;
mod status;
#[cfg(test)]
mod tests;
mod traffic;

use std::sync::Arc;

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use kodiak_inspection::inspect::MeshView;
use kodiak_kinds::kinds;
use kodiak_listen::LogThrottle;
use kodiak_model::{Cancelled, Kind, ProxyKey, ResourceKey};
use kodiak_rules::Proxy;
use kodiak_store::{Record, Snapshot};
use serde::Serialize;

use super::{ApiCall, ComputedCall, Question, json};
use crate::{
    Api, ApiError,
    inspect::{AdminQuery, ConfigOptions, InspectError},
    list::{Page, next_query},
};

pub(crate) use calls::{check_permissions, graph, reachability, why};
pub(crate) use hostnames::{hostnames, no_hostnames};
pub(crate) use identities::identities;
pub(crate) use identity_migration::converted as converted_permissions;
pub(crate) use matches::matches;
pub(crate) use members::{of_policy as policy_members, of_service as service_members};
pub(crate) use mesh::Meshes;
pub(crate) use migration::{consumers, converted, standing};
pub(crate) use old::{affected, gateway_members, old_rules, policies as old_policies};
pub(crate) use policies::{gateway_rules, layout, of_inbound, of_outbound, of_proxy, of_route, routes, rules};
pub(crate) use query::flag;
pub(crate) use references::{References, of_proxy as references, warnings as reference_warnings};
pub(crate) use status::{identity_warnings, mtls_warning, of_policies as policy_statuses, of_policy as policy_status};
pub(crate) use traffic::traffic;

const NOT_FOUND: &str = "Could not retrieve a resource";

/// `_config`: xDS configuration that the control plane sends.
pub(crate) fn config(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let shadow = query::flag(call, "shadow")?.unwrap_or(false);
    let diff = query::includes_diff(call)?;
    let (_, proxy) = find(api, call)?;
    let found = api.proxies().config(&proxy, ConfigOptions { shadow, diff }, &call.cancellation);
    let config = found.map_err(|error| failed(&error))?;
    let text = serde_json::to_string(&config).expect("a configuration has text keys");
    Ok(json(StatusCode::OK, text))
}

/// `_status`: connection, acknowledged and rejected responses with Envoy's errors.
pub(crate) fn status(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let (snapshot, proxy) = find(api, call)?;
    if let Some(status) = api.proxies().status(&proxy) {
        let text = serde_json::to_string(&status).expect("a status has text keys");
        return Ok(json(StatusCode::OK, text));
    }
    Err(not_connected(api, &snapshot, &proxy))
}

/// Names the control plane that holds the connection.
fn not_connected(api: &Api, snapshot: &Snapshot, proxy: &ProxyKey) -> ApiError {
    let insight = snapshot.world().insight(proxy).unwrap_or_default();
    let open = insight.subscriptions.iter().rev().find(|subscription| subscription.is_open());
    let detail = match open {
        Some(open) if open.control_plane_instance_id != api.info().instance_id => {
            format!(
                "the proxy is connected to control plane {:?}; send the request there",
                open.control_plane_instance_id
            )
        }
        Some(_) | None => "the proxy is not connected".to_owned(),
    };
    ApiError::new(StatusCode::NOT_FOUND, NOT_CONNECTED, detail)
}

pub(crate) async fn config_dump(api: Api, call: ApiCall) -> Result<Response, ApiError> {
    let endpoints = query::flag(&call, "include_eds")?.unwrap_or(false);
    ask(api, call, AdminQuery::ConfigDump { endpoints }).await
}

pub(crate) async fn stats(api: Api, call: ApiCall) -> Result<Response, ApiError> {
    let question = AdminQuery::Stats {
        json: query::wants_json(&call)?,
        used_only: query::flag(&call, "usedonly")?.unwrap_or(true),
    };
    ask(api, call, question).await
}

pub(crate) async fn clusters(api: Api, call: ApiCall) -> Result<Response, ApiError> {
    let json = query::wants_json(&call)?;
    ask(api, call, AdminQuery::Clusters { json }).await
}

/// Envoy's admin interface of a zone proxy. None connects to this control plane, so its Envoy is unknown.
pub(crate) async fn zone_proxy(api: Api, kind: &'static Kind, call: ApiCall) -> Result<Response, ApiError> {
    let snapshot = api.catalog().store().snapshot();
    if snapshot.get(&ResourceKey::global(kind.name, call.param(0))).is_none() {
        return Err(ApiError::not_found(NOT_FOUND));
    }
    Err(ApiError::not_found(&format!("Could not retrieve the {}Insight", kind.name)))
}

/// Any other path below a proxy. Kuma answers a missing page for names with `_`, and a missing resource for others.
pub(crate) async fn unknown(_: Api, call: ApiCall) -> Result<Response, ApiError> {
    let what = call.params.last().map_or("", String::as_str);
    Err(if what.starts_with('_') { ApiError::page_not_found() } else { ApiError::not_found(NOT_FOUND) })
}

async fn ask(api: Api, call: ApiCall, question: AdminQuery) -> Result<Response, ApiError> {
    let (snapshot, proxy) = find(&api, &call)?;
    let answer = api.proxies().ask(proxy.clone(), question).await.map_err(|error| match error {
        InspectError::NotConnected => not_connected(&api, &snapshot, &proxy),
        error => failed(&error),
    })?;
    let content = if question.is_json() { "application/json" } else { "text/plain; charset=utf-8" };
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, content)], answer).into_response())
}

/// Key of the proxy in the path, if its Dataplane exists.
fn find(api: &Api, call: &Question) -> Result<(Snapshot, ProxyKey), ApiError> {
    let proxy = ProxyKey::new(call.param(0), call.param(1));
    let kind = kinds().by_name("Dataplane").expect("proxies have Dataplanes");
    api.catalog().require_mesh(kind, &proxy.mesh).map_err(|refusal| ApiError::refused(refusal, NOT_FOUND))?;
    let snapshot = api.catalog().store().snapshot();
    if snapshot.get(&proxy.dataplane()).is_none() {
        return Err(ApiError::not_found(NOT_FOUND));
    }
    Ok((snapshot, proxy))
}

/// Proxy in the path, and the view of its mesh.
fn find_proxy(api: &Api, call: &ComputedCall) -> Result<(Arc<MeshView>, Arc<Proxy>), ApiError> {
    let (snapshot, key) = find(api, call)?;
    let view = api.meshes().view(&snapshot, &key.mesh, &call.cancellation)?;
    // A Dataplane without a readable version counts as missing.
    let proxy = view.proxies.get(&*key.name).cloned().ok_or_else(|| ApiError::not_found(NOT_FOUND))?;
    Ok((view, proxy))
}

/// Resource in the path, and the snapshot that it was read from. `title` is the title of the error when it is missing.
fn find_resource(api: &Api, kind: &'static Kind, call: &Question, title: &str) -> Result<(Snapshot, Record), ApiError> {
    let key = ResourceKey::in_mesh(kind.name, call.param(0), call.param(1));
    api.catalog().require_mesh(kind, &key.mesh).map_err(|refusal| ApiError::refused(refusal, title))?;
    let snapshot = api.catalog().store().snapshot();
    let record = snapshot.get(&key).cloned().ok_or_else(|| ApiError::not_found(title))?;
    Ok((snapshot, record))
}

/// One page of a list.
#[derive(Serialize)]
struct Listed<T> {
    total: usize,
    items: Vec<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

fn listed<T: Serialize>(call: &Question, page: Page<T>) -> Response {
    let Page { items, total, next } = page;
    let next = next.map(|offset| format!("{}?{}", call.url, next_query(&call.query, offset)));
    answer(&Listed { total, items, next })
}

fn answer(body: &impl Serialize) -> Response {
    json(StatusCode::OK, serde_json::to_string(body).expect("answers have text keys"))
}

const NOT_CONNECTED: &str = "Proxy not connected to this control plane";

static FAILURES: LogThrottle = LogThrottle::new();

pub(crate) fn failed(error: &InspectError) -> ApiError {
    match error {
        InspectError::NeverConnected => ApiError::not_found("Could not retrieve the DataplaneInsight"),
        InspectError::NotConnected => ApiError::not_found(NOT_CONNECTED),
        InspectError::Faults(faults) => {
            let title = "Generated configuration failed validation";
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, title, faults.join("; "))
        }
        InspectError::Unreachable(why) => ApiError::new(StatusCode::BAD_GATEWAY, "Envoy admin request failed", why),
        InspectError::Cancelled => Cancelled.into(),
        InspectError::Broken(why) => {
            if let Some(suppressed) = FAILURES.admit() {
                tracing::error!(error = why, suppressed, "proxy inspection failed");
            }
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Proxy inspection failed", "Internal Server Error")
        }
    }
}

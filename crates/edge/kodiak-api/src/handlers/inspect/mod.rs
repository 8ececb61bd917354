//! Looking inside one proxy: what it should have, what it has, how it stands, and which policies make it so.

mod hostnames;
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

use std::sync::Arc;

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use kodiak_inspection::inspect::MeshView;
use kodiak_kinds::kinds;
use kodiak_model::{Kind, ProxyKey, ResourceKey};
use kodiak_rules::Proxy;
use kodiak_store::{Record, Snapshot};
use serde::Serialize;

use super::{Asked, json};
use crate::{
    Api, ApiError,
    inspect::{ConfigAsked, Question, Trouble},
    list::{Page, next_query},
};

pub(crate) use hostnames::{hostnames, no_hostnames};
pub(crate) use matches::matches;
pub(crate) use members::{of_policy as policy_members, of_service as service_members};
pub(crate) use mesh::Meshes;
pub(crate) use migration::{consumers, converted, standing};
pub(crate) use old::{affected, old_rules, policies as old_policies};
pub(crate) use policies::{gateway_rules, layout, of_inbound, of_outbound, of_proxy, of_route, routes, rules};
pub(crate) use query::flag;
pub(crate) use references::{References, of_proxy as references, warnings as reference_warnings};
pub(crate) use status::{of_policies as policy_statuses, of_policy as policy_status};

const NOT_FOUND: &str = "Could not retrieve a resource";

/// `_config`: what the control plane has for it.
pub(crate) async fn config(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let shadow = query::flag(&asked, "shadow")?.unwrap_or(false);
    let diff = query::includes_diff(&asked)?;
    let (_, proxy) = find(&api, &asked)?;
    let config = api.proxies().config(proxy, ConfigAsked { shadow, diff }).await.map_err(|trouble| failed(&trouble))?;
    let text = serde_json::to_string(&config).expect("a configuration has text keys");
    Ok(json(StatusCode::OK, text))
}

/// `_status`: how its connection stands, with all that the proxy said when it rejected something.
pub(crate) async fn status(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let (snapshot, proxy) = find(&api, &asked)?;
    if let Some(status) = api.proxies().status(&proxy) {
        let text = serde_json::to_string(&status).expect("a status has text keys");
        return Ok(json(StatusCode::OK, text));
    }
    let insight = snapshot.world().insight(&proxy).unwrap_or_default();
    let open = insight.subscriptions.iter().rev().find(|subscription| subscription.is_open());
    let detail = match open {
        Some(open) if open.control_plane_instance_id != api.info().instance_id => {
            format!("the proxy is connected to control plane {:?}; ask that one", open.control_plane_instance_id)
        }
        Some(_) | None => "the proxy is not connected".to_owned(),
    };
    Err(ApiError::new(StatusCode::NOT_FOUND, "Not connected to this control plane", detail))
}

pub(crate) async fn config_dump(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let endpoints = query::flag(&asked, "include_eds")?.unwrap_or(false);
    ask(api, asked, Question::ConfigDump { endpoints }).await
}

pub(crate) async fn stats(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let question = Question::Stats {
        json: query::wants_json(&asked)?,
        used_only: query::flag(&asked, "usedonly")?.unwrap_or(true),
    };
    ask(api, asked, question).await
}

pub(crate) async fn clusters(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let json = query::wants_json(&asked)?;
    ask(api, asked, Question::Clusters { json }).await
}

/// Whatever else somebody asks a proxy for. What is for the control plane to know is a page that it does not have.
pub(crate) async fn unknown(_: Api, asked: Asked) -> Result<Response, ApiError> {
    let what = asked.param(2);
    Err(if what.starts_with('_') { ApiError::page_not_found() } else { ApiError::not_found(NOT_FOUND) })
}

async fn ask(api: Api, asked: Asked, question: Question) -> Result<Response, ApiError> {
    let (_, proxy) = find(&api, &asked)?;
    let answer = api.proxies().ask(proxy, question).await.map_err(|trouble| failed(&trouble))?;
    let content = if question.is_json() { "application/json" } else { "text/plain; charset=utf-8" };
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, content)], answer).into_response())
}

/// The proxy, if there is a Dataplane for it.
fn find(api: &Api, asked: &Asked) -> Result<(Snapshot, ProxyKey), ApiError> {
    let proxy = ProxyKey::new(asked.param(0), asked.param(1));
    let kind = kinds().by_name("Dataplane").expect("proxies have Dataplanes");
    api.catalog().require_mesh(kind, &proxy.mesh).map_err(|refusal| ApiError::refused(refusal, NOT_FOUND))?;
    let snapshot = api.catalog().store().snapshot();
    if snapshot.get(&proxy.dataplane()).is_none() {
        return Err(ApiError::not_found(NOT_FOUND));
    }
    Ok((snapshot, proxy))
}

/// The proxy, and the mesh around it.
fn find_proxy(api: &Api, asked: &Asked) -> Result<(Arc<MeshView>, Arc<Proxy>), ApiError> {
    let (snapshot, key) = find(api, asked)?;
    let view = api.meshes().view(&snapshot, &key.mesh);
    // A Dataplane that cannot be read is as good as none.
    let proxy = view.proxies.get(&*key.name).cloned().ok_or_else(|| ApiError::not_found(NOT_FOUND))?;
    Ok((view, proxy))
}

/// A resource of a mesh, and the store as it was then. `title` says what was looked for in vain.
fn find_resource(api: &Api, kind: &'static Kind, asked: &Asked, title: &str) -> Result<(Snapshot, Record), ApiError> {
    let key = ResourceKey::in_mesh(kind.name, asked.param(0), asked.param(1));
    api.catalog().require_mesh(kind, &key.mesh).map_err(|refusal| ApiError::refused(refusal, title))?;
    let snapshot = api.catalog().store().snapshot();
    let record = snapshot.get(&key).cloned().ok_or_else(|| ApiError::not_found(title))?;
    Ok((snapshot, record))
}

/// A page of a list.
#[derive(Serialize)]
struct Listed<T> {
    total: usize,
    items: Vec<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

fn listed<T: Serialize>(asked: &Asked, page: Page<T>) -> Response {
    let Page { items, total, next } = page;
    let next = next.map(|offset| format!("{}?{}", asked.url, next_query(&asked.query, offset)));
    answer(&Listed { total, items, next })
}

fn answer(body: &impl Serialize) -> Response {
    json(StatusCode::OK, serde_json::to_string(body).expect("answers have text keys"))
}

pub(crate) fn failed(trouble: &Trouble) -> ApiError {
    match trouble {
        Trouble::NeverConnected => ApiError::not_found("Could not retrieve the DataplaneInsight"),
        Trouble::Faults(faults) => {
            let title = "The configuration is not fit to be sent";
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, title, faults.join("; "))
        }
        Trouble::Unreachable(why) => ApiError::new(StatusCode::BAD_GATEWAY, "Could not ask the proxy", why),
        Trouble::Broken(why) => {
            tracing::error!(error = why, "Cannot look inside a proxy.");
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Could not look inside the proxy", "Internal Server Error")
        }
    }
}

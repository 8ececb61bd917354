//! Looking inside one proxy: what it should have, what it has, and how it stands.

mod matches;
mod query;

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use kodiak_catalog::spec_of;
use kodiak_kinds::kinds;
use kodiak_model::{ProxyKey, ResourceKey, kinds::dataplane_insight::DataplaneInsight};
use kodiak_rules::Meta;
use kodiak_store::Snapshot;
use serde_json::json;

use super::{Asked, json};
use crate::{
    Api, ApiError,
    inspect::{Question, Trouble},
};

pub(crate) use matches::matches;

const NOT_FOUND: &str = "Could not retrieve a resource";

/// `_config`: what the control plane has for it.
pub(crate) async fn config(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let shadow = query::flag(&asked, "shadow")?.unwrap_or(false);
    let diff = query::includes_diff(&asked)?;
    let (snapshot, proxy) = find(&api, &asked)?;
    if shadow && has_shadow_policies(&snapshot, &proxy) {
        let text = "policies with the label kuma.io/effect: shadow are not tried out yet; ask without 'shadow'";
        return Err(ApiError::bad_request(text));
    }
    let xds = api.proxies().config(proxy).await.map_err(|trouble| failed(&trouble))?;
    let mut body = json!({ "xds": xds });
    if diff {
        // Without policies that are only tried out, both sides are the same.
        body["diff"] = json!([]);
    }
    Ok(json(StatusCode::OK, body.to_string()))
}

/// `_status`: how its connection stands, with all that the proxy said when it rejected something.
pub(crate) async fn status(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let (snapshot, proxy) = find(&api, &asked)?;
    if let Some(status) = api.proxies().status(&proxy) {
        let text = serde_json::to_string(&status).expect("a status has text keys");
        return Ok(json(StatusCode::OK, text));
    }
    let key = ResourceKey::in_mesh("DataplaneInsight", &proxy.mesh, &proxy.name);
    let insight = snapshot.get(&key).and_then(spec_of::<DataplaneInsight>).unwrap_or_default();
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
    let of_control_plane = what.starts_with('_') || matches!(what, "policies" | "rules");
    Err(if of_control_plane { ApiError::page_not_found() } else { ApiError::not_found(NOT_FOUND) })
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

fn has_shadow_policies(snapshot: &Snapshot, proxy: &ProxyKey) -> bool {
    let policies = kinds().iter().filter(|kind| kind.is_policy());
    policies
        .flat_map(|kind| snapshot.list_in(kind.name, &proxy.mesh))
        .any(|record| Meta { mesh: &record.key.mesh, name: &record.key.name, labels: &record.labels }.is_shadow())
}

fn failed(trouble: &Trouble) -> ApiError {
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

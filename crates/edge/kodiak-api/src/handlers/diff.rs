//! What would change for proxies if something were written. Nothing is.

use axum::{http::StatusCode, response::Response};
use kodiak_catalog::{Planned, Target};
use kodiak_kinds::kinds;
use kodiak_model::{Kind, Scope};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Asked, inspect::failed, json};
use crate::{Api, ApiError, body};

const TITLE: &str = "Could not tell the difference";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Change {
    /// Documents as they would be written.
    #[serde(default)]
    resources: Vec<Value>,
    #[serde(default)]
    deleted: Vec<Named>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    #[serde(rename = "type")]
    kind: String,
    name: String,
}

/// `POST /meshes/{mesh}/_diff`
pub(crate) async fn diff(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let mesh = asked.param(0).to_owned();
    let bytes = body::read(&asked.headers, asked.body).await?;
    let change: Change = serde_json::from_slice(&bytes).map_err(|error| {
        ApiError::bad_request(format_args!("the body must be {{\"resources\": [...], \"deleted\": [...]}}: {error}"))
    })?;
    let (mut planned, mut changes) = (Vec::new(), Vec::new());
    for document in change.resources {
        let kind = kind(document.get("type").and_then(Value::as_str).unwrap_or_default())?;
        let name = document.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let within = if kind.scope == Scope::Mesh { mesh.as_str() } else { "" };
        let refused = |refusal| ApiError::refused(refusal, TITLE);
        let Planned { put, record } =
            api.catalog().plan(Target { kind, mesh: within, name: &name }, document).map_err(refused)?;
        let effect = match (put.created, put.changed) {
            (true, _) => "created",
            (false, true) => "updated",
            (false, false) => "unchanged",
        };
        changes.push(json!({ "type": kind.name, "name": name, "effect": effect, "warnings": put.warnings }));
        planned.push((record.key.clone(), Some(record)));
    }
    let snapshot = api.catalog().store().snapshot();
    for Named { kind: written, name } in change.deleted {
        let kind = kind(&written)?;
        let within = if kind.scope == Scope::Mesh { mesh.as_str() } else { "" };
        let key = Target { kind, mesh: within, name: &name }.key();
        if snapshot.get(&key).is_none() {
            return Err(ApiError::not_found(TITLE));
        }
        changes.push(json!({ "type": kind.name, "name": name, "effect": "deleted", "warnings": [] }));
        planned.push((key, None));
    }
    let mut answer = api.proxies().diff(mesh, planned).await.map_err(|trouble| failed(&trouble))?;
    answer["changes"] = Value::Array(changes);
    Ok(json(StatusCode::OK, answer.to_string()))
}

fn kind(name: &str) -> Result<&'static Kind, ApiError> {
    let unknown = || ApiError::bad_request(format_args!("there is no kind {name:?}"));
    kinds().by_name(name).ok_or_else(unknown)
}

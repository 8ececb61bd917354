//! What would change for proxies if something were written. Nothing is.

use std::collections::BTreeSet;

use axum::{http::StatusCode, response::Response};
use kodiak_catalog::{Planned, Refusal, Target};
use kodiak_kinds::kinds;
use kodiak_model::{Kind, Problem, Problems, ResourceKey, Scope, labels};
use kodiak_store::{Expect, Snapshot, Write};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Asked,
    inspect::{failed, flag},
    json,
};
use crate::{
    Api, ApiError,
    access::{self, Need},
    body,
};

const TITLE: &str = "Could not tell the difference";
const SHADOW: &str = "it is only tried out (label kuma.io/effect: shadow), so no proxy follows it";

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

/// The store as it would be, and how each document changes it.
struct Plan {
    after: Snapshot,
    changes: Vec<Value>,
    named: BTreeSet<ResourceKey>,
}

/// `POST /meshes/{mesh}/_diff`
pub(crate) async fn diff(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let full = flag(&asked, "full")?.unwrap_or(false);
    let mesh = asked.param(0).to_owned();
    let dataplane = kinds().by_name("Dataplane").expect("proxies have Dataplanes");
    api.catalog().require_mesh(dataplane, &mesh).map_err(refused)?;
    let bytes = body::read(&asked.headers, asked.body).await?;
    let change: Change = serde_json::from_slice(&bytes).map_err(|error| {
        ApiError::bad_request(format_args!("the body must be {{\"resources\": [...], \"deleted\": [...]}}: {error}"))
    })?;
    let rights = access::rights(&api.config().access, &asked.user);
    let before = api.catalog().store().snapshot();
    let mut plan = Plan { after: before.clone(), changes: Vec::new(), named: BTreeSet::new() };
    let mut problems = Problems::default();
    for (n, document) in change.resources.into_iter().enumerate() {
        let (kind, name) = (text(&document, "type"), text(&document, "name"));
        let kind = changeable(&api, &asked.user, &kind)?;
        let target = Target { kind, mesh: place(kind, &mesh, &name)?, name: &name };
        plan.name(target)?;
        match api.catalog().plan(&plan.after, target, document, rights) {
            Ok(planned) => plan.write(target, planned)?,
            // All of them are told, each with the document that it is in.
            Err(Refusal::Invalid { problems: found, .. }) => problems.extend(within(n, found)),
            Err(Refusal::Denied { problems: found }) => {
                return Err(refused(Refusal::Denied { problems: within(n, found) }));
            }
            Err(refusal) => return Err(refused(refusal)),
        }
    }
    if !problems.is_empty() {
        return Err(ApiError::invalid(TITLE, "Resource is not valid", problems));
    }
    for Named { kind, name } in change.deleted {
        let kind = changeable(&api, &asked.user, &kind)?;
        let target = Target { kind, mesh: place(kind, &mesh, &name)?, name: &name };
        plan.name(target)?;
        api.catalog().plan_delete(&plan.after, target).map_err(|refusal| match refusal {
            Refusal::NotFound => ApiError::new(StatusCode::NOT_FOUND, TITLE, absent(target)),
            other => refused(other),
        })?;
        plan.delete(target)?;
    }
    let Plan { after, changes, .. } = plan;
    let mut answer = api.proxies().diff(mesh, before, after, full).await.map_err(|trouble| failed(&trouble))?;
    answer["changes"] = Value::Array(changes);
    Ok(json(StatusCode::OK, answer.to_string()))
}

impl Plan {
    /// What is named twice would be two things at once.
    fn name(&mut self, target: Target<'_>) -> Result<(), ApiError> {
        if self.named.insert(target.key()) {
            return Ok(());
        }
        Err(ApiError::bad_request(format_args!("{} {:?} is named twice", target.kind.name, target.name)))
    }

    fn write(&mut self, target: Target<'_>, Planned { put, transaction }: Planned) -> Result<(), ApiError> {
        self.after = self.after.with(transaction).map_err(|error| refused(error.into()))?;
        let effect = match (put.created, put.changed) {
            (true, _) => "created",
            (false, true) => "updated",
            (false, false) => "unchanged",
        };
        let mut warnings = put.warnings;
        let labels = self.after.get(&target.key()).map(|record| record.labels.clone()).unwrap_or_default();
        if target.kind.is_policy() && labels.get(labels::EFFECT).is_some_and(|effect| effect == "shadow") {
            warnings.push(SHADOW.to_owned());
        }
        let (kind, name) = (target.kind.name, target.name);
        self.changes.push(json!({ "type": kind, "name": name, "effect": effect, "warnings": warnings }));
        Ok(())
    }

    fn delete(&mut self, target: Target<'_>) -> Result<(), ApiError> {
        let write = Write::Delete { key: target.key(), expect: Expect::Any };
        self.after = self.after.with(write.into()).map_err(|error| refused(error.into()))?;
        let (kind, name) = (target.kind.name, target.name);
        self.changes.push(json!({ "type": kind, "name": name, "effect": "deleted", "warnings": [] }));
        Ok(())
    }
}

/// The problems of one document among others.
fn within(n: usize, found: Problems) -> Problems {
    let mut problems = Problems::default();
    for Problem { path, message } in found.into_vec() {
        let path = if path.is_empty() { format!("resources[{n}]") } else { format!("resources[{n}].{path}") };
        problems.push(Problem { path, message });
    }
    problems
}

fn text(document: &Value, field: &str) -> String {
    document.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A kind that people write. What only some may read is not found out by asking whether it would change.
fn changeable(api: &Api, user: &crate::User, name: &str) -> Result<&'static Kind, ApiError> {
    let unknown = || ApiError::bad_request(format_args!("there is no kind {name:?}"));
    let kind = kinds().by_name(name).ok_or_else(unknown)?;
    if kind.read_only() {
        let detail = format!("{} is written by the control plane alone; it can only be read", kind.name);
        return Err(ApiError::method_not_allowed(&detail));
    }
    Need::Read(kind).check(&api.config().access, user)?;
    Ok(kind)
}

/// The mesh that a resource lives in. Of meshes, only the one that was asked about.
fn place<'a>(kind: &Kind, mesh: &'a str, name: &str) -> Result<&'a str, ApiError> {
    match kind.scope {
        Scope::Mesh => Ok(mesh),
        Scope::Global if kind.name == "Mesh" && name != mesh => {
            Err(ApiError::bad_request(format_args!("Mesh {name:?} is not the mesh {mesh:?} that was asked about")))
        }
        Scope::Global => Ok(""),
    }
}

fn absent(target: Target<'_>) -> String {
    format!("there is no {} {:?} to delete", target.kind.name, target.name)
}

fn refused(refusal: Refusal) -> ApiError {
    ApiError::refused(refusal, TITLE)
}

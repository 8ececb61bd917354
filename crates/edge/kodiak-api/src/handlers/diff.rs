//! Configuration diff: how a write would change the configuration of proxies. Nothing is stored.

use std::collections::BTreeSet;

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use kodiak_catalog::{Planned, Refusal, Target};
use kodiak_kinds::kinds;
use kodiak_model::{Kind, Problem, Problems, ResourceKey, Scope, labels};
use kodiak_store::{Snapshot, Transaction};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    ApiCall,
    inspect::{failed, flag},
    json,
};
use crate::{
    Api, ApiError,
    access::{self, Need},
    body,
};

const TITLE: &str = "Configuration diff failed";
const SHADOW: &str = "the label kuma.io/effect: shadow makes it a dry run, so no proxy applies it";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ProposedChange {
    /// Documents to write.
    #[serde(default)]
    resources: Vec<Value>,
    #[serde(default)]
    deleted: Vec<DeletedResource>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeletedResource {
    #[serde(rename = "type")]
    kind: String,
    name: String,
}

/// Store after the write, and the change that each document makes.
pub(super) struct Plan {
    pub(super) after: Snapshot,
    changes: Vec<Value>,
    named: BTreeSet<ResourceKey>,
}

/// `POST /meshes/{mesh}/_diff`
pub(crate) async fn diff(api: Api, call: ApiCall) -> Result<Response, ApiError> {
    let full = flag(&call, "full")?.unwrap_or(false);
    let mesh = call.param(0).to_owned();
    let dataplane = kinds().by_name("Dataplane").expect("proxies have Dataplanes");
    api.catalog().require_mesh(dataplane, &mesh).map_err(refused)?;
    let change = ProposedChange::read(&call.headers, call.body).await?;
    let before = api.catalog().store().snapshot();
    let Plan { after, changes, .. } = Plan::of(&api, &call.user, &before, &mesh, change)?;
    let mut answer = api.proxies().diff(mesh, before, after, full).await.map_err(|error| failed(&error))?;
    answer["changes"] = Value::Array(changes);
    Ok(json(StatusCode::OK, answer.to_string()))
}

impl ProposedChange {
    pub(super) async fn read(headers: &HeaderMap, body: Body) -> Result<Self, ApiError> {
        let bytes = body::read(headers, body).await?;
        serde_json::from_slice(&bytes).map_err(|error| {
            let form = "{\"resources\": [...], \"deleted\": [...]}";
            ApiError::bad_request(format_args!("the body must be {form}: {error}"))
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.deleted.is_empty()
    }
}

impl Plan {
    /// Nothing is stored.
    pub(super) fn of(
        api: &Api,
        user: &crate::User,
        before: &Snapshot,
        mesh: &str,
        change: ProposedChange,
    ) -> Result<Self, ApiError> {
        let rights = access::rights(&api.config().access, user);
        let mut plan = Self { after: before.clone(), changes: Vec::new(), named: BTreeSet::new() };
        let mut problems = Problems::default();
        for (n, document) in change.resources.into_iter().enumerate() {
            let (kind, name) = (text(&document, "type"), text(&document, "name"));
            let kind = changeable(api, user, &kind)?;
            let target = Target { kind, mesh: place(kind, mesh, &name)?, name: &name };
            plan.name(target)?;
            match api.catalog().plan(&plan.after, target, document, rights) {
                Ok(planned) => plan.write(target, planned)?,
                // Problems of all documents are reported at once, each with the index of its document.
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
        for DeletedResource { kind, name } in change.deleted {
            let kind = changeable(api, user, &kind)?;
            let target = Target { kind, mesh: place(kind, mesh, &name)?, name: &name };
            plan.name(target)?;
            let deletion = api.catalog().plan_delete(&plan.after, target).map_err(|refusal| match refusal {
                Refusal::NotFound => ApiError::new(StatusCode::NOT_FOUND, TITLE, absent(target)),
                other => refused(other),
            })?;
            plan.delete(target, deletion)?;
        }
        Ok(plan)
    }

    /// Refuses a second change of the same resource, because the result would depend on their order.
    fn name(&mut self, target: Target<'_>) -> Result<(), ApiError> {
        if self.named.insert(target.key()) {
            return Ok(());
        }
        Err(ApiError::bad_request(format_args!(
            "{} {:?} occurs more than once; list each resource once",
            target.kind.name, target.name
        )))
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

    fn delete(&mut self, target: Target<'_>, deletion: Transaction) -> Result<(), ApiError> {
        self.after = self.after.with(deletion).map_err(|error| refused(error.into()))?;
        let (kind, name) = (target.kind.name, target.name);
        self.changes.push(json!({ "type": kind, "name": name, "effect": "deleted", "warnings": [] }));
        Ok(())
    }
}

/// Prefixes the paths of problems with the index of their document.
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

/// Kind that users write and this user may read: otherwise a diff would disclose whether a guess equals the stored value.
fn changeable(api: &Api, user: &crate::User, name: &str) -> Result<&'static Kind, ApiError> {
    let unknown = || ApiError::bad_request(format_args!("there is no kind {name:?}"));
    let kind = kinds().by_name(name).ok_or_else(unknown)?;
    if kind.read_only() {
        let detail = format!("{} is read-only: only the control plane writes it", kind.name);
        return Err(ApiError::method_not_allowed(&detail));
    }
    Need::Read(kind).check(&api.config().access, user)?;
    Ok(kind)
}

/// Mesh of the key of a resource. The only Mesh that can be changed is the one in the path.
fn place<'a>(kind: &Kind, mesh: &'a str, name: &str) -> Result<&'a str, ApiError> {
    match kind.scope {
        Scope::Mesh => Ok(mesh),
        Scope::Global if kind.name == "Mesh" && name != mesh => {
            Err(ApiError::bad_request(format_args!("Mesh {name:?} does not match mesh {mesh:?} in the path")))
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

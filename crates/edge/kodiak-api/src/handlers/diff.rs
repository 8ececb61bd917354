//! Configuration diff: how a write would change the configuration of proxies. Nothing is stored.

use std::collections::BTreeMap;

use axum::{http::StatusCode, response::Response};
use kodiak_catalog::{Planned, Put, Refusal, Target, Unfit};
use kodiak_kinds::kinds;
use kodiak_model::{Kind, Problem, Problems, ResourceKey, Scope, labels};
use kodiak_store::Snapshot;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    ComputedCall,
    inspect::{failed, flag},
    json,
};
use crate::{
    Api, ApiError,
    access::{self, Need},
    inspect::ConfigDiff,
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
}

/// `POST /meshes/{mesh}/_diff`
pub(crate) fn diff(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let full = flag(call, "full")?.unwrap_or(false);
    let mesh = call.param(0).to_owned();
    let dataplane = kinds().by_name("Dataplane").expect("proxies have Dataplanes");
    api.catalog().require_mesh(dataplane, &mesh).map_err(refused)?;
    let change = ProposedChange::read(call)?;
    let before = api.catalog().store().snapshot();
    let Plan { after, changes } = Plan::of(api, call, &before, &mesh, change)?;
    let between = ConfigDiff { mesh: &mesh, before: &before, after: &after, full };
    let found = api.proxies().diff(between, &call.cancellation);
    let mut answer = found.map_err(|error| failed(&error))?;
    answer["changes"] = Value::Array(changes);
    Ok(json(StatusCode::OK, answer.to_string()))
}

impl ProposedChange {
    pub(super) fn read(call: &ComputedCall) -> Result<Self, ApiError> {
        let change: Self = serde_json::from_slice(&call.body).map_err(|error| {
            let form = "{\"resources\": [...], \"deleted\": [...]}";
            ApiError::bad_request(format_args!("the body must be {form}: {error}"))
        })?;
        call.limits.check(change.resources.len() + change.deleted.len())?;
        Ok(change)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.deleted.is_empty()
    }
}

impl Plan {
    /// Nothing is stored.
    pub(super) fn of(
        api: &Api,
        call: &ComputedCall,
        before: &Snapshot,
        mesh: &str,
        change: ProposedChange,
    ) -> Result<Self, ApiError> {
        let rights = access::rights(&api.config().access, &call.user);
        let mut planner = api.catalog().planner(before, rights, &call.cancellation);
        let (mut changes, mut problems) = (Vec::new(), Problems::default());
        let mut places: BTreeMap<ResourceKey, usize> = BTreeMap::new();
        // A second change of the same resource is refused, because the result would depend on their order.
        let mut name = |target: Target<'_>| match places.insert(target.key(), places.len()) {
            None => Ok(()),
            Some(_) => Err(ApiError::bad_request(format_args!(
                "{} {:?} occurs more than once; list each resource once",
                target.kind.name, target.name
            ))),
        };
        for (n, document) in change.resources.into_iter().enumerate() {
            let (kind, written) = (text(&document, "type"), text(&document, "name"));
            let kind = changeable(api, &call.user, &kind)?;
            let target = Target { kind, mesh: place(kind, mesh, &written)?, name: &written };
            name(target)?;
            match planner.write(target, document) {
                Ok(put) => changes.push(written_change(planner.after(), target, put)),
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
        for DeletedResource { kind, name: deleted } in change.deleted {
            let kind = changeable(api, &call.user, &kind)?;
            let target = Target { kind, mesh: place(kind, mesh, &deleted)?, name: &deleted };
            name(target)?;
            planner.delete(target).map_err(|refusal| match refusal {
                Refusal::NotFound => ApiError::new(StatusCode::NOT_FOUND, TITLE, absent(target)),
                other => refused(other),
            })?;
            let (kind, name) = (target.kind.name, target.name);
            changes.push(json!({ "type": kind, "name": name, "effect": "deleted", "warnings": [] }));
        }
        let place = |key: &ResourceKey| places.get(key).copied();
        let Planned { after, .. } = planner.finish().map_err(|unfit| unfit_document(unfit, place, TITLE))?;
        Ok(Self { after, changes })
    }
}

/// The document in a body that does not fit to the others.
pub(super) fn unfit_document(
    Unfit { key, refusal }: Unfit,
    place: impl Fn(&ResourceKey) -> Option<usize>,
    title: &str,
) -> ApiError {
    match (refusal, key.as_deref().and_then(place)) {
        (Refusal::Invalid { problems, .. }, Some(n)) => {
            ApiError::invalid(title, "Resource is not valid", within(n, problems))
        }
        (refusal, _) => ApiError::refused(refusal, title),
    }
}

fn written_change(after: &Snapshot, target: Target<'_>, put: Put) -> Value {
    let effect = match (put.created, put.changed) {
        (true, _) => "created",
        (false, true) => "updated",
        (false, false) => "unchanged",
    };
    let mut warnings = put.warnings;
    let labels = after.get(&target.key()).map(|record| record.labels.clone()).unwrap_or_default();
    if target.kind.is_policy() && labels.get(labels::EFFECT).is_some_and(|effect| effect == "shadow") {
        warnings.push(SHADOW.to_owned());
    }
    let (kind, name) = (target.kind.name, target.name);
    json!({ "type": kind, "name": name, "effect": effect, "warnings": warnings })
}

/// Prefixes the paths of problems with the index of their document.
pub(super) fn within(n: usize, found: Problems) -> Problems {
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

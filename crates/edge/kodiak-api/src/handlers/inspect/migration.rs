//! Migration from `kuma.io/service` tags to MeshService: progress of a mesh, and conversion of its policies.

use std::sync::Arc;

use axum::response::Response;
use kodiak_catalog::{Planned, Refusal, Rights, Target};
use kodiak_inspection::inspect::MeshView;
use kodiak_kinds::kinds;
use kodiak_migration::{Consumer, Conversion, Known, Landscape, OldItems, Standing, convert};
use kodiak_model::{Labels, Problem, Problems, ResourceKey, subscription::Subscription};
use kodiak_rules::{Policy, Proxy};
use kodiak_store::Snapshot;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ApiCall, answer, listed};
use crate::{
    Api, ApiError, body,
    list::{ListQuery, Page},
    shapes::{self, migration::Converted},
};

const TITLE: &str = "Migration request failed";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConvertAsked {
    /// Documents to convert; the stored policies when missing.
    resources: Option<Vec<Value>>,
    /// Remove legacy references that have a replacement.
    #[serde(default)]
    replace: bool,
}

/// `GET /meshes/{mesh}/_migration`
pub(crate) async fn standing(api: Api, call: ApiCall) -> Result<Response, ApiError> {
    let (snapshot, view) = find_mesh(&api, &call)?;
    let standing = stands(&snapshot, &Landscape::of(&view), &view, call.param(0));
    Ok(answer(&shapes::migration::Standing::from(standing)))
}

/// `GET /meshes/{mesh}/_migration/consumers`
pub(crate) async fn consumers(api: Api, call: ApiCall) -> Result<Response, ApiError> {
    let (snapshot, view) = find_mesh(&api, &call)?;
    let query = ListQuery::parse(&call.query)?;
    query.check(&call.route)?;
    let landscape = Landscape::of(&view);
    let policies = stands(&snapshot, &landscape, &view, call.param(0)).policies;
    let named = view.proxies.values().filter(|proxy| proxy.name.contains(query.name.as_str()));
    let Page { items, total, next } = Page::of(&query, named);
    let of = |proxy: &Arc<Proxy>| Consumer::of(proxy, known(&snapshot, proxy), &landscape, &policies).into();
    Ok(listed(&call, Page::<shapes::migration::Consumer> { items: items.into_iter().map(of).collect(), total, next }))
}

/// `POST /meshes/{mesh}/_migration/convert`. Nothing is stored.
pub(crate) async fn converted(api: Api, mut call: ApiCall) -> Result<Response, ApiError> {
    let bytes = body::read(&call.headers, std::mem::take(&mut call.body)).await?;
    let ConvertAsked { resources, replace } = serde_json::from_slice(&bytes).map_err(|error| {
        ApiError::bad_request(format_args!("the body must be {{\"resources\": [...], \"replace\": false}}: {error}"))
    })?;
    let (snapshot, view) = find_mesh(&api, &call)?;
    let landscape = Landscape::of(&view);
    let old_items = if replace { OldItems::Dropped } else { OldItems::Kept };
    let done: Vec<Converted> = if let Some(documents) = resources {
        let read = written(&api, &snapshot, call.param(0), documents)?;
        let done = read.into_iter().map(|(document, policy)| match policy {
            Some(policy) => renew(document, &policy, &landscape, old_items),
            None => Converted::new(document, false, Vec::new()),
        });
        done.collect()
    } else {
        let stored = stored(&snapshot, &view, call.param(0));
        let done = stored.map(|(policy, spec)| renew(document(policy, &spec), policy, &landscape, old_items));
        done.filter(Converted::has_findings).collect()
    };
    Ok(answer(&json!({ "items": done })))
}

fn find_mesh(api: &Api, call: &ApiCall) -> Result<(Snapshot, Arc<MeshView>), ApiError> {
    let mesh = call.param(0);
    let snapshot = api.catalog().store().snapshot();
    if snapshot.get(&ResourceKey::global("Mesh", mesh)).is_none() {
        return Err(ApiError::not_found(TITLE));
    }
    let view = api.meshes().view(&snapshot, mesh);
    Ok((snapshot, view))
}

/// Policies of a mesh that reference destinations, with their specs.
fn stored<'a>(
    snapshot: &'a Snapshot,
    view: &'a MeshView,
    mesh: &'a str,
) -> impl Iterator<Item = (&'a Arc<Policy>, Value)> {
    let about_calls = |policy: &&Arc<Policy>| policy.kind.policy.is_some_and(|facts| facts.to);
    view.policy_index.policies().filter(about_calls).filter_map(move |policy| {
        let record = snapshot.get(&ResourceKey::in_mesh(policy.kind.name, mesh, &policy.name))?;
        Some((policy, serde_json::from_str(&record.spec).ok()?))
    })
}

fn stands(snapshot: &Snapshot, landscape: &Landscape<'_>, view: &MeshView, mesh: &str) -> Standing {
    let policies: Vec<(&Arc<Policy>, Value)> = stored(snapshot, view, mesh).collect();
    Standing::of(mesh, landscape, policies.iter().map(|(policy, spec)| (&***policy, spec)))
}

fn known(snapshot: &Snapshot, proxy: &Proxy) -> Known {
    let world = snapshot.world();
    let insight = world.insight(&proxy.key());
    Known {
        connected: insight.is_some_and(|insight| insight.subscriptions.iter().any(Subscription::is_open)),
        redirected: world.redirects_outbound(proxy),
    }
}

/// Stored policy as a document that can be applied.
fn document(policy: &Policy, spec: &Value) -> Value {
    let labels: &Labels = &policy.labels;
    json!({ "type": policy.kind.name, "mesh": *policy.mesh, "name": *policy.name, "labels": labels, "spec": spec })
}

pub(super) fn stored_document(snapshot: &Snapshot, policy: &Policy) -> Option<Value> {
    let record = snapshot.get(&ResourceKey::in_mesh(policy.kind.name, &policy.mesh, &policy.name))?;
    Some(document(policy, &serde_json::from_str(&record.spec).ok()?))
}

fn renew(mut document: Value, policy: &Policy, landscape: &Landscape<'_>, old_items: OldItems) -> Converted {
    let Conversion { spec, changed, findings } = convert(policy, &document["spec"], landscape, old_items);
    if changed {
        document["spec"] = spec;
    }
    Converted::new(document, changed, findings)
}

/// Document, with the policy that it becomes once it is stored.
type Document = (Value, Option<Arc<Policy>>);

/// Each document with the policy that it becomes, if its kind references destinations. Reports all problems at once.
fn written(api: &Api, snapshot: &Snapshot, mesh: &str, documents: Vec<Value>) -> Result<Vec<Document>, ApiError> {
    let mut problems = Problems::default();
    let mut read = Vec::new();
    for (n, document) in documents.into_iter().enumerate() {
        let text = |field: &str| document.get(field).and_then(Value::as_str).unwrap_or_default();
        let kind = kinds().by_name(text("type"));
        let Some(kind) = kind.filter(|kind| kind.policy.is_some_and(|facts| facts.to)) else {
            read.push((document, None));
            continue;
        };
        let target = Target { kind, mesh, name: text("name") };
        match api.catalog().plan(snapshot, target, document.clone(), Rights::default()) {
            Ok(Planned { transaction, .. }) => {
                let after = snapshot.with(transaction).map_err(|error| ApiError::refused(error.into(), TITLE))?;
                let policy = after.world().get(&target.key()).and_then(|policy| policy.policy().cloned());
                read.push((document, policy));
            }
            Err(Refusal::Invalid { problems: found, .. }) => {
                for Problem { path, message } in found.into_vec() {
                    problems.push(Problem { path: format!("resources[{n}].{path}"), message });
                }
            }
            Err(refusal) => return Err(ApiError::refused(refusal, TITLE)),
        }
    }
    if problems.is_empty() { Ok(read) } else { Err(ApiError::invalid(TITLE, "Resource is not valid", problems)) }
}

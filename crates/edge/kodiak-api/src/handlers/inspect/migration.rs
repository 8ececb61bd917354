//! Migration from `kuma.io/service` tags to MeshService: progress of a mesh, and conversion of its policies.

use std::{collections::BTreeMap, sync::Arc};

use axum::response::Response;
use kodiak_catalog::{Refusal, Rights, Target};
use kodiak_inspection::inspect::MeshView;
use kodiak_kinds::kinds;
use kodiak_migration::{Consumer, Conversion, Known, Landscape, OldItems, Standing, convert};
use kodiak_model::{Labels, Problems, ResourceKey, subscription::Subscription};
use kodiak_rules::{Policy, Proxy};
use kodiak_store::Snapshot;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    super::diff::{unfit_document, within},
    ComputedCall, answer, listed,
};
use crate::{
    Api, ApiError,
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
pub(crate) fn standing(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let (snapshot, view) = find_mesh(api, call)?;
    let standing = stands(&snapshot, &Landscape::of(&view), &view, call.param(0));
    Ok(answer(&shapes::migration::Standing::from(standing)))
}

/// `GET /meshes/{mesh}/_migration/consumers`
pub(crate) fn consumers(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let (snapshot, view) = find_mesh(api, call)?;
    let query = ListQuery::parse(&call.query)?;
    query.check(&call.route)?;
    let landscape = Landscape::of(&view);
    let policies = stands(&snapshot, &landscape, &view, call.param(0)).policies;
    let named = view.proxies.values().filter(|proxy| proxy.name.contains(query.name.as_str()));
    let page =
        Page::of(&query, named).try_map(|proxy: &Arc<Proxy>| -> Result<shapes::migration::Consumer, ApiError> {
            call.cancellation.check()?;
            Ok(Consumer::of(proxy, known(&snapshot, proxy), &landscape, &policies).into())
        })?;
    Ok(listed(call, page))
}

/// `POST /meshes/{mesh}/_migration/convert`. Nothing is stored.
pub(crate) fn converted(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let ConvertAsked { resources, replace } = serde_json::from_slice(&call.body).map_err(|error| {
        ApiError::bad_request(format_args!("the body must be {{\"resources\": [...], \"replace\": false}}: {error}"))
    })?;
    call.limits.check(resources.as_ref().map_or(0, Vec::len))?;
    let (snapshot, view) = find_mesh(api, call)?;
    let landscape = Landscape::of(&view);
    let old_items = if replace { OldItems::Dropped } else { OldItems::Kept };
    let mut done: Vec<Converted> = Vec::new();
    if let Some(documents) = resources {
        for (document, policy) in written(api, call, &snapshot, documents)? {
            call.cancellation.check()?;
            done.push(match policy {
                Some(policy) => renew(document, &policy, &landscape, old_items),
                None => Converted::new(document, false, Vec::new()),
            });
        }
    } else {
        for (policy, spec) in stored(&snapshot, &view, call.param(0)) {
            call.cancellation.check()?;
            done.push(renew(document(policy, &spec), policy, &landscape, old_items));
        }
        done.retain(Converted::has_findings);
    }
    Ok(answer(&json!({ "items": done })))
}

fn find_mesh(api: &Api, call: &ComputedCall) -> Result<(Snapshot, Arc<MeshView>), ApiError> {
    let mesh = call.param(0);
    let snapshot = api.catalog().store().snapshot();
    if snapshot.get(&ResourceKey::global("Mesh", mesh)).is_none() {
        return Err(ApiError::not_found(TITLE));
    }
    let view = api.meshes().view(&snapshot, mesh, &call.cancellation)?;
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
fn written(
    api: &Api,
    call: &ComputedCall,
    snapshot: &Snapshot,
    documents: Vec<Value>,
) -> Result<Vec<Document>, ApiError> {
    let mut planner = api.catalog().planner(snapshot, Rights::default(), &call.cancellation);
    let (mut problems, mut places, mut read) = (Problems::default(), BTreeMap::new(), Vec::new());
    for (n, document) in documents.into_iter().enumerate() {
        let text = |field: &str| document.get(field).and_then(Value::as_str).unwrap_or_default();
        let kind = kinds().by_name(text("type"));
        let Some(kind) = kind.filter(|kind| kind.policy.is_some_and(|facts| facts.to)) else {
            read.push((document, None));
            continue;
        };
        let target = Target { kind, mesh: call.param(0), name: text("name") };
        places.insert(target.key(), n);
        match planner.write(target, document.clone()) {
            Ok(_) => {
                let policy = planner.after().world().get(&target.key()).and_then(|policy| policy.policy().cloned());
                read.push((document, policy));
            }
            Err(Refusal::Invalid { problems: found, .. }) => problems.extend(within(n, found)),
            Err(refusal) => return Err(ApiError::refused(refusal, TITLE)),
        }
    }
    if !problems.is_empty() {
        return Err(ApiError::invalid(TITLE, "Resource is not valid", problems));
    }
    planner.finish().map_err(|unfit| unfit_document(unfit, |key| places.get(key).copied(), TITLE))?;
    Ok(read)
}

//! Conversion of MeshTrafficPermissions from tags to SPIFFE IDs.

use std::{collections::BTreeMap, sync::Arc};

use axum::response::Response;
use kodiak_catalog::{Planned, Refusal, Rights, Target};
use kodiak_kinds::kinds;
use kodiak_migration::identity_permissions::{self, ConvertedPermission, convert_permissions, with_rules};
use kodiak_model::{Kind, Problem, Problems, ResourceKey};
use kodiak_rules::Policy;
use kodiak_store::{Snapshot, Transaction};
use serde::Deserialize;
use serde_json::Value;

use super::{super::resources::refuse_write, ApiCall, answer, calls::off_the_runtime, migration::stored_document};
use crate::{Api, ApiError, access::Need, body, shapes::identity_migration as shapes};

const TITLE: &str = "Migration request failed";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConvertAsked {
    /// Documents to convert, in place of stored ones of the same name; all stored permissions when missing.
    resources: Option<Vec<Value>>,
    /// Store the changed documents.
    #[serde(default)]
    apply: bool,
}

/// `POST /meshes/{mesh}/_migration/identity/convert`
pub(crate) async fn converted(api: Api, mut call: ApiCall) -> Result<Response, ApiError> {
    let bytes = body::read(&call.headers, std::mem::take(&mut call.body)).await?;
    let ConvertAsked { resources, apply } = serde_json::from_slice(&bytes).map_err(|error| {
        ApiError::bad_request(format_args!("the body must be {{\"resources\": [...], \"apply\": false}}: {error}"))
    })?;
    let kind = kinds().by_name("MeshTrafficPermission").expect("there are permissions");
    if apply {
        Need::Modify(kind).check(&api.config().access, &call.user)?;
        if let Some(refused) = refuse_write(&api, kind) {
            return Err(refused);
        }
    }
    let mesh = call.param(0).to_owned();
    let snapshot = api.catalog().store().snapshot();
    if snapshot.get(&ResourceKey::global("Mesh", &mesh)).is_none() {
        return Err(ApiError::not_found(TITLE));
    }
    let with_documents = with_documents(&api, &snapshot, kind, &mesh, resources.as_deref().unwrap_or_default())?;
    let given: Option<Vec<String>> =
        resources.as_ref().map(|documents| documents.iter().filter(|one| is_of(kind, one)).map(name_of).collect());
    let (world, of_mesh) = (with_documents.world().clone(), mesh.clone());
    let made = off_the_runtime(move || {
        let is_given =
            |policy: &Policy| given.as_ref().is_none_or(|names| names.iter().any(|name| *name == *policy.name));
        convert_permissions(&world, &of_mesh, is_given)
    });
    let identity_permissions::PermissionConversion { policies, proof } = made.await?;
    let items = items(&with_documents, resources, kind, policies);
    let applied = apply && items.iter().any(|item| item.changed);
    if applied {
        store(&api, &snapshot, kind, &mesh, &items).await?;
        tracing::info!(user = %call.user.name, mesh, "MeshTrafficPermissions converted to rules");
    }
    Ok(answer(&shapes::PermissionConversion { items, proof: proof.into(), applied }))
}

/// The store with the given permissions. Reports all problems at once.
fn with_documents(
    api: &Api,
    snapshot: &Snapshot,
    kind: &'static Kind,
    mesh: &str,
    documents: &[Value],
) -> Result<Snapshot, ApiError> {
    let (mut after, mut problems) = (snapshot.clone(), Problems::default());
    for (n, document) in documents.iter().enumerate().filter(|(_, document)| is_of(kind, document)) {
        let name = name_of(document);
        match api.catalog().plan(&after, Target { kind, mesh, name: &name }, document.clone(), Rights::default()) {
            Ok(Planned { transaction, .. }) => {
                after = after.with(transaction).map_err(|error| ApiError::refused(error.into(), TITLE))?;
            }
            Err(Refusal::Invalid { problems: found, .. }) => {
                for Problem { path, message } in found.into_vec() {
                    problems.push(Problem { path: format!("resources[{n}].{path}"), message });
                }
            }
            Err(refusal) => return Err(ApiError::refused(refusal, TITLE)),
        }
    }
    if problems.is_empty() { Ok(after) } else { Err(ApiError::invalid(TITLE, "Resource is not valid", problems)) }
}

fn is_of(kind: &Kind, document: &Value) -> bool {
    document["type"].as_str() == Some(kind.name)
}

fn name_of(document: &Value) -> String {
    document["name"].as_str().unwrap_or_default().to_owned()
}

/// All given documents in their order; of the stored policies, those with `from`.
fn items(
    snapshot: &Snapshot,
    resources: Option<Vec<Value>>,
    kind: &Kind,
    policies: Vec<ConvertedPermission>,
) -> Vec<shapes::ConvertedPermission> {
    let Some(documents) = resources else {
        let stored = |one: ConvertedPermission| Some(renewed(stored_document(snapshot, &one.policy)?, one));
        return policies.into_iter().filter_map(stored).collect();
    };
    let mut by_name: BTreeMap<Arc<str>, ConvertedPermission> =
        policies.into_iter().map(|one| (one.policy.name.clone(), one)).collect();
    let of = |document: Value| match by_name.remove(name_of(&document).as_str()).filter(|_| is_of(kind, &document)) {
        Some(one) => renewed(document, one),
        None => shapes::ConvertedPermission { document, changed: false, findings: Vec::new() },
    };
    documents.into_iter().map(of).collect()
}

fn renewed(mut document: Value, one: ConvertedPermission) -> shapes::ConvertedPermission {
    let ConvertedPermission { rules, findings, .. } = one;
    if let Some(rules) = &rules {
        document["spec"] = with_rules(&document["spec"], rules);
    }
    let findings = findings.into_iter().map(Into::into).collect();
    shapes::ConvertedPermission { document, changed: rules.is_some(), findings }
}

/// Stores all changed documents in one transaction: an inbound with some of them converted would ignore the others.
async fn store(
    api: &Api,
    snapshot: &Snapshot,
    kind: &'static Kind,
    mesh: &str,
    items: &[shapes::ConvertedPermission],
) -> Result<(), ApiError> {
    let mut writes = Vec::new();
    for item in items.iter().filter(|item| item.changed) {
        let name = name_of(&item.document);
        let target = Target { kind, mesh, name: &name };
        let planned = api.catalog().plan(snapshot, target, item.document.clone(), Rights::default());
        let Planned { transaction, .. } = planned.map_err(|refusal| ApiError::refused(refusal, TITLE))?;
        writes.extend(transaction.0);
    }
    let committed = api.catalog().store().commit(Transaction(writes)).await;
    committed.map(drop).map_err(|error| ApiError::refused(error.into(), TITLE))
}

//! Conversion of MeshTrafficPermissions from tags to SPIFFE IDs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_catalog::{Planned, Refusal, Rights, Target};
use kodiak_kinds::kinds;
use kodiak_migration::identity_permissions::{self, ConvertedPermission, convert_permissions, with_rules};
use kodiak_model::{Kind, Problems, ResourceKey};
use kodiak_rules::Policy;
use kodiak_store::Snapshot;
use serde::Deserialize;
use serde_json::Value;

use super::{
    super::{
        diff::{unfit_document, within},
        resources::refuse_write,
    },
    ComputedCall, answer,
    migration::stored_document,
};
use crate::{Api, ApiError, access::Need, routes::Computed, shapes::identity_migration as shapes};

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
pub(crate) fn converted(api: &Api, call: &ComputedCall) -> Result<Computed, ApiError> {
    let ConvertAsked { resources, apply } = serde_json::from_slice(&call.body).map_err(|error| {
        ApiError::bad_request(format_args!("the body must be {{\"resources\": [...], \"apply\": false}}: {error}"))
    })?;
    call.limits.check(resources.as_ref().map_or(0, Vec::len))?;
    let kind = kinds().by_name("MeshTrafficPermission").expect("there are permissions");
    if apply {
        Need::Modify(kind).check(&api.config().access, &call.user)?;
        if let Some(refused) = refuse_write(api, kind) {
            return Err(refused);
        }
    }
    let mesh = call.param(0).to_owned();
    let snapshot = api.catalog().store().snapshot();
    if snapshot.get(&ResourceKey::global("Mesh", &mesh)).is_none() {
        return Err(ApiError::not_found(TITLE));
    }
    let documents = resources.as_deref().unwrap_or_default().iter().enumerate();
    let given = documents.filter(|(_, document)| is_of(kind, document));
    let with_documents = planned(api, call, &snapshot, (kind, &mesh), given)?.after;
    let given: Option<BTreeSet<String>> =
        resources.as_ref().map(|documents| documents.iter().filter(|one| is_of(kind, one)).map(name_of).collect());
    let is_given = |policy: &Policy| given.as_ref().is_none_or(|names| names.contains(&*policy.name));
    let identity_permissions::PermissionConversion { policies, proof } =
        convert_permissions(with_documents.world(), &mesh, is_given, &call.cancellation)?;
    let items = items(&with_documents, resources, kind, policies);
    let changed: Vec<(usize, &Value)> =
        items.iter().enumerate().filter(|(_, item)| item.changed).map(|(n, item)| (n, &item.document)).collect();
    let writes = (apply && !changed.is_empty())
        .then(|| planned(api, call, &snapshot, (kind, &mesh), changed.into_iter()))
        .transpose()?;
    let applied = writes.is_some();
    let answered = answer(&shapes::PermissionConversion { items, proof: proof.into(), applied });
    let Some(Planned { transaction, .. }) = writes else { return Ok(Computed::Answer(answered)) };
    let (api, user) = (api.clone(), call.user.name.clone());
    // One transaction: an inbound with some of them converted would ignore the others.
    Ok(Computed::Store(Box::pin(async move {
        let committed = api.catalog().store().commit(transaction).await;
        committed.map_err(|error| ApiError::refused(error.into(), TITLE))?;
        tracing::info!(user, mesh, "MeshTrafficPermissions converted to rules");
        Ok(answered)
    })))
}

/// The given permissions as they would be stored, each with its place in the request. Reports all problems at once.
fn planned<'a>(
    api: &Api,
    call: &ComputedCall,
    snapshot: &Snapshot,
    (kind, mesh): (&'static Kind, &str),
    documents: impl Iterator<Item = (usize, &'a Value)>,
) -> Result<Planned, ApiError> {
    let mut planner = api.catalog().planner(snapshot, Rights::default(), &call.cancellation);
    let (mut problems, mut places) = (Problems::default(), BTreeMap::new());
    for (n, document) in documents {
        let name = name_of(document);
        let target = Target { kind, mesh, name: &name };
        places.insert(target.key(), n);
        match planner.write(target, document.clone()) {
            Ok(_) => (),
            Err(Refusal::Invalid { problems: found, .. }) => problems.extend(within(n, found)),
            Err(refusal) => return Err(ApiError::refused(refusal, TITLE)),
        }
    }
    if !problems.is_empty() {
        return Err(ApiError::invalid(TITLE, "Resource is not valid", problems));
    }
    planner.finish().map_err(|unfit| unfit_document(unfit, |key| places.get(key).copied(), TITLE))
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

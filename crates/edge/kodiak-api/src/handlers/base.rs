//! Routes about the control plane itself: version, configuration, kinds, quarantine, the current user.

use std::sync::LazyLock;

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use kodiak_kinds::kinds;
use kodiak_model::{Kind, Provider, Scope};
use serde_json::{Value, json};

use super::{ApiCall, json};
use crate::{Api, ApiError, inspect::Quarantined};

/// Version of Kuma whose API this is.
const KUMA_VERSION: &str = "2.14.3";
const PRODUCT: &str = "Kodiak";

/// `product` and `version` are those that kumactl accepts, unless the settings say otherwise; `kodiak` has our own.
pub(crate) async fn index(api: Api, _: ApiCall) -> Result<Response, ApiError> {
    let info = api.info();
    let (product, version) =
        if api.config().present_as_kuma { ("Kuma", KUMA_VERSION) } else { (PRODUCT, info.version.as_str()) };
    let body = json!({
        "hostname": info.hostname,
        "product": product,
        "version": version,
        "instanceId": info.instance_id,
        "clusterId": info.cluster_id,
        "gui": "",
        "basedOnKuma": KUMA_VERSION,
        "kodiak": { "product": PRODUCT, "version": info.version },
    });
    Ok(json(StatusCode::OK, body.to_string()))
}

pub(crate) async fn config(api: Api, _: ApiCall) -> Result<Response, ApiError> {
    Ok(json(StatusCode::OK, api.info().config.to_string()))
}

pub(crate) async fn who_am_i(_: Api, call: ApiCall) -> Result<Response, ApiError> {
    Ok(json(StatusCode::OK, json!({ "name": call.user.name, "groups": call.user.groups }).to_string()))
}

pub(crate) async fn quarantine(api: Api, _: ApiCall) -> Result<Response, ApiError> {
    let snapshot = api.catalog().store().snapshot();
    let unreadable = snapshot.world().unreadable().filter_map(|resource| {
        let error = resource.unreadable()?.to_string();
        Some(Quarantined { key: resource.key.clone(), revision: resource.revision, task: "decode", error })
    });
    let items: Vec<Value> = api.proxies().quarantined().into_iter().chain(unreadable).map(quarantined).collect();
    Ok(json(StatusCode::OK, json!({ "total": items.len(), "items": items }).to_string()))
}

fn quarantined(Quarantined { key, revision, task, error }: Quarantined) -> Value {
    json!({ "type": &*key.kind, "mesh": &*key.mesh, "name": &*key.name, "revision": revision, "task": task, "error": error })
}

pub(crate) async fn openapi(_: Api, _: ApiCall) -> Result<Response, ApiError> {
    // Generated once: it is long, the same for everyone, and served to anonymous users. Slow clients share one text.
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| crate::openapi::document().to_string().into());
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], DOCUMENT.clone()).into_response())
}

pub(crate) async fn policies(api: Api, _: ApiCall) -> Result<Response, ApiError> {
    let policies: Vec<Value> = kinds().iter().filter(|kind| kind.is_policy()).map(|kind| policy(&api, kind)).collect();
    Ok(json(StatusCode::OK, json!({ "policies": policies }).to_string()))
}

fn policy(api: &Api, kind: &Kind) -> Value {
    let facts = kind.policy.expect("called for policies only");
    json!({
        "name": kind.name,
        "readOnly": api.config().read_only,
        "path": kind.path,
        "singularDisplayName": kind.singular_display(),
        "pluralDisplayName": kind.plural_display(),
        "isExperimental": false,
        "isTargetRefBased": true,
        "isInbound": facts.from,
        "isOutbound": facts.to,
    })
}

pub(crate) async fn resources(api: Api, _: ApiCall) -> Result<Response, ApiError> {
    let resources: Vec<Value> = kinds().iter().map(|kind| resource(&api, kind)).collect();
    Ok(json(StatusCode::OK, json!({ "resources": resources }).to_string()))
}

fn resource(api: &Api, kind: &Kind) -> Value {
    let mut row = json!({
        "name": kind.name,
        "path": kind.path,
        "scope": match kind.scope { Scope::Mesh => "Mesh", Scope::Global => "Global" },
        "readOnly": kind.read_only() || api.config().read_only,
        "singularDisplayName": kind.singular_display(),
        "pluralDisplayName": kind.plural_display(),
        "shortName": kind.short.unwrap_or_default(),
        "includeInFederation": federated(kind),
    });
    if let Some(facts) = kind.policy {
        row["policy"] = json!({
            "hasToTargetRef": facts.to,
            "hasFromTargetRef": facts.from,
            "hasRulesTargetRef": facts.rules,
            "isTargetRef": true,
            "isFromAsRules": facts.from_as_rules,
        });
    }
    row
}

/// Whether a global control plane syncs the kind to its zones. Insights and Dataplanes stay in their zone.
fn federated(kind: &Kind) -> bool {
    let of_a_zone = ["Dataplane", "Zone", "ZoneIngress", "ZoneEgress", "MeshService", "MeshZoneAddress", "Workload"];
    !kind.read_only() && (kind.provider == Provider::GlobalOnly || !of_a_zone.contains(&kind.name))
}

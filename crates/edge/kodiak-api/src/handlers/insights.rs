//! Insights of meshes and services, computed from the store on request.

use std::{collections::BTreeMap, sync::Arc};

use axum::{http::StatusCode, response::Response};
use jiff::Timestamp;
use kodiak_inspection::insights::{
    GlobalServices, MeshFacts, ObservedProxy, global_proxies, global_services, mesh_insight, services,
};
use kodiak_kinds::kinds;
use kodiak_model::{
    Cancellation, Cancelled, Kind, ResourceKey, Scope,
    kinds::{
        mesh::MeshServicesMode,
        mesh_insight::DataplaneStat,
        service_insight::{Service, ServiceDataplanes},
        zone_egress_insight::ZoneEgressInsight,
        zone_ingress_insight::ZoneIngressInsight,
        zone_insight::ZoneInsight,
    },
};
use kodiak_rules::Proxy;
use kodiak_store::{Record, Snapshot};
use kodiak_world::Resource;
use serde_json::{Value, json};

use super::{ApiCall, ComputedCall, json};
use crate::{
    Api, ApiError,
    list::{ListQuery, Page, next_query},
    render,
};

/// MeshInsight over all meshes, ServiceInsight in one or over all.
pub(crate) fn list(api: &Api, kind: &'static Kind, call: &ComputedCall) -> Result<Response, ApiError> {
    let query = ListQuery::parse(&call.query)?;
    check_service_types(&query)?;
    let snapshot = api.catalog().store().snapshot();
    let mesh = call.params.first().filter(|_| kind.scope == Scope::Mesh);
    if let Some(mesh) = mesh {
        let missing = |refusal| ApiError::refused(refusal, "Could not retrieve resources");
        api.catalog().require_mesh(kind, mesh).map_err(missing)?;
    }
    let meshes = snapshot.list("Mesh").filter(|record| mesh.is_none_or(|mesh| *record.key.name == **mesh));
    let mut items = Vec::new();
    for record in meshes {
        match kind.scope {
            Scope::Global => items.push((record.key.name.to_string(), of_mesh(&snapshot, record, &call.cancellation)?)),
            Scope::Mesh => {
                let shown = services_of(&snapshot, record, &call.cancellation)?
                    .into_iter()
                    .filter(|(_, service)| has_type(&query, service));
                items.extend(shown.map(|(name, service)| (name.clone(), of_service(record, &name, &service))));
            }
        }
    }
    let items = items.into_iter().filter(|(name, _)| name.contains(query.name.as_str()));
    let page = Page::of(&query, items.map(|(_, item)| item.to_string()));
    let next = page.next.map(|offset| format!("{}?{}", call.url, next_query(&call.query, offset)));
    Ok(json(StatusCode::OK, render::list(page.total, &page.items, next.as_deref())))
}

pub(crate) fn get(api: &Api, kind: &'static Kind, call: &ComputedCall) -> Result<Response, ApiError> {
    const NOT_FOUND: &str = "Could not retrieve a resource";
    let snapshot = api.catalog().store().snapshot();
    let mesh = snapshot.get(&ResourceKey::global("Mesh", call.param(0)));
    let item = match (kind.scope, mesh) {
        (Scope::Global, Some(mesh)) => of_mesh(&snapshot, mesh, &call.cancellation)?,
        (Scope::Global, None) => return Err(ApiError::not_found(NOT_FOUND)),
        (Scope::Mesh, None) => return Err(ApiError::not_found("Failed to retrieve Mesh")),
        (Scope::Mesh, Some(mesh)) => {
            // A service without proxies is not an error.
            let unknown = || Service { dataplanes: Some(ServiceDataplanes::default()), ..Service::default() };
            let service =
                services_of(&snapshot, mesh, &call.cancellation)?.remove(call.param(1)).unwrap_or_else(unknown);
            of_service(mesh, call.param(1), &service)
        }
    };
    Ok(json(StatusCode::OK, item.to_string()))
}

fn check_service_types(query: &ListQuery) -> Result<(), ApiError> {
    let known = ["internal", "external", "gateway_delegated", "gateway_builtin"];
    if query.service_types.iter().all(|name| known.contains(&name.as_str())) {
        return Ok(());
    }
    Err(ApiError::bad_request("unsupported service type"))
}

fn has_type(query: &ListQuery, service: &Service) -> bool {
    let text = kodiak_model::Word::text(service.service_type());
    query.service_types.is_empty() || query.service_types.iter().any(|name| name == text)
}

fn of_service(mesh: &Record, name: &str, service: &Service) -> Value {
    with_envelope("ServiceInsight", Some(&mesh.key.name), name, mesh, json!(service))
}

fn of_mesh(snapshot: &Snapshot, mesh: &Record, cancellation: &Cancellation) -> Result<Value, Cancelled> {
    let name = &*mesh.key.name;
    let proxies = proxies_of(snapshot, name, cancellation)?;
    let exclusive = is_exclusive(snapshot, name);
    let resources: Vec<(&str, u32, bool)> = kinds()
        .iter()
        .filter(|kind| kind.scope == Scope::Mesh && !kind.read_only())
        .map(|kind| (kind.name, number(snapshot.list_in(kind.name, name).count()), kind.is_policy()))
        .filter(|(_, total, _)| *total > 0)
        .collect();
    let services = services(&proxies, exclusive);
    let insight = mesh_insight(&proxies, &MeshFacts { resources: &resources, services: &services, exclusive });
    Ok(with_envelope("MeshInsight", None, name, mesh, json!(insight)))
}

/// Times of an insight: those of its mesh.
fn with_envelope(kind: &str, mesh: Option<&str>, name: &str, record: &Record, spec: Value) -> Value {
    let mut item = json!({ "type": kind });
    if let Some(mesh) = mesh {
        item["mesh"] = json!(mesh);
    }
    item["name"] = json!(name);
    item["creationTime"] = json!(record.created.to_string());
    item["modificationTime"] = json!(Timestamp::now().to_string());
    if let (Some(item), Value::Object(fields)) = (item.as_object_mut(), spec) {
        item.extend(fields);
    }
    item
}

fn services_of(
    snapshot: &Snapshot,
    mesh: &Record,
    cancellation: &Cancellation,
) -> Result<BTreeMap<String, Service>, Cancelled> {
    let name = &mesh.key.name;
    Ok(services(&proxies_of(snapshot, name, cancellation)?, is_exclusive(snapshot, name)))
}

fn is_exclusive(snapshot: &Snapshot, mesh: &str) -> bool {
    snapshot.world().mesh_services_mode(mesh) == MeshServicesMode::Exclusive
}

fn proxies_of(snapshot: &Snapshot, mesh: &str, cancellation: &Cancellation) -> Result<Vec<ObservedProxy>, Cancelled> {
    let world = snapshot.world();
    let observed = |proxy: &Arc<Proxy>| {
        cancellation.check()?;
        Ok(ObservedProxy { dataplane: proxy.dataplane.clone(), insight: world.insight(&proxy.key()) })
    };
    world.proxies(mesh).map(observed).collect()
}

/// `/global-insight`
pub(crate) fn global(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let snapshot = api.catalog().store().snapshot();
    let mut all_proxies = Vec::new();
    let mut all_services = GlobalServices::default();
    for mesh in snapshot.list("Mesh") {
        let proxies = proxies_of(&snapshot, &mesh.key.name, &call.cancellation)?;
        global_services(&mut all_services, &services(&proxies, is_exclusive(&snapshot, &mesh.key.name)));
        all_proxies.extend(proxies);
    }
    let proxies = global_proxies(&all_proxies);
    let counts = snapshot.counts();
    let total = |kind: &Kind| counts.get(kind.name).copied().unwrap_or_default();
    let policies: usize = kinds().iter().filter(|kind| kind.is_policy()).map(total).sum();
    let resources: BTreeMap<&str, Value> = kinds()
        .iter()
        .filter(|kind| !kind.read_only() && total(kind) > 0)
        .map(|kind| (kind.name, json!({ "total": total(kind) })))
        .collect();
    let online = |kind: &str, insight: &str, is_online: fn(&Resource) -> bool| {
        let online = snapshot.world().list(insight).filter(|insight| is_online(insight)).count();
        json!({ "online": online, "total": snapshot.list(kind).count() })
    };
    let body = json!({
        "createdAt": Timestamp::now().to_string(),
        "meshes": { "total": snapshot.list("Mesh").count() },
        "zones": {
            "controlPlanes":
                online("Zone", "ZoneInsight", |zone| zone.spec::<ZoneInsight>().is_some_and(|zone| zone.is_online())),
            "zoneIngresses": online("ZoneIngress", "ZoneIngressInsight", |ingress| {
                ingress.spec::<ZoneIngressInsight>().is_some_and(|ingress| ingress.is_online())
            }),
            "zoneEgresses": online("ZoneEgress", "ZoneEgressInsight", |egress| {
                egress.spec::<ZoneEgressInsight>().is_some_and(|egress| egress.is_online())
            }),
        },
        "dataplanes": {
            "standard": stat(proxies.standard),
            "gatewayBuiltin": stat(proxies.gateway_builtin),
            "gatewayDelegated": stat(proxies.gateway_delegated),
        },
        "services": {
            "internal": stat(all_services.internal),
            "external": { "total": all_services.external },
            "gatewayBuiltin": stat(all_services.gateway_builtin),
            "gatewayDelegated": stat(all_services.gateway_delegated),
        },
        "policies": { "total": policies },
        "resources": resources,
    });
    Ok(json(StatusCode::OK, body.to_string()))
}

/// `/global-insights`: legacy, shorter form.
pub(crate) async fn global_resources(api: Api, _: ApiCall) -> Result<Response, ApiError> {
    let counts = api.catalog().store().snapshot().counts();
    let shown = ["GlobalSecret", "HostnameGenerator", "Mesh", "Zone", "ZoneEgress", "ZoneIngress"];
    let total = |kind: &str| json!({ "total": counts.get(kind).copied().unwrap_or_default() });
    let resources: BTreeMap<&str, Value> = shown.into_iter().map(|kind| (kind, total(kind))).collect();
    let body = json!({
        "type": "GlobalInsights",
        "creationTime": Timestamp::now().to_string(),
        "resources": resources,
    });
    Ok(json(StatusCode::OK, body.to_string()))
}

/// All counts, including zeros.
fn stat(stat: DataplaneStat) -> Value {
    let DataplaneStat { total, online, offline, partially_degraded } = stat;
    json!({ "online": online, "offline": offline, "partiallyDegraded": partially_degraded, "total": total })
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

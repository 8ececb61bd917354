//! Answers about calls: the call graph of a mesh, why one call works or fails, who loses access, and what is trimmed.

use axum::{http::StatusCode, response::Response};
use kodiak_inspection::{
    calls::{CallGraph, Calls, Consumers, PermissionCheck, with_shadow_denials, with_strict_mtls},
    why::{self, WhyContext, WhyError},
};
use kodiak_model::ResourceKey;
use kodiak_rules::Shadow;
use kodiak_store::Snapshot;
use kodiak_traffic::ObservedTraffic;
use kodiak_world::World;

use super::{
    super::diff::{Plan, ProposedChange},
    ComputedCall, Question, answer, listed, query,
};
use crate::{
    Api, ApiError,
    list::{ListQuery, Page},
};

const TITLE: &str = "Could not examine calls";

/// `GET /meshes/{mesh}/_graph`; `client` and `destination` restrict it, `shadow` includes shadow policies.
pub(crate) fn graph(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let shadow = if query::flag(call, "shadow")?.unwrap_or(false) { Shadow::Included } else { Shadow::Ignored };
    let (client, destination) = (call.query_value("client"), call.query_value("destination"));
    let (snapshot, mesh) = find_mesh(api, call)?;
    let calls = Calls::of(snapshot.world(), &mesh, shadow, &call.cancellation)?;
    let made = CallGraph::of(&calls, client.as_deref(), destination.as_deref(), &call.cancellation);
    Ok(answer(&made.map_err(|error| unknown(&error))?))
}

/// `GET /meshes/{mesh}/_why?client=..&destination=..`
pub(crate) fn why(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let (client, destination) = (required(call, "client")?, required(call, "destination")?);
    let (snapshot, mesh) = find_mesh(api, call)?;
    let context: WhyContext = api.config().calls;
    let made = why::why(snapshot.world(), &mesh, context, &client, &destination, &call.cancellation);
    Ok(answer(&made.map_err(|error| unknown(&error))?))
}

/// `POST /meshes/{mesh}/_permissions/check`; `enforced` is as if mutual TLS were strict, `shadow` as if shadow policies
/// were in force, `shadowDeny` as if `AllowWithShadowDeny` denied. Nothing is stored.
pub(crate) fn check_permissions(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let enforced = query::flag(call, "enforced")?.unwrap_or(false);
    let shadow = query::flag(call, "shadow")?.unwrap_or(false);
    let shadow_deny = query::flag(call, "shadowDeny")?.unwrap_or(false);
    let (before, mesh) = find_mesh(api, call)?;
    let change = ProposedChange::read(call)?;
    let is_changed = !change.is_empty() || enforced || shadow || shadow_deny;
    let after = Plan::of(api, call, &before, &mesh, change)?.after;
    let (recorded, _) = api.proxies().traffic(&mesh);
    let traffic = ObservedTraffic::of(before.world(), &mesh, &recorded);
    let calls_of = |world: &World, shadow| Calls::of(world, &mesh, shadow, &call.cancellation);
    let before = is_changed.then(|| calls_of(before.world(), Shadow::Ignored)).transpose()?;
    let world = if enforced { with_strict_mtls(after.world(), &mesh) } else { after.world().clone() };
    let world = if shadow_deny { with_shadow_denials(&world, &mesh) } else { world };
    let after = calls_of(&world, if shadow { Shadow::Included } else { Shadow::Ignored })?;
    Ok(answer(&PermissionCheck::of(&world, before.as_ref(), &after, &traffic, &call.cancellation)?))
}

/// `GET /meshes/{mesh}/_reachability`: a page of consumers; `shadowDeny` is as if `AllowWithShadowDeny` denied.
pub(crate) fn reachability(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let wanted = ListQuery::parse(&call.query)?;
    wanted.check(&call.route)?;
    let shadow_deny = query::flag(call, "shadowDeny")?.unwrap_or(false);
    let (snapshot, mesh) = find_mesh(api, call)?;
    let (recorded, _) = api.proxies().traffic(&mesh);
    let setting = api.config().calls.reachability;
    let denying = shadow_deny.then(|| with_shadow_denials(snapshot.world(), &mesh));
    let world = denying.as_ref().unwrap_or(snapshot.world());
    let traffic = ObservedTraffic::of(world, &mesh, &recorded);
    let calls = Calls::of(world, &mesh, Shadow::Ignored, &call.cancellation)?;
    let consumers = Consumers::of(world, &calls, setting, &traffic.edges, &call.cancellation)?;
    let named = world.proxies(&mesh).filter(|proxy| proxy.name.contains(wanted.name.as_str()));
    let page = Page::of(&wanted, named).try_map(|proxy| {
        call.cancellation.check()?;
        Ok::<_, ApiError>(consumers.consumer(proxy))
    })?;
    Ok(listed(call, page))
}

fn required(call: &Question, name: &str) -> Result<String, ApiError> {
    let value = call.query_value(name).filter(|value| !value.is_empty());
    value.ok_or_else(|| ApiError::bad_request(format_args!("query parameter '{name}' is required")))
}

pub(super) fn find_mesh(api: &Api, call: &Question) -> Result<(Snapshot, String), ApiError> {
    let mesh = call.param(0);
    let snapshot = api.catalog().store().snapshot();
    if snapshot.get(&ResourceKey::global("Mesh", mesh)).is_none() {
        return Err(ApiError::not_found(TITLE));
    }
    Ok((snapshot, mesh.to_owned()))
}

fn unknown(error: &WhyError) -> ApiError {
    if let WhyError::Cancelled(cancelled) = error {
        return (*cancelled).into();
    }
    ApiError::new(StatusCode::NOT_FOUND, TITLE, error.to_string())
}

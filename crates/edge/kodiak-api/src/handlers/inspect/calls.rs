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

use super::{
    super::diff::{Plan, ProposedChange},
    ApiCall, answer, listed, query,
};
use crate::{
    Api, ApiError,
    list::{ListQuery, Page},
};

const TITLE: &str = "Could not examine calls";

/// `GET /meshes/{mesh}/_graph`; `client` and `destination` restrict it, `shadow` includes shadow policies.
pub(crate) async fn graph(api: Api, call: ApiCall) -> Result<Response, ApiError> {
    let shadow = if query::flag(&call, "shadow")?.unwrap_or(false) { Shadow::Included } else { Shadow::Ignored };
    let (client, destination) = (call.query_value("client"), call.query_value("destination"));
    let (snapshot, mesh) = find_mesh(&api, &call)?;
    let made = off_the_runtime(move || {
        let calls = Calls::of(snapshot.world(), &mesh, shadow);
        CallGraph::of(&calls, client.as_deref(), destination.as_deref())
    });
    Ok(answer(&made.await?.map_err(|error| unknown(&error))?))
}

/// `GET /meshes/{mesh}/_why?client=..&destination=..`
pub(crate) async fn why(api: Api, call: ApiCall) -> Result<Response, ApiError> {
    let (client, destination) = (required(&call, "client")?, required(&call, "destination")?);
    let (snapshot, mesh) = find_mesh(&api, &call)?;
    let context: WhyContext = api.config().calls;
    let made = off_the_runtime(move || why::why(snapshot.world(), &mesh, context, &client, &destination));
    Ok(answer(&made.await?.map_err(|error| unknown(&error))?))
}

/// `POST /meshes/{mesh}/_permissions/check`; `enforced` is as if mutual TLS were strict, `shadow` as if shadow policies
/// were in force, `shadowDeny` as if `AllowWithShadowDeny` denied. Nothing is stored.
pub(crate) async fn check_permissions(api: Api, call: ApiCall) -> Result<Response, ApiError> {
    let enforced = query::flag(&call, "enforced")?.unwrap_or(false);
    let shadow = query::flag(&call, "shadow")?.unwrap_or(false);
    let shadow_deny = query::flag(&call, "shadowDeny")?.unwrap_or(false);
    let (before, mesh) = find_mesh(&api, &call)?;
    let change = ProposedChange::read(&call.headers, call.body).await?;
    let is_changed = !change.is_empty() || enforced || shadow || shadow_deny;
    let after = Plan::of(&api, &call.user, &before, &mesh, change)?.after;
    let (recorded, _) = api.proxies().traffic(&mesh);
    let made = off_the_runtime(move || {
        let traffic = ObservedTraffic::of(before.world(), &mesh, &recorded);
        let before = is_changed.then(|| Calls::of(before.world(), &mesh, Shadow::Ignored));
        let world = if enforced { with_strict_mtls(after.world(), &mesh) } else { after.world().clone() };
        let world = if shadow_deny { with_shadow_denials(&world, &mesh) } else { world };
        let after = Calls::of(&world, &mesh, if shadow { Shadow::Included } else { Shadow::Ignored });
        PermissionCheck::of(&world, before.as_ref(), &after, &traffic)
    });
    Ok(answer(&made.await?))
}

/// `GET /meshes/{mesh}/_reachability`: a page of consumers; `shadowDeny` is as if `AllowWithShadowDeny` denied.
pub(crate) async fn reachability(api: Api, call: ApiCall) -> Result<Response, ApiError> {
    let wanted = ListQuery::parse(&call.query)?;
    wanted.check(&call.route)?;
    let shadow_deny = query::flag(&call, "shadowDeny")?.unwrap_or(false);
    let (snapshot, mesh) = find_mesh(&api, &call)?;
    let (recorded, _) = api.proxies().traffic(&mesh);
    let setting = api.config().calls.reachability;
    let made = off_the_runtime(move || {
        let denying = shadow_deny.then(|| with_shadow_denials(snapshot.world(), &mesh));
        let world = denying.as_ref().unwrap_or(snapshot.world());
        let traffic = ObservedTraffic::of(world, &mesh, &recorded);
        let calls = Calls::of(world, &mesh, Shadow::Ignored);
        let consumers = Consumers::of(world, &calls, setting, &traffic.edges);
        let named = world.proxies(&mesh).filter(|proxy| proxy.name.contains(wanted.name.as_str()));
        let Page { items, total, next } = Page::of(&wanted, named);
        Page { items: items.into_iter().map(|proxy| consumers.consumer(proxy)).collect::<Vec<_>>(), total, next }
    });
    let page = made.await?;
    Ok(listed(&call, page))
}

fn required(call: &ApiCall, name: &str) -> Result<String, ApiError> {
    let value = call.query_value(name).filter(|value| !value.is_empty());
    value.ok_or_else(|| ApiError::bad_request(format_args!("query parameter '{name}' is required")))
}

/// The graph of a large mesh takes up to a second, and other requests must not wait for it.
pub(super) async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "examining calls failed");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, TITLE, "Internal Server Error")
    })
}

fn find_mesh(api: &Api, call: &ApiCall) -> Result<(Snapshot, String), ApiError> {
    let mesh = call.param(0);
    let snapshot = api.catalog().store().snapshot();
    if snapshot.get(&ResourceKey::global("Mesh", mesh)).is_none() {
        return Err(ApiError::not_found(TITLE));
    }
    Ok((snapshot, mesh.to_owned()))
}

fn unknown(error: &WhyError) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, TITLE, error.to_string())
}

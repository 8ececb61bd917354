//! Proxies that a policy selects, and proxies of a MeshService.

use std::sync::Arc;

use axum::response::Response;
use kodiak_inspection::inspect::members;
use kodiak_model::{Kind, kinds::mesh_service::MeshService};
use kodiak_rules::{Proxy, Shadow};

use super::{ComputedCall, NOT_FOUND, Question, find_resource, listed};
use crate::{
    Api, ApiError,
    list::{ListQuery, Page},
    shapes::ResourceMeta,
};

/// `<policy>/{name}/_resources/dataplanes`. Includes the proxies that a shadow policy would select.
pub(crate) fn of_policy(api: &Api, kind: &'static Kind, call: &ComputedCall) -> Result<Response, ApiError> {
    let title = "Could not retrieve policy";
    let (snapshot, record) = find_resource(api, kind, call, title)?;
    let policy = snapshot.world().get(&record.key).and_then(|policy| policy.policy());
    let policy = policy.ok_or_else(|| ApiError::not_found(title))?;
    let view = api.meshes().view(&snapshot, &record.key.mesh, &call.cancellation)?;
    let selected = view.policy_index.selected(policy, Shadow::Included);
    page(call, selected.iter().filter_map(|name| view.proxies.get(name)))
}

/// `meshservices/{name}/_resources/dataplanes` and `meshservices/{name}/_dataplanes`
pub(crate) fn of_service(api: &Api, kind: &'static Kind, call: &ComputedCall) -> Result<Response, ApiError> {
    let (snapshot, record) = find_resource(api, kind, call, NOT_FOUND)?;
    let service = snapshot.world().get(&record.key).and_then(|service| service.spec::<MeshService>());
    let service = service.ok_or_else(|| ApiError::not_found(NOT_FOUND))?;
    let view = api.meshes().view(&snapshot, &record.key.mesh, &call.cancellation)?;
    page(call, view.proxies.values().filter(|proxy| members::is_member(&service, proxy)))
}

fn page<'a>(call: &Question, proxies: impl Iterator<Item = &'a Arc<Proxy>>) -> Result<Response, ApiError> {
    let query = ListQuery::parse(&call.query)?;
    query.check(&call.route)?;
    let page = Page::of(&query, proxies.filter(|proxy| proxy.name.contains(query.name.as_str())));
    let shown = |proxy: &Arc<Proxy>| ResourceMeta::new("Dataplane", &proxy.mesh, &proxy.name, &proxy.labels);
    let Page { items, total, next } = page;
    Ok(listed(call, Page { items: items.into_iter().map(shown).collect(), total, next }))
}

//! How policies stand: on how many proxies they are in force; where they are not, and why.

use std::{collections::BTreeSet, sync::Arc};

use axum::response::Response;
use kodiak_catalog::Target;
use kodiak_kinds::in_force;
use kodiak_model::{Kind, ResourceKey};
use kodiak_rules::Policy;
use kodiak_views::{
    inspect::MeshView,
    policy_status::{self, Context, PolicyStatus, State},
};

use super::{Asked, answer, find_resource, listed, mesh};
use crate::{
    Api, ApiError,
    list::{ListQuery, Page},
};

/// `<policy>/{name}/_status`
pub(crate) async fn of_policy(api: Api, kind: &'static Kind, asked: Asked) -> Result<Response, ApiError> {
    let title = "Could not retrieve policy";
    let (snapshot, record) = find_resource(&api, kind, &asked, title)?;
    let policy = mesh::policy(kind, &record).ok_or_else(|| ApiError::not_found(title))?;
    let view = api.meshes().view(&snapshot, &record.key.mesh);
    let mut found = of(&view, [&policy]);
    Ok(answer(&found.pop().expect("one policy has one status")))
}

/// `/meshes/{mesh}/_policies`; with `state`, only those that stand so.
pub(crate) async fn of_policies(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let mesh = asked.param(0);
    let kind = kodiak_kinds::kinds().by_name("Mesh").expect("there are meshes");
    let snapshot = api.catalog().store().snapshot();
    let key: ResourceKey = Target { kind, mesh: "", name: mesh }.key();
    if snapshot.get(&key).is_none() {
        return Err(ApiError::not_found("Could not retrieve resources"));
    }
    let query = ListQuery::parse(&asked.query)?;
    query.check(&asked.route)?;
    let state = asked.query_value("state").map(|text| State::parse(&text).ok_or_else(unknown_state)).transpose()?;
    let view = api.meshes().view(&snapshot, mesh);
    let named = view.book.policies().filter(|policy| policy.name.contains(query.name.as_str()));
    let page = match state {
        None => {
            let Page { items, total, next } = Page::of(&query, named);
            Page { items: of(&view, items), total, next }
        }
        // How they stand is not known before it is looked at.
        Some(state) => Page::of(&query, of(&view, named).into_iter().filter(|status| status.state == state)),
    };
    Ok(listed(&asked, page))
}

fn unknown_state() -> ApiError {
    ApiError::bad_request("unsupported value for query parameter 'state': use InForce, Partly or NotInForce")
}

fn of<'a>(view: &MeshView, policies: impl IntoIterator<Item = &'a Arc<Policy>>) -> Vec<PolicyStatus> {
    let services = view.proxies.values().flat_map(|proxy| proxy.dataplane.inbounds());
    let services: BTreeSet<String> = services.filter_map(|inbound| inbound.service().map(str::to_owned)).collect();
    let context = Context {
        book: &view.book,
        resources: &view.resources,
        proxies: &view.proxies,
        services: &services,
        identities: &view.identities,
        in_force: in_force(),
        era: view.era(),
    };
    policy_status::of_all(policies, context)
}

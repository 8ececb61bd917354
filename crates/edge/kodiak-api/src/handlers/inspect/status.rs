//! Status of policies: number of proxies on which they are in force, and reasons where they are not.

use std::{collections::BTreeMap, sync::Arc};

use axum::response::Response;
use kodiak_catalog::Target;
use kodiak_inspection::{
    inspect::MeshView,
    policy_status::{self, PolicyStatus, PolicyStatusContext, ProxyProblems, Why},
};
use kodiak_kinds::kinds;
use kodiak_model::{Cancellation, Cancelled, Kind, Kri, ProxyKey, ResourceKey};
use kodiak_rules::Policy;
use kodiak_store::Snapshot;
use kodiak_world::{Resource, World};

use super::{ComputedCall, answer, find_resource, listed};
use crate::{
    Api, ApiError,
    inspect::Status,
    list::{ListQuery, Page},
    shapes::{self, policy_status::parse_state},
};

/// `<policy>/{name}/_status`
pub(crate) fn of_policy(api: &Api, kind: &'static Kind, call: &ComputedCall) -> Result<Response, ApiError> {
    let title = "Could not retrieve policy";
    let (snapshot, record) = find_resource(api, kind, call, title)?;
    let world = snapshot.world();
    let resource = world.get(&record.key).ok_or_else(|| ApiError::not_found(title))?;
    let view = api.meshes().view(&snapshot, &record.key.mesh, &call.cancellation)?;
    let found = match resource.policy() {
        Some(policy) => with_problems(api, of(world, &view, [policy], &call.cancellation)?, &view).pop(),
        None => PolicyStatus::left_out(resource, view.proxies.len()),
    };
    let found = found.ok_or_else(|| ApiError::not_found(title))?;
    Ok(answer(&shapes::policy_status::PolicyStatus::from(found)))
}

/// `/meshes/{mesh}/_policies`; `state` filters by state.
pub(crate) fn of_policies(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let mesh = call.param(0);
    let kind = kodiak_kinds::kinds().by_name("Mesh").expect("there are meshes");
    let snapshot = api.catalog().store().snapshot();
    let key: ResourceKey = Target { kind, mesh: "", name: mesh }.key();
    if snapshot.get(&key).is_none() {
        return Err(ApiError::not_found("Could not retrieve resources"));
    }
    let query = ListQuery::parse(&call.query)?;
    query.check(&call.route)?;
    let state = call.query_value("state").map(|text| parse_state(&text).ok_or_else(unknown_state)).transpose()?;
    let view = api.meshes().view(&snapshot, mesh, &call.cancellation)?;
    let world = snapshot.world();
    let policies = view.policy_index.policies().map(Listed::Policy);
    let left_out = world.unreadable().filter(|resource| is_left_out(resource, mesh)).map(Listed::LeftOut);
    let named = policies.chain(left_out).filter(|listed| listed.name().contains(query.name.as_str()));
    let page = match state {
        None => {
            let Page { items, total, next } = Page::of(&query, named);
            Page { items: with_problems(api, of_listed(world, &view, items, &call.cancellation)?, &view), total, next }
        }
        // The state is computed, so the filter runs after it and before paging.
        Some(state) => {
            let statuses = with_problems(api, of_listed(world, &view, named, &call.cancellation)?, &view).into_iter();
            Page::of(&query, statuses.filter(|status| status.state == state))
        }
    };
    let Page { items, total, next } = page;
    let items = items.into_iter().map(shapes::policy_status::PolicyStatus::from).collect();
    Ok(listed(call, Page { items, total, next }))
}

/// Warning about policies that match callers by tags, for a MeshIdentity that is written: its certificates have no tags.
pub(crate) fn identity_warnings(
    snapshot: &Snapshot,
    key: &ResourceKey,
    cancellation: &Cancellation,
) -> Result<Option<String>, Cancelled> {
    let world = snapshot.world();
    let identity = world.get(key).filter(|_| &*key.kind == "MeshIdentity");
    let kri = identity.and_then(|identity| Kri::of(identity.kind?, &key.mesh, &key.name, &identity.labels));
    let Some(kri) = kri.map(|kri| kri.to_string()) else { return Ok(None) };
    let kind = kinds().by_name("MeshTrafficPermission").expect("there are permissions");
    let view = MeshView::of(world, &key.mesh, vec![kind]);
    let is_affected = |status: &PolicyStatus| {
        let mut reasons = status.reasons.iter();
        reasons.any(|reason| reason.reason == Why::CallersWithoutTags && reason.policies.contains(&kri))
    };
    let statuses = of(world, &view, view.policy_index.policies(), cancellation)?.into_iter().filter(is_affected);
    let names: Vec<String> = statuses.map(|status| status.name.to_string()).collect();
    Ok((!names.is_empty()).then(|| {
        format!(
            "MeshTrafficPermissions match callers by tags, which certificates of this MeshIdentity do not have: {}; convert \
             them to rules: kodiak migrate identity convert",
            names.join(", ")
        )
    }))
}

/// Policy of the mesh, or a stored one without a readable version.
enum Listed<'a> {
    Policy(&'a Arc<Policy>),
    LeftOut(&'a Arc<Resource>),
}

impl Listed<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Policy(policy) => &policy.name,
            Self::LeftOut(resource) => &resource.key.name,
        }
    }
}

fn is_left_out(resource: &Resource, mesh: &str) -> bool {
    &*resource.key.mesh == mesh && resource.kind.is_some_and(Kind::is_policy) && resource.policy().is_none()
}

/// Warning for a policy about callers that is written in a mesh where no caller has a certificate.
pub(crate) fn mtls_warning(snapshot: &Snapshot, kind: &Kind, mesh: &str) -> Option<String> {
    let target = kodiak_identity::target(snapshot.world(), mesh).filter(|_| kodiak_kinds::needs_mtls(kind))?;
    target.issuers.is_empty().then(|| {
        format!(
            "{} is not enforced, because mesh {mesh:?} has no mutual TLS: every call is allowed until the Mesh has \
             mtls.enabledBackend, or a MeshIdentity issues certificates",
            kind.name
        )
    })
}

/// Adds problems of proxies that are connected to this control plane.
fn with_problems(api: &Api, statuses: Vec<PolicyStatus>, view: &MeshView) -> Vec<PolicyStatus> {
    let mut policies: BTreeMap<(&str, &str), &Arc<Policy>> = BTreeMap::new();
    for policy in view.policy_index.policies() {
        policies.entry((policy.kind.name, &policy.name)).or_insert(policy);
    }
    let with = |status: PolicyStatus| {
        if !policy_status::can_break_proxies(status.kind) {
            return status;
        }
        let Some(policy) = policies.get(&(status.kind, &*status.name)).copied() else { return status };
        let mesh = status.mesh.clone();
        status.with_problems(policy, &view.policy_index, |proxy| problems(api, &ProxyKey::new(&mesh, proxy)))
    };
    statuses.into_iter().map(with).collect()
}

/// `None` if the proxy is not connected to this control plane.
fn problems(api: &Api, proxy: &ProxyKey) -> Option<ProxyProblems> {
    let Status { faults, types, .. } = api.proxies().status(proxy)?;
    let rejected = types.into_iter().filter(|each| each.rejecting);
    let rejected = rejected.filter_map(|each| Some((each.short, each.last_error?)));
    Some(ProxyProblems { faults, rejected: rejected.collect() })
}

/// Policies that were left out come last, in the order of the list.
fn of_listed<'a>(
    world: &World,
    view: &MeshView,
    listed: impl IntoIterator<Item = Listed<'a>>,
    cancellation: &Cancellation,
) -> Result<Vec<PolicyStatus>, Cancelled> {
    let (mut policies, mut left_out) = (Vec::new(), Vec::new());
    for one in listed {
        match one {
            Listed::Policy(policy) => policies.push(policy),
            Listed::LeftOut(resource) => left_out.extend(PolicyStatus::left_out(resource, view.proxies.len())),
        }
    }
    let mut statuses = of(world, view, policies, cancellation)?;
    statuses.extend(left_out);
    Ok(statuses)
}

fn unknown_state() -> ApiError {
    ApiError::bad_request("unsupported value for query parameter 'state': use InForce, Partly or NotInForce")
}

fn of<'a>(
    world: &World,
    view: &MeshView,
    policies: impl IntoIterator<Item = &'a Arc<Policy>>,
    cancellation: &Cancellation,
) -> Result<Vec<PolicyStatus>, Cancelled> {
    let services = view.legacy_services();
    let without = view.proxies.iter().filter(|(_, proxy)| world.redirects_outbound(proxy) == Some(false));
    let not_redirected = without.map(|(name, _)| name.clone()).collect();
    let context = PolicyStatusContext {
        policy_index: &view.policy_index,
        resources: &view.resources,
        proxies: &view.proxies,
        services: &services,
        not_redirected: &not_redirected,
        identities: &view.identities,
        otlp_backends: &view.otlp_backends,
        rollout: &view.rollout,
        resolution: view.resolution(),
    };
    let unreadable = |status: &PolicyStatus| {
        let key = ResourceKey::in_mesh(status.kind, &status.mesh, &status.name);
        world.get(&key).and_then(|resource| resource.unreadable().cloned())
    };
    let statuses = policy_status::of_all(policies, context, cancellation)?.into_iter();
    let statuses = statuses.map(|status| match unreadable(&status) {
        Some(unreadable) => status.with_unreadable(&unreadable),
        None => status,
    });
    Ok(statuses.collect())
}

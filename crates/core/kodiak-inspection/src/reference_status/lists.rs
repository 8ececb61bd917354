//! Reachable lists: each as a whole, then its entries.

use kodiak_model::kinds::{
    dataplane::{ReachableBackendRef, TransparentProxying},
    mesh::MeshServicesMode,
};
use kodiak_rules::Proxy;

use super::{Asked, Reference, ReferenceContext, ReferenceProblem, Why, why};
use kodiak_services::reachable::{Wanted, has_legacy_destinations};

pub(super) fn backends(lists: &TransparentProxying, proxy: &Proxy, context: ReferenceContext<'_>) -> Vec<Reference> {
    let Some(backends) = &lists.reachable_backends else { return Vec::new() };
    let path = "networking.transparentProxying.reachableBackends";
    let unread = (context.redirected == Some(false)).then(|| ReferenceProblem::new(Why::NoEffect, why::NOT_REDIRECTED));
    let entry = |(n, reference): (usize, &ReachableBackendRef)| {
        let wanted = Wanted::by_backend(reference, proxy);
        let asked = Asked::new(wanted, &reference.namespace, reference.port, proxy);
        let means = asked.means(context);
        let unresolved = || ReferenceProblem::new(Why::Unresolved, why::unresolved(&asked, context));
        let trouble = means.is_empty().then(unresolved);
        Reference { path: format!("{path}.refs[{n}]"), means, trouble }
    };
    whole(path, unread).chain(backends.refs.iter().enumerate().map(entry)).collect()
}

pub(super) fn services(lists: &TransparentProxying, proxy: &Proxy, context: ReferenceContext<'_>) -> Vec<Reference> {
    if lists.reachable_services.is_empty() {
        return Vec::new();
    }
    let path = "networking.transparentProxying.reachableServices";
    let unread = unread_services(lists, context);
    let alone = lists.reachable_backends.is_none();
    let is_legacy = has_legacy_destinations(context.mode);
    let has_stand_ins = alone && matches!(context.mode, MeshServicesMode::Everywhere | MeshServicesMode::Exclusive);
    let is_served = |name: &String| {
        let mut own = proxy.dataplane.inbounds().iter().filter_map(|inbound| inbound.service());
        own.any(|service| service == name) || (context.is_served)(name)
    };
    let entry = |(n, name): (usize, &String)| {
        let mut means: Vec<String> = (is_legacy && is_served(name)).then(|| name.clone()).into_iter().collect();
        if has_stand_ins {
            let stand_ins = Wanted::stand_ins(name, proxy).into_iter();
            means.extend(stand_ins.flat_map(|wanted| Asked::new(wanted, "", None, proxy).means(context)));
        }
        let trouble = match (means.is_empty(), is_legacy, has_stand_ins) {
            (true, true, _) => Some(why::unserved(name, context)),
            (true, false, true) => Some(why::no_stand_in(name)),
            // The list as a whole says it.
            (true, false, false) | (false, ..) => None,
        };
        let trouble = trouble.map(|message| ReferenceProblem::new(Why::Unresolved, message));
        Reference { path: format!("{path}[{n}]"), means, trouble }
    };
    whole(path, unread).chain(lists.reachable_services.iter().enumerate().map(entry)).collect()
}

fn unread_services(lists: &TransparentProxying, context: ReferenceContext<'_>) -> Option<ReferenceProblem> {
    let alone = lists.reachable_backends.is_none();
    if context.redirected == Some(false) {
        return Some(ReferenceProblem::new(Why::NoEffect, why::NOT_REDIRECTED));
    }
    match (context.mode, alone) {
        (MeshServicesMode::Exclusive, false) => Some(ReferenceProblem::new(Why::NoEffect, why::NO_SERVICES)),
        (MeshServicesMode::Disabled, true) if context.objects > 0 => {
            Some(ReferenceProblem::new(Why::HidesObjects, why::hidden(context.objects)))
        }
        // The other objects are hidden as with any list, and without `reachableBackends` none is visible in that mode.
        (
            MeshServicesMode::Disabled
            | MeshServicesMode::Everywhere
            | MeshServicesMode::ReachableBackends
            | MeshServicesMode::Exclusive,
            _,
        ) => None,
    }
}

/// A list is included only when it has a problem.
fn whole(path: &str, trouble: Option<ReferenceProblem>) -> impl Iterator<Item = Reference> {
    let path = path.to_owned();
    trouble.map(|trouble| Reference { path, means: Vec::new(), trouble: Some(trouble) }).into_iter()
}

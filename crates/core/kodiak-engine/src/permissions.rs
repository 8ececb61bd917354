//! Which permissions are in force at the inbounds of a proxy.

use std::sync::Arc;

use kodiak_model::{Kri, kinds::dataplane::Dataplane};
use kodiak_policies::mesh_traffic_permission::{KIND, MeshTrafficPermission, Permissions};
use kodiak_views::matching::{Meta, Policy, Selection, Shadow, precedence, select};

use crate::{Labelled, proxy::Subject};

/// Whether the policy has a say about this proxy.
pub(crate) fn selects(
    mesh: &str,
    policy: (&str, &Labelled<MeshTrafficPermission>),
    proxy: (&str, &Labelled<Dataplane>),
) -> bool {
    selection(mesh, policy, proxy) != Selection::default()
}

/// For each inbound of the proxy.
pub(crate) fn in_force(subject: &Subject<'_>) -> Vec<Arc<Permissions>> {
    let mesh = &subject.key.mesh;
    let proxy = (&*subject.key.name, subject.dataplane);
    let selected = subject.permissions.iter().filter_map(|(name, policy)| {
        let selection = selection(mesh, (name, policy), proxy);
        (!selection.inbounds.is_empty()).then_some((&**name, &**policy, selection))
    });
    let mut selected: Vec<_> = selected.collect();
    selected.sort_by(|(one, a, _), (other, b, _)| precedence(&policy_of(mesh, (one, a)), &policy_of(mesh, (other, b))));
    let kris: Vec<String> = selected
        .iter()
        .map(|(name, policy, _)| {
            Kri::of(&KIND, mesh, name, &policy.labels).map(|kri| kri.to_string()).unwrap_or_default()
        })
        .collect();
    let at = |inbound: usize| {
        let here = selected.iter().zip(&kris).filter(|((_, _, selection), _)| selection.inbounds.contains(&inbound));
        let here: Vec<_> = here.map(|((_, policy, _), kri)| (kri.as_str(), &policy.spec)).collect();
        Arc::new(Permissions::of(&here))
    };
    (0..subject.dataplane.spec.inbounds().len()).map(at).collect()
}

fn selection(
    mesh: &str,
    policy: (&str, &Labelled<MeshTrafficPermission>),
    (name, dataplane): (&str, &Labelled<Dataplane>),
) -> Selection {
    let proxy = Meta { mesh, name, labels: &dataplane.labels };
    select(&policy_of(mesh, policy), &proxy, &dataplane.spec, Shadow::Ignored)
}

fn policy_of<'a>(mesh: &'a str, (name, policy): (&'a str, &'a Labelled<MeshTrafficPermission>)) -> Policy<'a> {
    Policy { meta: Meta { mesh, name, labels: &policy.labels }, target: policy.spec.target_ref.as_ref() }
}

//! Targets of a policy, to find the destinations that a change of it affects.

use std::collections::BTreeSet;

use kodiak_model::{
    Kri, Labels, LegacyName, LegacyNames, TargetKind,
    kinds::{mesh_external_service, mesh_multi_zone_service, mesh_service},
};

use super::{
    is_for_route,
    resolve::{Who, legacy_name},
};
use crate::Policy;

/// For both values of [`NameResolution`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyTargets {
    /// All destinations, or targets that cannot be determined from the policy alone.
    All,
    Some {
        /// Whole resources, also for targets with a port.
        named: BTreeSet<Kri>,
        /// MeshServices by their legacy names: display name and namespace.
        old: BTreeSet<(String, String)>,
        /// By the name of the kind.
        labels: Vec<(&'static str, Labels)>,
    },
}

/// Targets of the `to` items.
pub fn targets_of(policy: &Policy) -> PolicyTargets {
    let (mut named, mut old, mut labels): (BTreeSet<Kri>, BTreeSet<_>, Vec<_>) = <_>::default();
    for item in policy.body.to.iter().filter(|_| !is_for_route(policy)) {
        let target = &item.target;
        let kind = match target.known_kind() {
            None | Some(TargetKind::Mesh | TargetKind::MeshHTTPRoute) => return PolicyTargets::All,
            Some(TargetKind::MeshService) => &mesh_service::KIND,
            Some(TargetKind::MeshExternalService) => &mesh_external_service::KIND,
            Some(TargetKind::MeshMultiZoneService) => &mesh_multi_zone_service::KIND,
            Some(
                TargetKind::MeshSubset
                | TargetKind::MeshGateway
                | TargetKind::MeshServiceSubset
                | TargetKind::Dataplane,
            ) => continue,
        };
        match (legacy_name(target), Who::of(policy, target)) {
            (Some(_), _) if policy.kind.legacy_names == LegacyNames::Nothing => (),
            (Some(LegacyName { name, namespace, .. }), _) => {
                old.insert((name.to_owned(), namespace.to_owned()));
            }
            (None, Some(Who::Called(called))) => {
                named.insert(called.kri(kind.short.expect("destinations have a short name")));
            }
            (None, Some(Who::Labelled(labelled))) => labels.push((labelled.kind, labelled.labels)),
            (None, None) => (),
        }
    }
    PolicyTargets::Some { named, old, labels }
}

//! What a policy is about, to tell which destinations a changed one touches.

use std::collections::BTreeSet;

use kodiak_model::{
    Kri, Labels, OldName, OldNames, TargetKind,
    kinds::{mesh_external_service, mesh_multi_zone_service, mesh_service},
};

use super::{
    is_for_route,
    resolve::{Who, old_name},
};
use crate::Policy;

/// In both eras.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meant {
    /// Everything, or what cannot be told from the policy alone.
    All,
    Some {
        /// Whole resources, also where only a port is meant.
        named: BTreeSet<Kri>,
        /// MeshServices by their old names: the name that people call them, and the namespace.
        old: BTreeSet<(String, String)>,
        /// By the name of the kind.
        labels: Vec<(&'static str, Labels)>,
    },
}

/// What the items of `to` are about.
pub fn meant_by(policy: &Policy) -> Meant {
    let (mut named, mut old, mut labels): (BTreeSet<Kri>, BTreeSet<_>, Vec<_>) = <_>::default();
    for item in policy.body.to.iter().filter(|_| !is_for_route(policy)) {
        let target = &item.target;
        let kind = match target.known_kind() {
            None | Some(TargetKind::Mesh | TargetKind::MeshHTTPRoute) => return Meant::All,
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
        match (old_name(target), Who::of(policy, target)) {
            (Some(_), _) if policy.kind.old_names == OldNames::Nothing => (),
            (Some(OldName { name, namespace, .. }), _) => {
                old.insert((name.to_owned(), namespace.to_owned()));
            }
            (None, Some(Who::Called(called))) => {
                named.insert(called.kri(kind.short.expect("destinations have a short name")));
            }
            (None, Some(Who::Labelled(labelled))) => labels.push((labelled.kind, labelled.labels)),
            (None, None) => (),
        }
    }
    Meant::Some { named, old, labels }
}

//! Which of two policies of a kind wins where both say something.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use kodiak_model::{TargetKind, TargetRef};

use crate::Policy;

/// From the weakest to the strongest: what comes later overrides. Only a policy and itself are equal.
///
/// First the kind of the target decides, then the origin, then the role, then the name: the first in the alphabet wins.
pub fn precedence(a: &Policy, b: &Policy) -> Ordering {
    strength(a).cmp(&strength(b))
}

fn strength<'a>(policy: &'a Policy) -> impl Ord + use<'a> {
    let (meta, target) = (policy.meta(), policy.body.target.as_ref());
    let kind = target.map_or(Some(TargetKind::Mesh), TargetRef::known_kind);
    (
        kind.map_or(0, rank),
        target.filter(|_| kind == Some(TargetKind::Dataplane)).map(of_dataplanes),
        meta.origin(),
        target.filter(|_| kind == Some(TargetKind::MeshGateway)).map(listener_tags),
        meta.role(),
        Reverse(meta.display_name()),
        Reverse((meta.zone(), meta.namespace(), meta.name)),
    )
}

/// How much a kind of target narrows the mesh down.
fn rank(kind: TargetKind) -> u8 {
    match kind {
        TargetKind::Mesh => 1,
        TargetKind::Dataplane => 2,
        TargetKind::MeshSubset => 3,
        TargetKind::MeshGateway => 4,
        TargetKind::MeshService => 5,
        TargetKind::MeshExternalService => 6,
        TargetKind::MeshMultiZoneService => 7,
        TargetKind::MeshServiceSubset => 8,
        TargetKind::MeshHTTPRoute => 9,
    }
}

/// A name says more than labels do, and an inbound says more than the whole proxy. All proxies count as labels: with a
/// place of their own beside both, three policies could each win over the next in a circle.
fn of_dataplanes(target: &TargetRef) -> (bool, bool) {
    let is_set = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    (is_set(&target.name), is_set(&target.section_name))
}

fn listener_tags(target: &TargetRef) -> usize {
    target.tags.as_ref().map_or(0, BTreeMap::len)
}

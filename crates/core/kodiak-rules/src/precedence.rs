//! Which of two policies of a kind wins where both say something.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use kodiak_model::{TargetKind, TargetRef};

use crate::{Origin, Policy, Role, select::kind_of};

/// From the weakest to the strongest: what comes later overrides. Only a policy and itself are equal.
///
/// First the kind of the target decides, then the origin, then the role, then the name: the first in the alphabet wins.
pub fn precedence(a: &Policy, b: &Policy) -> Ordering {
    Strength::of(a).cmp(&Strength::of(b)).then_with(|| by_name(a, b))
}

/// All that decides before names do, so that it can be kept. The fields are compared in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Strength {
    rank: u8,
    /// Of targets of kind Dataplane.
    dataplane: Option<(bool, bool)>,
    origin: Origin,
    /// Of targets of kind MeshGateway.
    listener_tags: Option<usize>,
    role: Role,
}

impl Strength {
    pub(crate) fn of(policy: &Policy) -> Self {
        let (meta, target) = (policy.meta(), policy.body.target.as_ref());
        let kind = kind_of(target);
        Self {
            rank: kind.map_or(0, rank),
            dataplane: target.filter(|_| kind == Some(TargetKind::Dataplane)).map(of_dataplanes),
            origin: meta.origin(),
            listener_tags: target.filter(|_| kind == Some(TargetKind::MeshGateway)).map(listener_tags),
            role: meta.role(),
        }
    }
}

/// Among equally strong policies.
pub(crate) fn by_name(a: &Policy, b: &Policy) -> Ordering {
    let [a, b] = [a, b].map(|policy| {
        let meta = policy.meta();
        Reverse((meta.display_name(), meta.zone(), meta.namespace(), meta.name))
    });
    a.cmp(&b)
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

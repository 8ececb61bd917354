//! Precedence of policies of a kind.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use kodiak_model::{TargetKind, TargetRef};

use crate::{Origin, Policy, Role, select::kind_of};

/// In ascending precedence: later policies override earlier ones. Only a policy and itself are equal.
///
/// The kind of the target decides first, then the origin, then the role, then the name: the first name in alphabetical
/// order wins.
pub fn precedence(a: &Policy, b: &Policy) -> Ordering {
    Strength::of(a).cmp(&Strength::of(b)).then_with(|| by_name(a, b))
}

/// Precedence without the name, to be cached. The fields are compared in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Strength {
    rank: u8,
    /// For targets of kind Dataplane.
    dataplane: Option<(bool, bool)>,
    origin: Origin,
    /// For targets of kind MeshGateway.
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

/// Among policies of equal strength.
pub(crate) fn by_name(a: &Policy, b: &Policy) -> Ordering {
    let [a, b] = [a, b].map(|policy| {
        let meta = policy.meta();
        Reverse((meta.display_name(), meta.zone(), meta.namespace(), meta.name))
    });
    a.cmp(&b)
}

/// Specificity of a target kind.
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

/// A name is more specific than labels, and an inbound more than the whole proxy. All proxies count as labels: with a
/// rank between both, three policies could override each other in a circle.
fn of_dataplanes(target: &TargetRef) -> (bool, bool) {
    let is_set = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    (is_set(&target.name), is_set(&target.section_name))
}

fn listener_tags(target: &TargetRef) -> usize {
    target.tags.as_ref().map_or(0, BTreeMap::len)
}

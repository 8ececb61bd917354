//! Precedence of `to` items: among policies of equal strength the more specific destination wins, then the name.

use std::{cmp::Ordering, sync::Arc};

use kodiak_model::{Labels, TargetKind, TargetRef, labels, policy::Body};

use super::Entry;
use crate::{Policy, precedence};

/// All items of `to`, in ascending precedence.
pub fn entries(policies: &[Arc<Policy>]) -> Vec<Entry> {
    let mut entries: Vec<(Strength, Entry)> = Vec::new();
    for policy in policies {
        let items = (0..policy.body.to.len()).map(|index| Entry { policy: policy.clone(), index });
        entries.extend(items.map(|entry| (Strength::of(&entry), entry)));
    }
    entries.sort_by(|(a, one), (b, other)| a.compare(b).then_with(|| by_name(one, other)));
    entries.into_iter().map(|(_, entry)| entry).collect()
}

/// Precedence without the name.
struct Strength {
    /// The policy, reduced to the parts that decide its precedence.
    policy: Policy,
    /// Destinations have the same specificity as the same kinds in a top-level `targetRef`.
    destination: Policy,
    has_section: bool,
}

impl Strength {
    fn of(entry: &Entry) -> Self {
        let (policy, to) = (&*entry.policy, &entry.item().target);
        let kept = [labels::ORIGIN, labels::POLICY_ROLE].into_iter();
        let kept = kept.filter_map(|key| Some((key.to_owned(), policy.labels.get(key)?.clone()))).collect();
        let top = policy.body.target.clone().map(|target| TargetRef { tags: None, ..target });
        let destination = TargetRef { kind: to.kind.clone(), ..TargetRef::default() };
        let section = to.section_name.as_deref().filter(|section| !section.is_empty());
        Self {
            policy: nameless(policy, kept, top),
            destination: nameless(policy, Labels::new(), Some(destination)),
            has_section: to.known_kind() == Some(TargetKind::MeshService) && section.is_some(),
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        precedence(&self.policy, &other.policy)
            .then_with(|| precedence(&self.destination, &other.destination))
            .then_with(|| self.has_section.cmp(&other.has_section))
    }
}

fn nameless(policy: &Policy, labels: Labels, target: Option<TargetRef>) -> Policy {
    let body = Body { target, ..Body::default() };
    Policy { kind: policy.kind, mesh: policy.mesh.clone(), name: "".into(), labels: Arc::new(labels), body }
}

/// The first name in alphabetical order wins.
fn by_name(a: &Entry, b: &Entry) -> Ordering {
    b.policy.meta().display_name().cmp(a.policy.meta().display_name())
}

//! Policies that may select a partial proxy, without asking each.

use std::{
    any::Any,
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use super::{PartialProxy, Profile, Property, Requirements, narrowest, requirements};
use crate::{Policy, Shadow};

/// With more profiles of one kind, all are built again when they are asked for: one that is not in use costs every change.
const MOST_PROFILES: usize = 256;

/// Policies that may select a partial proxy.
#[derive(Debug)]
pub struct Possible {
    /// They require only properties that are not known, so none of them certainly selects it. All partial proxies with the
    /// same properties share the group while its policies stay the same.
    pub group: Arc<PolicyGroup>,
    /// The others. Some may certainly select it.
    pub others: Vec<Arc<Policy>>,
}

/// Policies that many proxies share, with a value that follows from them.
#[derive(Debug, Default)]
pub struct PolicyGroup {
    policies: Vec<Arc<Policy>>,
    derived: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl PolicyGroup {
    pub fn policies(&self) -> &[Arc<Policy>] {
        &self.policies
    }

    /// The value that `derive` computes from the policies alone. All readers of one kind of policies derive the same type, so
    /// it is computed once.
    pub fn derived<T: Any + Send + Sync>(&self, derive: impl Fn(&[Arc<Policy>]) -> T) -> Arc<T> {
        let derived = self.derived.get_or_init(|| Arc::new(derive(&self.policies)));
        derived.clone().downcast().unwrap_or_else(|_| Arc::new(derive(&self.policies)))
    }
}

/// Policies of each kind by the profiles that were asked for.
#[derive(Default)]
pub(crate) struct PossiblePolicies(Mutex<BTreeMap<&'static str, ByProfile>>);

type ByProfile = BTreeMap<Asked, Candidates>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    with_shadow: bool,
    profile: Profile,
}

/// Policies of one kind, for proxies with the same known properties.
#[derive(Default)]
struct Candidates {
    /// Those that require only properties which are not known.
    grouped: Numbered,
    group: OnceLock<Arc<PolicyGroup>>,
    by_property: HashMap<(Property, String), Numbered>,
    /// Those that require no value of a known property.
    others: Numbered,
}

/// Policies by the number of the index, which changes with every change of the policy.
type Numbered = BTreeMap<u64, Arc<Policy>>;

impl PossiblePolicies {
    /// Policies of a kind that may select the proxy, and the number of policies that were looked at for that. `all` are the
    /// policies of the kind.
    pub(crate) fn possible<'a, I: Iterator<Item = (u64, &'a Arc<Policy>)>>(
        &self,
        kind: &'static str,
        proxy: &PartialProxy,
        shadow: Shadow,
        all: impl FnOnce() -> I,
    ) -> (Possible, usize) {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_kind = kinds.entry(kind).or_default();
        let asked = Asked { with_shadow: shadow == Shadow::Included, profile: proxy.profile() };
        let mut looked_at = 0;
        if !of_kind.contains_key(&asked) {
            if of_kind.len() >= MOST_PROFILES {
                of_kind.clear();
            }
            let mut new = Candidates::default();
            for (number, policy) in all() {
                looked_at += 1;
                new.insert(&asked, number, policy);
            }
            of_kind.insert(asked.clone(), new);
        }
        let Candidates { grouped, group, by_property, others } = &of_kind[&asked];
        let group = group.get_or_init(|| {
            looked_at += grouped.len();
            Arc::new(PolicyGroup { policies: grouped.values().cloned().collect(), derived: OnceLock::new() })
        });
        let pairs = proxy.0.iter().map(|(property, value)| (property.clone(), value.clone()));
        let narrowed = pairs.filter_map(|pair| by_property.get(&pair)).flatten();
        let compared: BTreeMap<&u64, &Arc<Policy>> = narrowed.chain(others).collect();
        looked_at += compared.len();
        let others = compared.into_values().filter(|policy| proxy.may_be_selected(policy.body.target.as_ref()));
        (Possible { group: group.clone(), others: others.cloned().collect() }, looked_at)
    }

    pub(crate) fn insert(&mut self, kind: &'static str, number: u64, policy: &Arc<Policy>) {
        for (asked, candidates) in self.of_kind(kind) {
            candidates.insert(asked, number, policy);
        }
    }

    pub(crate) fn remove(&mut self, kind: &'static str, number: u64, policy: &Policy) {
        for (asked, candidates) in self.of_kind(kind) {
            candidates.remove(asked, number, policy);
        }
    }

    fn of_kind(&mut self, kind: &'static str) -> impl Iterator<Item = (&Asked, &mut Candidates)> {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).get_mut(kind).into_iter().flatten()
    }
}

impl Candidates {
    fn insert(&mut self, asked: &Asked, number: u64, policy: &Arc<Policy>) {
        self.change(asked, policy, |policies| drop(policies.insert(number, policy.clone())));
    }

    fn remove(&mut self, asked: &Asked, number: u64, policy: &Policy) {
        self.change(asked, policy, |policies| drop(policies.remove(&number)));
    }

    /// Changes the policies among which this one is.
    fn change(&mut self, Asked { with_shadow, profile }: &Asked, policy: &Policy, change: impl FnOnce(&mut Numbered)) {
        if policy.meta().is_shadow() && !with_shadow {
            return;
        }
        let Some(required) = requirements(policy.body.target.as_ref()) else { return };
        if is_unknown(&required, profile) {
            self.group = OnceLock::new();
            change(&mut self.grouped);
        } else if let Some((property, value)) = narrowest(&required, profile) {
            let pair = (property.clone(), value.clone());
            let policies = self.by_property.entry(pair.clone()).or_default();
            change(policies);
            if policies.is_empty() {
                self.by_property.remove(&pair);
            }
        } else {
            change(&mut self.others);
        }
    }
}

/// Whether it is unknown of each required property whether proxies with the profile have it. A target without requirements
/// selects proxies whatever properties they have.
fn is_unknown(required: &Requirements, profile: &Profile) -> bool {
    !required.is_empty() && required.keys().all(|property| !profile.contains(property))
}

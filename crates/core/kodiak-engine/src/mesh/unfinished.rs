//! Work of a mesh that can wait for more urgent changes.
//!
//! A changed timeout of the whole mesh concerns all its classes and proxies. It is worked off in parts, so that an endpoint,
//! a permission or a certificate that changes meanwhile is published at once.
//!
//! **Invariant:** who may call whom, endpoints, certificates and steps of a rollout never wait here.
//! **Invariant:** what is published is as if the policies that wait had not changed yet, for whole classes and proxies.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use kodiak_rules::policy_index::PolicyKey;

use super::{Mesh, rules_of};
use crate::{
    classes::ClassId,
    engine::UpdateContext,
    proxy::Stale,
    target::{Target, Targets},
};

#[derive(Default)]
pub(super) struct Unfinished {
    classes: BTreeMap<ClassId, UnfinishedClass>,
    proxies: BTreeMap<Arc<str>, Stale>,
}

/// Changes that a class does not have yet.
#[derive(Default)]
struct UnfinishedClass {
    policies: BTreeSet<PolicyKey>,
    targets: Targets,
}

impl Unfinished {
    pub(super) fn is_empty(&self) -> bool {
        let Self { classes, proxies } = self;
        classes.is_empty() && proxies.is_empty()
    }

    /// Policies of a class changed, with the targets that their old and new items select.
    pub(super) fn add_policy(&mut self, class: ClassId, policy: &PolicyKey, targets: &Targets) {
        let unfinished = self.classes.entry(class).or_default();
        unfinished.policies.insert(policy.clone());
        unfinished.targets.extend(targets.clone());
    }

    /// Targets of a class were planned without the policies that it does not have yet.
    pub(super) fn touched(&mut self, class: ClassId, targets: &BTreeSet<Target>) {
        if let Some(unfinished) = self.classes.get_mut(&class) {
            unfinished.targets.extend(Targets::Some(targets.clone()));
        }
    }

    pub(super) fn add_proxy(&mut self, name: &Arc<str>, stale: Stale) {
        match self.proxies.entry(name.clone()) {
            Entry::Vacant(entry) => drop(entry.insert(stale)),
            Entry::Occupied(mut entry) => *entry.get_mut() = stale.max(*entry.get()),
        }
    }

    /// So much of the proxy is updated now. What needs more still waits.
    pub(super) fn updated(&mut self, name: &str, stale: Stale) {
        if self.proxies.get(name).is_some_and(|waiting| *waiting <= stale) {
            self.proxies.remove(name);
        }
    }

    pub(super) fn disconnected(&mut self, name: &str) {
        self.proxies.remove(name);
    }
}

impl Mesh {
    pub(crate) fn has_unfinished(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// Targets of a class that it plans without the newest version of a policy.
    pub(super) fn unfinished_targets(&self, class: ClassId) -> Targets {
        let Some(UnfinishedClass { policies, targets }) = self.unfinished.classes.get(&class) else {
            return Targets::default();
        };
        let mut all = targets.clone();
        // Destinations that came meanwhile may be selected, too.
        for policy in policies.iter().filter_map(|key| self.policies.get(key)) {
            all.extend(Targets::of(policy, &self.objects));
        }
        all
    }

    /// Updates classes and proxies that wait, at most as many as the context allows. Returns the proxies that changed.
    pub(super) fn work_off(&mut self, context: &mut UpdateContext<'_>) -> BTreeSet<Arc<str>> {
        let mut changed = BTreeSet::new();
        while context.bulk > 0 && context.settings.cancellation.check().is_ok() {
            // Proxies first, so that the members of a class are published before the next class is built.
            if let Some((name, stale)) = self.unfinished.proxies.pop_first() {
                if let Some(class) = self.proxies.get(&name).and_then(|proxy| proxy.class) {
                    self.finish_class(class, context);
                }
                // It is a member of its class.
                self.unfinished.updated(&name, stale);
                context.bulk = context.bulk.saturating_sub(1);
                if self.update_proxy(&name, stale, &BTreeMap::new(), context) {
                    changed.insert(name);
                }
            } else if let Some(class) = self.unfinished.classes.first_key_value().map(|(class, _)| *class) {
                self.finish_class(class, context);
            } else {
                break;
            }
        }
        changed
    }

    /// Updates a class that waits. Its members wait then, if its resources changed.
    fn finish_class(&mut self, class: ClassId, context: &mut UpdateContext<'_>) {
        if !self.unfinished.classes.contains_key(&class) {
            return;
        }
        context.bulk = context.bulk.saturating_sub(1);
        let touched = self.unfinished_targets(class);
        self.unfinished.classes.remove(&class);
        let mut classes = std::mem::take(&mut self.classes);
        let from = self.sources(context.identities);
        let members = classes.change(class, |key, class| {
            class.rules = Arc::new(rules_of(&key.policies, &self.resources, self.view.resolution(), &self.policies));
            let is_changed = !touched.is_empty() && class.update(key, from, touched.touched(), context.cache);
            if is_changed { class.members.clone() } else { BTreeSet::new() }
        });
        self.classes = classes;
        for member in members.into_iter().flatten() {
            self.unfinished.add_proxy(&member, Stale::ClassResources);
        }
    }
}

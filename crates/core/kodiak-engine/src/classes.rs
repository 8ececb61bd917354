//! All classes of a mesh, indexed by the targets that affect them.
//!
//! **Invariant:** a class exists as long as it has members.
//! **Invariant:** a class that the index does not return for a target neither calls it nor could.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_reachability::SetId;

use crate::{class::Class, class_key::ClassKey, collections::Multimap, interest::Interest, target::Target};

/// Cheaper to compare than a [`ClassKey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassId(u64);

#[derive(Default)]
pub(crate) struct Classes {
    next: u64,
    ids: BTreeMap<Arc<ClassKey>, ClassId>,
    all: BTreeMap<ClassId, (Arc<ClassKey>, Class)>,
    /// Classes that any target may affect.
    any_target: BTreeSet<ClassId>,
    /// All others, by the targets that affect them.
    by_interest: Multimap<Interest, ClassId>,
    interests: BTreeMap<ClassId, BTreeSet<Interest>>,
    /// Classes that may call the destinations of a set.
    by_set: Multimap<SetId, ClassId>,
}

impl Classes {
    pub(crate) fn find(&self, key: &ClassKey) -> Option<ClassId> {
        self.ids.get(key).copied()
    }

    pub(crate) fn get(&self, id: ClassId) -> Option<(&Arc<ClassKey>, &Class)> {
        self.all.get(&id).map(|(key, class)| (key, class))
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ClassId> {
        self.all.keys().copied()
    }

    /// Classes that call one of the targets, or may from now on, each with the targets that affect it. `interests_in` are
    /// those that a destination meets, and `set_of` is its set.
    pub(crate) fn affected_by(
        &self,
        targets: &BTreeSet<Target>,
        interests_in: impl Fn(&Target) -> Vec<Interest>,
        set_of: impl Fn(&Target) -> Option<SetId>,
    ) -> BTreeMap<ClassId, BTreeSet<Target>> {
        if targets.is_empty() {
            return BTreeMap::new();
        }
        let mut affected: BTreeMap<ClassId, BTreeSet<Target>> =
            self.any_target.iter().map(|id| (*id, targets.clone())).collect();
        for target in targets {
            let permitted = set_of(target).and_then(|set| self.by_set.get(&set));
            let interests = interests_in(target);
            let interested = interests.iter().filter_map(|interest| self.by_interest.get(interest));
            for id in interested.chain(permitted).flatten() {
                affected.entry(*id).or_default().insert(target.clone());
            }
        }
        affected
    }

    /// A class without members stays until a member joins and leaves.
    pub(crate) fn insert(&mut self, key: Arc<ClassKey>, class: Class) -> ClassId {
        let id = ClassId(self.next);
        self.next += 1;
        self.ids.insert(key.clone(), id);
        for set in key.permitted.iter().flat_map(|sets| sets.iter()) {
            self.by_set.insert(*set, id);
        }
        self.all.insert(id, (key, class));
        self.reindex(id);
        id
    }

    /// Changes a class, and updates the index.
    pub(crate) fn change<T>(&mut self, id: ClassId, change: impl FnOnce(&ClassKey, &mut Class) -> T) -> Option<T> {
        let (key, class) = self.all.get_mut(&id)?;
        let done = change(&key.clone(), class);
        self.reindex(id);
        Some(done)
    }

    pub(crate) fn join(&mut self, id: ClassId, member: &Arc<str>) {
        if let Some((_, class)) = self.all.get_mut(&id) {
            class.members.insert(member.clone());
        }
    }

    pub(crate) fn leave(&mut self, id: ClassId, member: &Arc<str>) {
        let Some((key, class)) = self.all.get_mut(&id) else { return };
        class.members.remove(member);
        if class.members.is_empty() {
            let key = key.clone();
            self.ids.remove(&key);
            for set in key.permitted.iter().flat_map(|sets| sets.iter()) {
                self.by_set.remove(set, &id);
            }
            self.unindex(id);
            self.any_target.remove(&id);
            self.all.remove(&id);
        }
    }

    fn reindex(&mut self, id: ClassId) {
        let Some((key, class)) = self.all.get(&id) else { return };
        let interests = class.interests(key);
        let unchanged = match &interests {
            Some(interests) => self.interests.get(&id) == Some(interests),
            None => self.any_target.contains(&id),
        };
        if unchanged {
            return;
        }
        self.unindex(id);
        match interests {
            None => drop(self.any_target.insert(id)),
            Some(interests) => {
                self.any_target.remove(&id);
                for interest in &interests {
                    self.by_interest.insert(interest.clone(), id);
                }
                self.interests.insert(id, interests);
            }
        }
    }

    fn unindex(&mut self, id: ClassId) {
        for interest in self.interests.remove(&id).unwrap_or_default() {
            self.by_interest.remove(&interest, &id);
        }
    }
}

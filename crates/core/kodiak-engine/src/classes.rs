//! All classes of a mesh, and which of them a change of a target concerns.
//!
//! **Invariant:** a class is there as long as it has members.
//! **Invariant:** a class that is not told of a target neither calls it nor could.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{class::Class, class_key::ClassKey, collections::Multimap, target::Target};

/// Cheaper to compare than what it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassId(u64);

#[derive(Default)]
pub(crate) struct Classes {
    next: u64,
    ids: BTreeMap<Arc<ClassKey>, ClassId>,
    all: BTreeMap<ClassId, (Arc<ClassKey>, Class)>,
    /// Those that any target may concern.
    open: BTreeSet<ClassId>,
    /// All others, by the targets that concern them.
    by_target: Multimap<Target, ClassId>,
    interests: BTreeMap<ClassId, BTreeSet<Target>>,
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

    /// Those that call one of these, or may from now on, each with what concerns it.
    pub(crate) fn concerned(&self, targets: &BTreeSet<Target>) -> BTreeMap<ClassId, BTreeSet<Target>> {
        if targets.is_empty() {
            return BTreeMap::new();
        }
        let mut concerned: BTreeMap<ClassId, BTreeSet<Target>> =
            self.open.iter().map(|id| (*id, targets.clone())).collect();
        for target in targets {
            for id in self.by_target.get(target).into_iter().flatten() {
                concerned.entry(*id).or_default().insert(target.clone());
            }
        }
        concerned
    }

    /// Without members it stays until one comes and goes.
    pub(crate) fn insert(&mut self, key: Arc<ClassKey>, class: Class) -> ClassId {
        let id = ClassId(self.next);
        self.next += 1;
        self.ids.insert(key.clone(), id);
        self.all.insert(id, (key, class));
        self.follow(id);
        id
    }

    /// Changes a class. What it is concerned by may be something else then.
    pub(crate) fn change<T>(&mut self, id: ClassId, change: impl FnOnce(&ClassKey, &mut Class) -> T) -> Option<T> {
        let (key, class) = self.all.get_mut(&id)?;
        let done = change(&key.clone(), class);
        self.follow(id);
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
            self.ids.remove(key);
            self.forget(id);
            self.open.remove(&id);
            self.all.remove(&id);
        }
    }

    fn follow(&mut self, id: ClassId) {
        let Some((key, class)) = self.all.get(&id) else { return };
        let interest = class.interest(key);
        let unchanged = match &interest {
            Some(targets) => self.interests.get(&id) == Some(targets),
            None => self.open.contains(&id),
        };
        if unchanged {
            return;
        }
        self.forget(id);
        match interest {
            None => drop(self.open.insert(id)),
            Some(targets) => {
                self.open.remove(&id);
                for target in &targets {
                    self.by_target.insert(target.clone(), id);
                }
                self.interests.insert(id, targets);
            }
        }
    }

    fn forget(&mut self, id: ClassId) {
        for target in self.interests.remove(&id).unwrap_or_default() {
            self.by_target.remove(&target, &id);
        }
    }
}

//! Sets of identities, each with the destinations that exactly these may call.
//!
//! A set is known by the permissions that it follows from. When identities come and go, it stays the same set with other
//! members, so clients of the same destinations need not be told.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{IdentityId, IdentitySet, permissions::PermissionsId};

/// Sets with more members are not indexed by member: the index would grow with clients times destinations. A client
/// looks at each of them instead.
const INDEXED: u64 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId(u32);

/// Origin of a set. Callers that one of the permissions admits are members.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Origin {
    /// All callers, now and later.
    Everybody,
    By(BTreeSet<PermissionsId>),
}

pub(crate) struct Sets<D> {
    known: BTreeMap<SetId, Set<D>>,
    by_origin: HashMap<Origin, SetId>,
    by_permissions: BTreeMap<PermissionsId, BTreeSet<SetId>>,
    /// Sets that list few identities, by identity.
    by_member: BTreeMap<IdentityId, BTreeSet<SetId>>,
    /// All other sets.
    broad: BTreeSet<SetId>,
    next: u32,
}

struct Set<D> {
    origin: Origin,
    members: IdentitySet,
    destinations: BTreeSet<D>,
}

impl<D> Default for Sets<D> {
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
            by_origin: HashMap::new(),
            by_permissions: BTreeMap::new(),
            by_member: BTreeMap::new(),
            broad: BTreeSet::new(),
            next: 0,
        }
    }
}

impl<D: Ord + Clone> Sets<D> {
    pub(crate) fn find(&self, origin: &Origin) -> Option<SetId> {
        self.by_origin.get(origin).copied()
    }

    pub(crate) fn origin(&self, id: SetId) -> &Origin {
        &self.known[&id].origin
    }

    pub(crate) fn members(&self, id: SetId) -> &IdentitySet {
        &self.known[&id].members
    }

    pub(crate) fn destinations(&self, id: SetId) -> Option<&BTreeSet<D>> {
        self.known.get(&id).map(|set| &set.destinations)
    }

    /// Sets that follow from these permissions, among others.
    pub(crate) fn following(&self, permissions: PermissionsId) -> impl Iterator<Item = SetId> + '_ {
        self.by_permissions.get(&permissions).into_iter().flatten().copied()
    }

    pub(crate) fn create(&mut self, origin: Origin, members: IdentitySet) -> SetId {
        let id = SetId(self.next);
        self.next += 1;
        self.known.insert(id, Set { origin, members, destinations: BTreeSet::new() });
        self.index(id);
        id
    }

    /// Gives the set another origin, and the members that follow from it.
    pub(crate) fn replace(&mut self, id: SetId, origin: Origin, members: IdentitySet) {
        self.unindex(id);
        if let Some(set) = self.known.get_mut(&id) {
            (set.origin, set.members) = (origin, members);
        }
        self.index(id);
    }

    pub(crate) fn add(&mut self, id: SetId, destination: &D) {
        if let Some(set) = self.known.get_mut(&id) {
            set.destinations.insert(destination.clone());
        }
    }

    /// Returns the members of the set if that was its last destination: then it is gone.
    pub(crate) fn remove(&mut self, id: SetId, destination: &D) -> Option<IdentitySet> {
        let set = self.known.get_mut(&id)?;
        set.destinations.remove(destination);
        if !set.destinations.is_empty() {
            return None;
        }
        self.unindex(id);
        self.known.remove(&id).map(|set| set.members)
    }

    /// Whether it has this destination and no other.
    pub(crate) fn is_only(&self, id: SetId, destination: &D) -> bool {
        self.destinations(id).is_some_and(|all| all.len() == 1 && all.contains(destination))
    }

    /// Adds or removes one member.
    pub(crate) fn set_member(&mut self, id: SetId, identity: IdentityId, is_member: bool) {
        let Some(set) = self.known.get_mut(&id).filter(|set| set.members.contains(identity) != is_member) else {
            return;
        };
        let was_listed = lists_few(&set.members);
        set.members.set(identity, is_member);
        if was_listed != lists_few(&set.members) {
            // Rebuilds the index as it was, then as it is.
            set.members.set(identity, !is_member);
            self.unindex(id);
            if let Some(set) = self.known.get_mut(&id) {
                set.members.set(identity, is_member);
            }
            self.index(id);
        } else if was_listed && is_member {
            self.by_member.entry(identity).or_default().insert(id);
        } else if was_listed {
            take(&mut self.by_member, &identity, id);
        }
    }

    /// Sets that contain the identity.
    pub(crate) fn of(&self, identity: IdentityId) -> impl Iterator<Item = SetId> + '_ {
        let listed = self.by_member.get(&identity).into_iter().flatten();
        let broad = self.broad.iter().filter(move |set| self.members(**set).contains(identity));
        listed.chain(broad).copied()
    }

    /// Sets that contain identities which they do not name.
    pub(crate) fn for_all_callers(&self) -> impl Iterator<Item = SetId> + '_ {
        self.broad.iter().copied().filter(|set| matches!(self.members(*set), IdentitySet::AllBut(_)))
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.known.values().map(|set| set.members.bytes()).sum()
    }

    fn index(&mut self, id: SetId) {
        let Some(set) = self.known.get(&id) else { return };
        self.by_origin.insert(set.origin.clone(), id);
        if let Origin::By(all) = &set.origin {
            for permissions in all {
                self.by_permissions.entry(*permissions).or_default().insert(id);
            }
        }
        match &set.members {
            IdentitySet::Only(some) if lists_few(&set.members) => {
                for member in some.iter() {
                    self.by_member.entry(IdentityId(member)).or_default().insert(id);
                }
            }
            _ => drop(self.broad.insert(id)),
        }
    }

    fn unindex(&mut self, id: SetId) {
        let Some(set) = self.known.get(&id) else { return };
        self.by_origin.remove(&set.origin);
        if let Origin::By(all) = &set.origin {
            for permissions in all {
                take(&mut self.by_permissions, permissions, id);
            }
        }
        match &set.members {
            IdentitySet::Only(some) if lists_few(&set.members) => {
                for member in some.iter() {
                    take(&mut self.by_member, &IdentityId(member), id);
                }
            }
            _ => drop(self.broad.remove(&id)),
        }
    }
}

fn lists_few(members: &IdentitySet) -> bool {
    matches!(members, IdentitySet::Only(some) if some.len() <= INDEXED)
}

fn take<K: Ord>(index: &mut BTreeMap<K, BTreeSet<SetId>>, key: &K, id: SetId) {
    let Some(sets) = index.get_mut(key) else { return };
    sets.remove(&id);
    if sets.is_empty() {
        index.remove(key);
    }
}

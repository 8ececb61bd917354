//! Distinct sets of identities, with the destinations that each of them may call.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{IdentityId, IdentitySet};

/// Sets with more members are not indexed by member: the index would grow with clients times destinations. A client
/// looks at each of them instead.
const INDEXED: u64 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId(u32);

pub(crate) struct Sets<D> {
    known: BTreeMap<SetId, (IdentitySet, BTreeSet<D>)>,
    by_content: HashMap<Content, SetId>,
    /// Sets that list few identities, by identity.
    by_member: BTreeMap<IdentityId, BTreeSet<SetId>>,
    /// All other sets.
    broad: BTreeSet<SetId>,
    next: u32,
}

/// Whether it is "all but", and the identities that it names.
type Content = (bool, Vec<u8>);

impl<D> Default for Sets<D> {
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
            by_content: HashMap::new(),
            by_member: BTreeMap::new(),
            broad: BTreeSet::new(),
            next: 0,
        }
    }
}

impl<D: Ord + Clone> Sets<D> {
    pub(crate) fn get(&self, id: SetId) -> &IdentitySet {
        &self.known[&id].0
    }

    pub(crate) fn destinations(&self, id: SetId) -> &BTreeSet<D> {
        &self.known[&id].1
    }

    pub(crate) fn insert(&mut self, set: IdentitySet, destination: &D) -> SetId {
        let content = content(&set);
        if let Some(id) = self.by_content.get(&content).copied() {
            if let Some((_, destinations)) = self.known.get_mut(&id) {
                destinations.insert(destination.clone());
            }
            return id;
        }
        let id = SetId(self.next);
        self.next += 1;
        match members(&set) {
            Some(members) => {
                for member in members {
                    self.by_member.entry(member).or_default().insert(id);
                }
            }
            None => drop(self.broad.insert(id)),
        }
        self.by_content.insert(content, id);
        self.known.insert(id, (set, [destination.clone()].into()));
        id
    }

    pub(crate) fn remove(&mut self, id: SetId, destination: &D) {
        let Some((set, destinations)) = self.known.get_mut(&id) else { return };
        destinations.remove(destination);
        if !destinations.is_empty() {
            return;
        }
        for member in members(set).into_iter().flatten() {
            let Some(sets) = self.by_member.get_mut(&member) else { continue };
            sets.remove(&id);
            if sets.is_empty() {
                self.by_member.remove(&member);
            }
        }
        self.broad.remove(&id);
        self.by_content.remove(&content(set));
        self.known.remove(&id);
    }

    /// Sets that contain the identity.
    pub(crate) fn of(&self, id: IdentityId) -> impl Iterator<Item = SetId> + '_ {
        let listed = self.by_member.get(&id).into_iter().flatten();
        let broad = self.broad.iter().filter(move |set| self.get(**set).contains(id));
        listed.chain(broad).copied()
    }

    /// Sets that contain identities which they do not name.
    pub(crate) fn for_all_callers(&self) -> impl Iterator<Item = SetId> + '_ {
        self.broad.iter().copied().filter(|set| matches!(self.get(*set), IdentitySet::AllBut(_)))
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.known.values().map(|(set, _)| set.bytes()).sum()
    }
}

fn members(set: &IdentitySet) -> Option<Vec<IdentityId>> {
    match set {
        IdentitySet::Only(some) if some.len() <= INDEXED => Some(some.iter().map(IdentityId).collect()),
        IdentitySet::Only(_) | IdentitySet::AllBut(_) => None,
    }
}

fn content(set: &IdentitySet) -> Content {
    let (is_all_but, some) = match set {
        IdentitySet::Only(some) => (false, some),
        IdentitySet::AllBut(some) => (true, some),
    };
    let mut bytes = Vec::with_capacity(some.serialized_size());
    some.serialize_into(&mut bytes).expect("a vector takes all bytes");
    (is_all_but, bytes)
}

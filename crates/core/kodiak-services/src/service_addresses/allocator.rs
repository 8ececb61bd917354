//! The allocator of all virtual addresses: those in use, and the allocation of new ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use super::{
    Ranges,
    pools::{Pools, Positions},
    tag_pool::TagPool,
};
use crate::{
    hostnames::ServiceKey,
    vips::{Assignment, Vips},
};

/// Destinations have addresses that are unique in all meshes; `kuma.io/service` names have addresses that are unique in
/// their mesh, and that no destination has. So a proxy finds at most one owner behind an address.
#[derive(Debug, Clone)]
pub struct AddressAllocator {
    ranges: Ranges,
    pools: Pools,
    /// By mesh.
    tag_pools: BTreeMap<Arc<str>, TagPool>,
    /// Addresses of destinations, with the number of those that have them: users can store any address in a status.
    destinations: BTreeMap<Ipv4Addr, usize>,
    /// Addresses of `kuma.io/service` names, with the number of meshes that have them.
    tags: BTreeMap<Ipv4Addr, usize>,
    /// Allocated for destinations but not yet stored: a failed write is retried with the same address.
    given: BTreeMap<ServiceKey, Ipv4Addr>,
    /// Owners without an address because their range is exhausted.
    waiting: FreedAddresses,
    /// Stored positions.
    stored: Option<Positions>,
}

/// Owners that may get an address now: their range was exhausted, and an address was released.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FreedAddresses {
    pub destinations: BTreeSet<ServiceKey>,
    /// Meshes with `kuma.io/service` names.
    pub meshes: BTreeSet<Arc<str>>,
}

impl AddressAllocator {
    pub fn new(ranges: Ranges) -> Self {
        Self {
            ranges,
            pools: Pools::new(ranges),
            tag_pools: BTreeMap::new(),
            destinations: BTreeMap::new(),
            tags: BTreeMap::new(),
            given: BTreeMap::new(),
            waiting: FreedAddresses::default(),
            stored: None,
        }
    }

    /// Continues after the stored positions.
    pub fn resume(&mut self, positions: Positions) {
        self.pools.resume(&positions);
        self.stored = Some(positions);
    }

    /// Positions to store together with the allocated addresses, so that the next leader continues after them, and so
    /// that nobody else stores one of them at the same time.
    pub fn unsaved_positions(&self) -> Option<Positions> {
        let writes = self.stored.as_ref().map_or(0, |stored| stored.writes) + 1;
        (!self.given.is_empty()).then(|| Positions { writes, ..self.pools.position() })
    }

    /// Releases the addresses of destinations that are not stored. Called when another control plane wrote the
    /// positions: it may have allocated the same addresses.
    pub fn take_back(&mut self) -> BTreeSet<ServiceKey> {
        let given = std::mem::take(&mut self.given);
        for address in given.values() {
            self.release_destination(*address);
        }
        given.into_keys().collect()
    }

    /// Replaces the stored addresses of a destination. `after` is `None` when it was deleted.
    pub fn set_destination(
        &mut self,
        key: &ServiceKey,
        before: impl IntoIterator<Item = Ipv4Addr>,
        after: Option<BTreeSet<Ipv4Addr>>,
    ) -> FreedAddresses {
        let is_settled = after.as_ref().is_none_or(|held| !held.is_empty());
        let given = if is_settled { self.given.remove(key) } else { None };
        let (before, held): (BTreeSet<_>, _) = (before.into_iter().collect(), after.unwrap_or_default());
        for address in held.difference(&before) {
            *self.destinations.entry(*address).or_default() += 1;
            self.pools.reserve(*address);
        }
        let mut freed = false;
        for address in before.difference(&held).copied().chain(given) {
            freed |= self.release_destination(address);
        }
        self.waiting.destinations.remove(key);
        if freed { std::mem::take(&mut self.waiting) } else { FreedAddresses::default() }
    }

    /// Allocates an address for a destination without one. `None` when the range is exhausted.
    pub fn give(&mut self, key: &ServiceKey) -> Option<Ipv4Addr> {
        if let Some(address) = self.given.get(key) {
            return Some(*address);
        }
        let Some(address) = self.pools.take(key.kind, |address| !self.tags.contains_key(&address)) else {
            self.waiting.destinations.insert(key.clone());
            return None;
        };
        *self.destinations.entry(address).or_default() += 1;
        self.given.insert(key.clone(), address);
        Some(address)
    }

    /// Replaces the stored addresses of the `kuma.io/service` names of a mesh.
    pub fn set_vips(&mut self, mesh: &Arc<str>, before: Option<&Vips>, after: Option<&Vips>) -> FreedAddresses {
        let known = self.tag_pools.entry(mesh.clone()).or_insert_with(|| TagPool::new(&self.ranges));
        // Another control plane may have stored other addresses for the same names, or these addresses for others.
        let given = std::mem::take(&mut known.given);
        let addresses = |vips: Option<&Vips>| -> BTreeSet<_> {
            vips.into_iter().flat_map(Vips::iter).map(|(_, address)| address).collect()
        };
        let (before, held) = (addresses(before), addresses(after));
        for address in held.difference(&before) {
            *self.tags.entry(*address).or_default() += 1;
            known.pool.reserve(*address);
        }
        let mut freed = false;
        for address in given.values().filter(|address| !held.contains(address)) {
            known.pool.release(*address);
            freed = true;
        }
        for address in before.difference(&held) {
            known.pool.release(*address);
            freed = true;
        }
        for address in given.into_values().chain(before.difference(&held).copied()) {
            release(&mut self.tags, address);
        }
        match after {
            Some(after) => known.resume(after.next),
            None => _ = self.tag_pools.remove(mesh),
        }
        self.waiting.meshes.remove(mesh);
        if freed { std::mem::take(&mut self.waiting) } else { FreedAddresses::default() }
    }

    /// Desired addresses of the `kuma.io/service` names of a mesh, given the stored ones. A name keeps its address for
    /// the time `keep` after its last Dataplane was deleted.
    pub fn assign<'a>(
        &mut self,
        mesh: &Arc<str>,
        stored: &Vips,
        names: impl Iterator<Item = &'a Arc<str>> + Clone,
        now: Timestamp,
        keep: SignedDuration,
    ) -> Assignment {
        let mut assignment = stored.retain(&names.clone().map(|name| &**name).collect(), now, keep);
        for name in names.filter(|name| stored.get(name).is_none()) {
            match self.give_tag(mesh, name) {
                Some(address) => assignment.vips.insert(name, address),
                None => assignment.without_address.push(name.clone()),
            }
        }
        if let Some(known) = self.tag_pools.get(mesh).filter(|known| !known.given.is_empty()) {
            assignment.vips.next = known.next();
        }
        assignment
    }

    fn give_tag(&mut self, mesh: &Arc<str>, name: &Arc<str>) -> Option<Ipv4Addr> {
        let known = self.tag_pools.entry(mesh.clone()).or_insert_with(|| TagPool::new(&self.ranges));
        if let Some(address) = known.given.get(name) {
            return Some(*address);
        }
        let Some(address) = known.pool.take(|address| !self.destinations.contains_key(&address)) else {
            self.waiting.meshes.insert(mesh.clone());
            return None;
        };
        *self.tags.entry(address).or_default() += 1;
        known.given.insert(name.clone(), address);
        Some(address)
    }

    /// Returns whether it is free now.
    fn release_destination(&mut self, address: Ipv4Addr) -> bool {
        let is_free = release(&mut self.destinations, address);
        if is_free {
            self.pools.release(address);
        }
        is_free
    }
}

/// Returns whether nobody has the address any more.
fn release(holders: &mut BTreeMap<Ipv4Addr, usize>, address: Ipv4Addr) -> bool {
    let Some(count) = holders.get_mut(&address) else { return true };
    *count -= 1;
    let is_free = *count == 0;
    if is_free {
        holders.remove(&address);
    }
    is_free
}

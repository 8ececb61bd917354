//! Which virtual addresses services have, and which they are to get.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use super::facts::Stored;
use crate::{
    hostnames::ServiceKey,
    service_addresses::{Pools, Positions, Ranges},
};

pub(super) struct Addresses {
    pools: Pools,
    /// Given out, and not yet seen with the service: a write that failed is tried again with the same address.
    given: BTreeMap<ServiceKey, Ipv4Addr>,
    /// There was none left for them.
    waiting: BTreeSet<ServiceKey>,
    /// The positions as they are stored.
    stored: Option<Positions>,
}

impl Addresses {
    pub(super) fn new(ranges: Ranges) -> Self {
        Self { pools: Pools::new(ranges), given: BTreeMap::new(), waiting: BTreeSet::new(), stored: None }
    }

    pub(super) fn resume(&mut self, positions: Positions) {
        self.pools.resume(&positions);
        self.stored = Some(positions);
    }

    /// The positions are somebody else's: what was given out and is not stored may have been given out there too.
    pub(super) fn take_back(&mut self) -> BTreeSet<ServiceKey> {
        for (key, address) in &self.given {
            self.pools.release(key.kind, *address);
        }
        std::mem::take(&mut self.given).into_keys().collect()
    }

    /// How a service was stored, and how it is. Comes back with those that may get an address now, if none was left.
    pub(super) fn set(
        &mut self,
        key: &ServiceKey,
        before: Option<&Stored>,
        after: Option<&Stored>,
    ) -> BTreeSet<ServiceKey> {
        let held: BTreeSet<Ipv4Addr> = after.into_iter().flat_map(Stored::addresses).collect();
        let given = if after.is_none() || !held.is_empty() { self.given.remove(key) } else { None };
        let mut freed = false;
        for address in before.into_iter().flat_map(Stored::addresses).chain(given) {
            if !held.contains(&address) {
                self.pools.release(key.kind, address);
                freed = true;
            }
        }
        for address in held {
            self.pools.reserve(key.kind, address);
        }
        self.waiting.remove(key);
        if freed { std::mem::take(&mut self.waiting) } else { BTreeSet::new() }
    }

    /// For a service that has none.
    pub(super) fn give(&mut self, key: &ServiceKey) -> Option<Ipv4Addr> {
        if let Some(address) = self.given.get(key) {
            return Some(*address);
        }
        let Some(address) = self.pools.take(key.kind) else {
            self.waiting.insert(key.clone());
            return None;
        };
        self.given.insert(key.clone(), address);
        Some(address)
    }

    /// To be stored before what was given out is: who leads next then goes on behind it.
    pub(super) fn unsaved(&self) -> Option<Positions> {
        let position = self.pools.position();
        (!self.given.is_empty() && self.stored.as_ref() != Some(&position)).then_some(position)
    }
}

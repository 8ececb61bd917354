//! Virtual addresses of services: those in use, and the allocation of new ones.

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
    /// Allocated but not yet stored: a failed write is retried with the same address.
    given: BTreeMap<ServiceKey, Ipv4Addr>,
    /// Services without an address because their range is exhausted.
    waiting: BTreeSet<ServiceKey>,
    /// Stored positions.
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

    /// Called when another control plane wrote the positions: it may have allocated the same unstored addresses.
    pub(super) fn take_back(&mut self) -> BTreeSet<ServiceKey> {
        for (key, address) in &self.given {
            self.pools.release(key.kind, *address);
        }
        std::mem::take(&mut self.given).into_keys().collect()
    }

    /// Updates the addresses of a service. Returns services that may get an address now, if the range was exhausted.
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

    /// Allocates an address for a service without one.
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

    /// Positions to store before the allocated addresses, so that the next leader continues after them.
    pub(super) fn unsaved(&self) -> Option<Positions> {
        let position = self.pools.position();
        (!self.given.is_empty() && self.stored.as_ref() != Some(&position)).then_some(position)
    }
}

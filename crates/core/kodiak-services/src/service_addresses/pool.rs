//! Address pool of one range.
//!
//! **Invariant:** operations are logarithmic in the number of runs, whatever the number of addresses in use.

use std::{collections::BTreeMap, net::Ipv4Addr};

use super::Cidr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pool {
    range: Cidr,
    /// Position at which the search for a free address starts.
    next: u32,
    /// Runs of addresses in use, by first and last. Between two runs at least one address is free.
    runs: BTreeMap<u32, u32>,
}

impl Pool {
    pub(super) fn new(range: Cidr) -> Self {
        Self { range, next: range.first().to_bits(), runs: BTreeMap::new() }
    }

    pub(super) fn reserve(&mut self, address: Ipv4Addr) {
        let address_bits = address.to_bits();
        if !self.range.contains(address) || self.run_of(address_bits).is_some() {
            return;
        }
        let before = address_bits.checked_sub(1).and_then(|before| self.run_of(before));
        let after = address_bits.checked_add(1).and_then(|after| self.runs.remove(&after));
        let first = before.map_or(address_bits, |(first, _)| first);
        self.runs.insert(first, after.unwrap_or(address_bits));
    }

    pub(super) fn release(&mut self, address: Ipv4Addr) {
        let address = address.to_bits();
        let Some((first, last)) = self.run_of(address) else { return };
        self.runs.remove(&first);
        if first < address {
            self.runs.insert(first, address - 1);
        }
        if address < last {
            self.runs.insert(address + 1, last);
        }
    }

    /// Searches upwards, and wraps around.
    pub(super) fn take(&mut self) -> Option<Ipv4Addr> {
        let address = self.free_from(self.next).or_else(|| self.free_from(self.range.first().to_bits()))?;
        self.reserve(address);
        let behind = if address == self.range.last() { self.range.first().to_bits() } else { address.to_bits() + 1 };
        self.next = behind;
        Some(address)
    }

    pub(super) fn position(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.next)
    }

    pub(super) fn resume(&mut self, position: Ipv4Addr) {
        if self.range.contains(position) {
            self.next = position.to_bits();
        }
    }

    /// First free address from `from` on.
    fn free_from(&self, start: u32) -> Option<Ipv4Addr> {
        let free = self.run_of(start).map_or(Some(start), |(_, last)| last.checked_add(1))?;
        Some(Ipv4Addr::from_bits(free)).filter(|free| self.range.contains(*free))
    }

    /// The first and the last of the run that an address is in.
    fn run_of(&self, address: u32) -> Option<(u32, u32)> {
        let (first, last) = self.runs.range(..=address).next_back()?;
        (address <= *last).then_some((*first, *last))
    }
}

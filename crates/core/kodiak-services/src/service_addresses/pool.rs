//! Address pool of one range.
//!
//! **Invariant:** operations are logarithmic in the number of runs, whatever the number of addresses in use.

use std::{collections::BTreeMap, net::Ipv4Addr};

use kodiak_model::Cidr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pool {
    range: Cidr,
    /// Parts of the range that belong to other pools.
    holes: Vec<Cidr>,
    /// Position at which the search for a free address starts.
    next: u32,
    /// Runs of addresses in use, by first and last. Between two runs at least one address is free.
    runs: BTreeMap<u32, u32>,
}

impl Pool {
    pub(super) fn new(range: Cidr) -> Self {
        Self { range, holes: Vec::new(), next: range.first().to_bits(), runs: BTreeMap::new() }
    }

    /// Without these parts of the range.
    pub(super) fn without(range: Cidr, holes: Vec<Cidr>) -> Self {
        Self { holes, ..Self::new(range) }
    }

    /// Addresses outside of the range, of an earlier setting, are ignored.
    pub(super) fn reserve(&mut self, address: Ipv4Addr) {
        let address_bits = address.to_bits();
        if !self.contains(address) || self.run_of(address_bits).is_some() {
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

    /// Searches upwards, and wraps around. `is_free` says whether an address is free in the other pools, too.
    pub(super) fn take(&mut self, is_free: impl Fn(Ipv4Addr) -> bool) -> Option<Ipv4Addr> {
        let first = self.range.first().to_bits();
        let address = self.search(self.next, &is_free).or_else(|| self.search(first, &is_free))?;
        self.reserve(address);
        let behind = address.to_bits().checked_add(1).and_then(|behind| self.own_from(behind));
        self.next = behind.unwrap_or(first);
        Some(address)
    }

    /// Whether an address could ever be taken.
    pub(super) fn has_addresses(&self) -> bool {
        self.own_from(self.range.first().to_bits()).is_some()
    }

    pub(super) fn position(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.next)
    }

    pub(super) fn resume(&mut self, position: Ipv4Addr) {
        if self.range.contains(position) {
            self.next = self.own_from(position.to_bits()).unwrap_or(self.range.first().to_bits());
        }
    }

    fn contains(&self, address: Ipv4Addr) -> bool {
        self.range.contains(address) && !self.holes.iter().any(|hole| hole.contains(address))
    }

    fn search(&self, start: u32, is_free: impl Fn(Ipv4Addr) -> bool) -> Option<Ipv4Addr> {
        let mut start = start;
        loop {
            let free = self.free_from(start)?;
            if is_free(Ipv4Addr::from_bits(free)) {
                return Some(Ipv4Addr::from_bits(free));
            }
            start = free.checked_add(1)?;
        }
    }

    /// First address that is in no run, from `start` on.
    fn free_from(&self, start: u32) -> Option<u32> {
        let mut at = self.own_from(start)?;
        while let Some((_, last)) = self.run_of(at) {
            at = self.own_from(last.checked_add(1)?)?;
        }
        Some(at)
    }

    /// First address of the range outside of the holes, from `start` on.
    fn own_from(&self, start: u32) -> Option<u32> {
        let mut at = start;
        while let Some(hole) = self.holes.iter().find(|hole| hole.contains(Ipv4Addr::from_bits(at))) {
            at = hole.last().to_bits().checked_add(1)?;
        }
        self.range.contains(Ipv4Addr::from_bits(at)).then_some(at)
    }

    /// The first and the last of the run that an address is in.
    fn run_of(&self, address: u32) -> Option<(u32, u32)> {
        let (first, last) = self.runs.range(..=address).next_back()?;
        (address <= *last).then_some((*first, *last))
    }
}

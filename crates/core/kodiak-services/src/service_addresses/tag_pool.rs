//! Pool of the `kuma.io/service` names of one mesh.

use std::{collections::BTreeMap, net::Ipv4Addr, sync::Arc};

use kodiak_model::Cidr;

use super::{Ranges, pool::Pool};

/// 240.0.0.0/4, which is not routed. Every mesh has all of it.
const FIRST: Ipv4Addr = Ipv4Addr::new(240, 0, 0, 0);
const PREFIX_LENGTH: u8 = 4;

pub(super) fn range() -> Cidr {
    Cidr::new(FIRST, PREFIX_LENGTH).expect("all but the first four bits are zero")
}

#[derive(Debug, Clone)]
pub(super) struct TagPool {
    pub(super) pool: Pool,
    /// Allocated but not yet stored: a failed write is retried with the same address.
    pub(super) given: BTreeMap<Arc<str>, Ipv4Addr>,
}

impl TagPool {
    /// Without the ranges of destinations. Where these have all of it, both take from one range.
    pub(super) fn new(ranges: &Ranges) -> Self {
        let range = range();
        let broadcast = Cidr::new(Ipv4Addr::BROADCAST, 32).expect("every address is a range of one");
        let apart = Pool::without(range, ranges.all().into_iter().chain([broadcast]).collect());
        let pool = if apart.has_addresses() { apart } else { Pool::without(range, vec![broadcast]) };
        Self { pool, given: BTreeMap::new() }
    }

    /// Number of addresses before the position, as it is stored.
    pub(super) fn next(&self) -> u32 {
        self.pool.position().to_bits() - FIRST.to_bits()
    }

    pub(super) fn resume(&mut self, next: u32) {
        if let Some(position) = FIRST.to_bits().checked_add(next) {
            self.pool.resume(Ipv4Addr::from_bits(position));
        }
    }
}

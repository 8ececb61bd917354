//! Virtual addresses of everything that has one: destinations, with a range for each kind, and `kuma.io/service` names.
//! Start at [`AddressAllocator`].
//!
//! **Invariant:** an address in use is not allocated again. Addresses are allocated in order, so that a released one is
//! reused as late as possible.

mod allocator;
mod pool;
mod pools;
mod tag_pool;
#[cfg(test)]
mod tests;

use std::{fmt, net::Ipv4Addr};

use kodiak_model::{Cidr, Word, kinds::dataplane::BackendKind};

use pools::Pools;

pub use allocator::{AddressAllocator, FreedAddresses};
pub use pools::Positions;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranges {
    pub services: Cidr,
    pub external_services: Cidr,
    pub multi_zone_services: Cidr,
}

impl Default for Ranges {
    /// 241.0.0.0/8, 242.0.0.0/8 and 243.0.0.0/8, which are not routed.
    fn default() -> Self {
        let whole = |first: u8| Cidr::new(Ipv4Addr::new(first, 0, 0, 0), 8).expect("all but the first byte is zero");
        Self { services: whole(241), external_services: whole(242), multi_zone_services: whole(243) }
    }
}

impl Ranges {
    /// Range of a kind.
    pub fn of(&self, kind: BackendKind) -> Cidr {
        match kind {
            BackendKind::MeshService => self.services,
            BackendKind::MeshExternalService => self.external_services,
            BackendKind::MeshMultiZoneService => self.multi_zone_services,
        }
    }

    /// Positions of a control plane that has not allocated any address.
    pub fn first_positions(&self) -> Positions {
        Pools::new(*self).position()
    }

    fn all(&self) -> [Cidr; 3] {
        let Self { services, external_services, multi_zone_services } = *self;
        [services, external_services, multi_zone_services]
    }

    /// Ranges of all virtual addresses: that of `kuma.io/service` names, and those of each kind that are not inside it.
    pub fn virtual_addresses(&self) -> Vec<Cidr> {
        let tags = tag_pool::range();
        let apart = self.all().into_iter().filter(|range| !tags.contains(range.first()));
        [tags].into_iter().chain(apart).collect()
    }

    /// Fails when ranges of two kinds overlap.
    pub fn check(&self) -> Result<(), OverlapError> {
        let Self { services, external_services, multi_zone_services } = *self;
        let all = [
            (BackendKind::MeshService, services),
            (BackendKind::MeshExternalService, external_services),
            (BackendKind::MeshMultiZoneService, multi_zone_services),
        ];
        for (at, one) in all.iter().enumerate() {
            if let Some(other) = all[at + 1..].iter().find(|other| other.1.overlaps(one.1)) {
                return Err(OverlapError { one: *one, other: *other });
            }
        }
        Ok(())
    }
}

/// Two kinds whose ranges overlap.
#[derive(Debug, PartialEq, Eq)]
pub struct OverlapError {
    one: (BackendKind, Cidr),
    other: (BackendKind, Cidr),
}

impl fmt::Display for OverlapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { one: (kind, range), other: (other_kind, other_range) } = self;
        let (kind, other_kind) = (kind.text(), other_kind.text());
        write!(f, "{range} of {kind} and {other_range} of {other_kind} have addresses in common: choose ranges apart")
    }
}

impl std::error::Error for OverlapError {}

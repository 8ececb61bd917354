//! Virtual addresses of destinations, with a range for each kind.
//!
//! **Invariant:** an address in use is not allocated again. Addresses are allocated in order, so that a released one is
//! reused as late as possible.

mod cidr;
mod pool;
#[cfg(test)]
mod tests;

use std::{fmt, net::Ipv4Addr};

use kodiak_model::{Word, kinds::dataplane::BackendKind};
use serde::{Deserialize, Serialize};

use pool::Pool;

pub use cidr::{Cidr, CidrError};

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

/// Addresses in use, by kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pools {
    services: Pool,
    external_services: Pool,
    multi_zone_services: Pool,
}

/// Allocation positions. They are stored, so that the next leader does not reuse addresses that were just released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Positions {
    pub services: Ipv4Addr,
    pub external_services: Ipv4Addr,
    pub multi_zone_services: Ipv4Addr,
}

impl Pools {
    pub fn new(ranges: Ranges) -> Self {
        let Ranges { services, external_services, multi_zone_services } = ranges;
        Self {
            services: Pool::new(services),
            external_services: Pool::new(external_services),
            multi_zone_services: Pool::new(multi_zone_services),
        }
    }

    /// Marks an address as in use; idempotent. Addresses outside of the range, of an earlier setting, are ignored.
    pub fn reserve(&mut self, kind: BackendKind, address: Ipv4Addr) {
        self.pool(kind).reserve(address);
    }

    /// Releases an address. It is reused after all addresses behind it.
    pub fn release(&mut self, kind: BackendKind, address: Ipv4Addr) {
        self.pool(kind).release(address);
    }

    /// Allocates the next free address. `None` when the range is exhausted.
    pub fn take(&mut self, kind: BackendKind) -> Option<Ipv4Addr> {
        self.pool(kind).take()
    }

    pub fn position(&self) -> Positions {
        let Self { services, external_services, multi_zone_services } = self;
        Positions {
            services: services.position(),
            external_services: external_services.position(),
            multi_zone_services: multi_zone_services.position(),
        }
    }

    /// Positions outside of their range, of an earlier setting, are ignored.
    pub fn resume(&mut self, positions: &Positions) {
        let Positions { services, external_services, multi_zone_services } = *positions;
        self.services.resume(services);
        self.external_services.resume(external_services);
        self.multi_zone_services.resume(multi_zone_services);
    }

    fn pool(&mut self, kind: BackendKind) -> &mut Pool {
        match kind {
            BackendKind::MeshService => &mut self.services,
            BackendKind::MeshExternalService => &mut self.external_services,
            BackendKind::MeshMultiZoneService => &mut self.multi_zone_services,
        }
    }
}

//! Pools of destinations: one for each kind, shared by all meshes.

use std::net::Ipv4Addr;

use kodiak_model::kinds::dataplane::BackendKind;
use serde::{Deserialize, Serialize};

use super::{Ranges, pool::Pool};

/// Addresses in use, by kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pools {
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
    /// Number of transactions that stored addresses. It makes every one of them replace the record.
    #[serde(default)]
    pub writes: u64,
}

impl Pools {
    pub(super) fn new(ranges: Ranges) -> Self {
        let Ranges { services, external_services, multi_zone_services } = ranges;
        Self {
            services: Pool::new(services),
            external_services: Pool::new(external_services),
            multi_zone_services: Pool::new(multi_zone_services),
        }
    }

    /// Marks an address as in use, in the range that has it; idempotent.
    pub(super) fn reserve(&mut self, address: Ipv4Addr) {
        for pool in self.all() {
            pool.reserve(address);
        }
    }

    /// Releases an address. It is reused after all addresses behind it.
    pub(super) fn release(&mut self, address: Ipv4Addr) {
        for pool in self.all() {
            pool.release(address);
        }
    }

    /// Allocates the next free address. `None` when the range is exhausted.
    pub(super) fn take(&mut self, kind: BackendKind, is_free: impl Fn(Ipv4Addr) -> bool) -> Option<Ipv4Addr> {
        let pool = match kind {
            BackendKind::MeshService => &mut self.services,
            BackendKind::MeshExternalService => &mut self.external_services,
            BackendKind::MeshMultiZoneService => &mut self.multi_zone_services,
        };
        pool.take(is_free)
    }

    pub(super) fn position(&self) -> Positions {
        let Self { services, external_services, multi_zone_services } = self;
        Positions {
            services: services.position(),
            external_services: external_services.position(),
            multi_zone_services: multi_zone_services.position(),
            writes: 0,
        }
    }

    /// Positions outside of their range, of an earlier setting, are ignored.
    pub(super) fn resume(&mut self, positions: &Positions) {
        let Positions { services, external_services, multi_zone_services, writes: _ } = *positions;
        self.services.resume(services);
        self.external_services.resume(external_services);
        self.multi_zone_services.resume(multi_zone_services);
    }

    fn all(&mut self) -> [&mut Pool; 3] {
        [&mut self.services, &mut self.external_services, &mut self.multi_zone_services]
    }
}

//! Virtual addresses and hostnames of services by their `kuma.io/service` tag.
//!
//! **Invariant:** a service keeps its address while it exists, and for a time after, because programs cache DNS
//! answers. Addresses are allocated in order, so that a released one is reused as late as possible.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// 240.0.0.0/4, which is not routed, without the broadcast address.
const FIRST: u32 = 0xf000_0000;
const SIZE: u32 = (1 << 28) - 1;

/// Port of every service at its virtual address.
pub const PORT: u32 = 80;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vips {
    /// Number of addresses tried so far; the next one is allocated next.
    next: u32,
    services: BTreeMap<Arc<str>, Vip>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Vip {
    address: Ipv4Addr,
    /// Time since which no proxy serves it. Its address is kept for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gone: Option<Timestamp>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct NoAddressLeft;

impl Vips {
    pub fn get(&self, service: &str) -> Option<Ipv4Addr> {
        self.services.get(service).map(|vip| vip.address)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, Ipv4Addr)> {
        self.services.iter().map(|(service, vip)| (service, vip.address))
    }

    /// Assigns addresses to these services. Addresses of services that are gone for longer than `keep` are released.
    pub fn assign(
        &self,
        services: &BTreeSet<Arc<str>>,
        now: Timestamp,
        keep: SignedDuration,
    ) -> Result<Self, NoAddressLeft> {
        let mut next = self.clone();
        next.services.retain(|service, vip| {
            if services.contains(service) {
                vip.gone = None;
                return true;
            }
            let since = *vip.gone.get_or_insert(now);
            now.duration_since(since) <= keep
        });
        let mut used: BTreeSet<Ipv4Addr> = next.services.values().map(|vip| vip.address).collect();
        for service in services {
            if !next.services.contains_key(service) {
                let address = next.free(&used)?;
                used.insert(address);
                next.services.insert(service.clone(), Vip { address, gone: None });
            }
        }
        Ok(next)
    }

    /// Time at which the next address can be released.
    pub fn next_expiry(&self, keep: SignedDuration) -> Option<Timestamp> {
        let first = self.services.values().filter_map(|vip| vip.gone).min()?;
        first.checked_add(keep).ok()
    }

    fn free(&mut self, used: &BTreeSet<Ipv4Addr>) -> Result<Ipv4Addr, NoAddressLeft> {
        for _ in 0..SIZE {
            let address = Ipv4Addr::from_bits(FIRST + self.next);
            self.next = (self.next + 1) % SIZE;
            if !used.contains(&address) {
                return Ok(address);
            }
        }
        Err(NoAddressLeft)
    }
}

/// Hostnames of a service: `<service>.mesh`, and the same with dots for underscores.
pub fn hostnames(service: &str) -> impl Iterator<Item = String> {
    let plain = format!("{service}.mesh");
    let dotted = plain.replace('_', ".");
    let other = (dotted != plain).then_some(dotted);
    std::iter::once(plain).chain(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: SignedDuration = SignedDuration::from_hours(24);

    fn services(names: &[&str]) -> BTreeSet<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(hours * 3600).unwrap()
    }

    #[test]
    fn addresses_are_allocated_in_order_and_never_move() {
        let first = Vips::default().assign(&services(&["b"]), at(0), KEEP).unwrap();
        let second = first.assign(&services(&["a", "b"]), at(1), KEEP).unwrap();
        assert_eq!(second.get("b"), Some(Ipv4Addr::new(240, 0, 0, 0)));
        assert_eq!(second.get("a"), Some(Ipv4Addr::new(240, 0, 0, 1)));
        assert_eq!(second.assign(&services(&["a", "b"]), at(2), KEEP).unwrap(), second);
    }

    #[test]
    fn service_that_returns_in_time_keeps_its_address() {
        let both = Vips::default().assign(&services(&["a", "b"]), at(0), KEEP).unwrap();
        let gone = both.assign(&services(&["b"]), at(1), KEEP).unwrap();
        assert_eq!(gone.get("a"), both.get("a"));
        let back = gone.assign(&services(&["a", "b"]), at(20), KEEP).unwrap();
        assert_eq!(back, both);
        assert_eq!(gone.next_expiry(KEEP), Some(at(25)));
    }

    #[test]
    fn released_address_is_not_allocated_next() {
        let one = Vips::default().assign(&services(&["a"]), at(0), KEEP).unwrap();
        let gone = one.assign(&services(&[]), at(1), KEEP).unwrap();
        let forgotten = gone.assign(&services(&[]), at(26), KEEP).unwrap();
        assert_eq!(forgotten.get("a"), None);
        let other = forgotten.assign(&services(&["c"]), at(27), KEEP).unwrap();
        assert_eq!(other.get("c"), Some(Ipv4Addr::new(240, 0, 0, 1)));
    }

    #[test]
    fn addresses_in_use_are_skipped_after_a_wrap_around() {
        let mut vips = Vips::default().assign(&services(&["a"]), at(0), KEEP).unwrap();
        vips.next = SIZE - 1;
        let more = vips.assign(&services(&["a", "b", "c"]), at(0), KEEP).unwrap();
        assert_eq!(more.get("b"), Some(Ipv4Addr::new(255, 255, 255, 254)));
        assert_eq!(more.get("c"), Some(Ipv4Addr::new(240, 0, 0, 1)));
    }

    #[test]
    fn underscores_are_also_dots() {
        assert_eq!(hostnames("web_ns_svc_80").collect::<Vec<_>>(), ["web_ns_svc_80.mesh", "web.ns.svc.80.mesh"]);
        assert_eq!(hostnames("backend").collect::<Vec<_>>(), ["backend.mesh"]);
    }
}

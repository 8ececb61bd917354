//! Virtual addresses and hostnames of services by their `kuma.io/service` tag, as they are stored for each mesh.
//! [`AddressAllocator`](crate::service_addresses::AddressAllocator) allocates the addresses.
//!
//! **Invariant:** a service keeps its address while it exists, and for a time after, because programs cache DNS
//! answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Port of every service at its virtual address.
pub const PORT: u32 = 80;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vips {
    /// Number of addresses tried so far; the next one is allocated next.
    pub(crate) next: u32,
    services: BTreeMap<Arc<str>, Vip>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Vip {
    address: Ipv4Addr,
    /// Time since which no proxy serves it. Its address is kept for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gone: Option<Timestamp>,
}

/// Desired addresses of a mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub vips: Vips,
    /// Services without an address because the range is exhausted.
    pub without_address: Vec<Arc<str>>,
}

impl Vips {
    pub fn get(&self, service: &str) -> Option<Ipv4Addr> {
        self.services.get(service).map(|vip| vip.address)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, Ipv4Addr)> {
        self.services.iter().map(|(service, vip)| (service, vip.address))
    }

    /// Time at which the next address can be released.
    pub fn next_expiry(&self, keep: SignedDuration) -> Option<Timestamp> {
        let first = self.services.values().filter_map(|vip| vip.gone).min()?;
        first.checked_add(keep).ok()
    }

    /// Without services that are gone for the time `keep`.
    pub(crate) fn retain(&self, services: &BTreeSet<&str>, now: Timestamp, keep: SignedDuration) -> Assignment {
        let mut vips = self.clone();
        vips.services.retain(|service, vip| {
            if services.contains(&**service) {
                vip.gone = None;
                return true;
            }
            let since = *vip.gone.get_or_insert(now);
            now.duration_since(since) < keep
        });
        Assignment { vips, without_address: Vec::new() }
    }

    pub(crate) fn insert(&mut self, service: &Arc<str>, address: Ipv4Addr) {
        self.services.insert(service.clone(), Vip { address, gone: None });
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
    use crate::service_addresses::{AddressAllocator, Ranges};

    const KEEP: SignedDuration = SignedDuration::from_hours(24);
    const SIZE: u32 = (1 << 28) - 1;

    /// The addresses after a new control plane stored them.
    fn assigned(vips: &Vips, names: &[&str], now: Timestamp) -> Vips {
        let mesh: Arc<str> = "default".into();
        let mut allocator = AddressAllocator::new(Ranges::default());
        allocator.set_vips(&mesh, None, Some(vips));
        let names: BTreeSet<Arc<str>> = names.iter().map(|name| Arc::from(*name)).collect();
        let assignment = allocator.assign(&mesh, vips, names.iter(), now, KEEP);
        assert_eq!(assignment.without_address, []);
        assignment.vips
    }

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(hours * 3600).unwrap()
    }

    #[test]
    fn addresses_are_allocated_in_order_and_never_move() {
        let first = assigned(&Vips::default(), &["b"], at(0));
        let second = assigned(&first, &["a", "b"], at(1));
        assert_eq!(second.get("b"), Some(Ipv4Addr::new(240, 0, 0, 0)));
        assert_eq!(second.get("a"), Some(Ipv4Addr::new(240, 0, 0, 1)));
        assert_eq!(assigned(&second, &["a", "b"], at(2)), second);
    }

    #[test]
    fn stored_format_is_unchanged() {
        let stored = r#"{"next":7,"services":{"a":{"address":"240.0.0.3"},"b":{"address":"240.0.0.6","gone":"1970-01-01T01:00:00Z"}}}"#;
        let vips: Vips = serde_json::from_str(stored).unwrap();
        assert_eq!(serde_json::to_string(&vips).unwrap(), stored);
        let next = assigned(&vips, &["a", "c"], at(2));
        assert_eq!(next.get("a"), vips.get("a"));
        assert_eq!(next.get("b"), vips.get("b"));
        assert_eq!(next.get("c"), Some(Ipv4Addr::new(240, 0, 0, 7)));
        assert_eq!(next.next, 8);
    }

    #[test]
    fn service_that_returns_in_time_keeps_its_address() {
        let both = assigned(&Vips::default(), &["a", "b"], at(0));
        let gone = assigned(&both, &["b"], at(1));
        assert_eq!(gone.get("a"), both.get("a"));
        let back = assigned(&gone, &["a", "b"], at(20));
        assert_eq!(back, both);
        assert_eq!(gone.next_expiry(KEEP), Some(at(25)));
    }

    #[test]
    fn released_address_is_not_allocated_next() {
        let one = assigned(&Vips::default(), &["a"], at(0));
        let gone = assigned(&one, &[], at(1));
        let forgotten = assigned(&gone, &[], at(26));
        assert_eq!(forgotten.get("a"), None);
        let other = assigned(&forgotten, &["c"], at(27));
        assert_eq!(other.get("c"), Some(Ipv4Addr::new(240, 0, 0, 1)));
    }

    #[test]
    fn addresses_in_use_are_skipped_after_a_wrap_around() {
        let mut vips = assigned(&Vips::default(), &["a"], at(0));
        vips.next = SIZE - 1;
        let more = assigned(&vips, &["a", "b", "c"], at(0));
        assert_eq!(more.get("b"), Some(Ipv4Addr::new(255, 255, 255, 254)));
        assert_eq!(more.get("c"), Some(Ipv4Addr::new(240, 0, 0, 1)));
    }

    #[test]
    fn underscores_are_also_dots() {
        assert_eq!(hostnames("web_ns_svc_80").collect::<Vec<_>>(), ["web_ns_svc_80.mesh", "web.ns.svc.80.mesh"]);
        assert_eq!(hostnames("backend").collect::<Vec<_>>(), ["backend.mesh"]);
    }
}

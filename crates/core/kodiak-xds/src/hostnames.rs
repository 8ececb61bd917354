//! Hostnames of a mesh and their addresses, for proxies that do not have all of them.

use std::{collections::BTreeMap, net::Ipv4Addr, sync::Arc};

use imbl::OrdMap;

use crate::input::DnsRecord;

/// Addresses by hostname. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostnameIndex {
    /// Each address of a name, with the number of destinations that have it.
    addresses: OrdMap<Arc<str>, BTreeMap<Ipv4Addr, usize>>,
}

impl HostnameIndex {
    /// Address of a name in lower case. A hostname of two destinations resolves to one of them, always the same.
    pub fn address(&self, name: &str) -> Option<Ipv4Addr> {
        self.addresses.get(name)?.keys().next().copied()
    }

    /// Of one more destination.
    pub fn add(&mut self, DnsRecord { name, address }: &DnsRecord) {
        *self.addresses.entry(name.clone()).or_default().entry(*address).or_default() += 1;
    }

    /// Of a destination that was added.
    pub fn remove(&mut self, DnsRecord { name, address }: &DnsRecord) {
        let Some(addresses) = self.addresses.get_mut(name) else { return };
        if addresses.get(address).is_some_and(|count| *count > 1) {
            addresses.entry(*address).and_modify(|count| *count -= 1);
        } else {
            addresses.remove(address);
        }
        if addresses.is_empty() {
            self.addresses.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, last: u8) -> DnsRecord {
        DnsRecord { name: name.into(), address: Ipv4Addr::new(240, 0, 0, last) }
    }

    #[test]
    fn hostname_of_two_destinations_stays_until_both_are_gone() {
        let mut index = HostnameIndex::default();
        for record in [record("a.mesh", 2), record("a.mesh", 1), record("a.mesh", 1)] {
            index.add(&record);
        }
        let first = Some(Ipv4Addr::new(240, 0, 0, 1));
        assert_eq!(index.address("a.mesh"), first);
        index.remove(&record("a.mesh", 1));
        assert_eq!(index.address("a.mesh"), first);
        index.remove(&record("a.mesh", 1));
        assert_eq!(index.address("a.mesh"), Some(Ipv4Addr::new(240, 0, 0, 2)));
        index.remove(&record("a.mesh", 2));
        assert_eq!(index, HostnameIndex::default());
    }
}

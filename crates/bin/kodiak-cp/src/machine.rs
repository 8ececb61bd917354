//! Names and addresses of this machine, for the certificate of the control plane.

use std::{
    collections::BTreeSet,
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// Routing table with the IPv4 addresses of all interfaces.
const IPV4: &str = "/proc/net/fib_trie";
/// IPv6 addresses of all interfaces.
const IPV6: &str = "/proc/net/if_inet6";
/// A machine with more addresses is a router or a node of Kubernetes, and most of them are not its own.
const MOST_ADDRESSES: usize = 256;

/// Addresses of all interfaces, with loopback. Link-local addresses need a scope, which certificates do not have.
pub(crate) fn addresses() -> BTreeSet<IpAddr> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (routes, interfaces) = (read(IPV4), read(IPV6));
    let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    let found: BTreeSet<IpAddr> = ipv4(&routes).chain(ipv6(&interfaces)).collect();
    if found.len() > MOST_ADDRESSES {
        tracing::warn!(
            addresses = found.len(),
            "this machine has too many addresses for its certificate: name those that clients use in general.certificateNames"
        );
    }
    loopback.into_iter().chain(found.into_iter().take(MOST_ADDRESSES)).collect()
}

/// The line below an address says whether it is one of this machine.
fn ipv4(routes: &str) -> impl Iterator<Item = IpAddr> {
    let lines = routes.lines().zip(routes.lines().skip(1));
    lines.filter_map(|(line, below)| {
        let address: Ipv4Addr = line.trim().strip_prefix("|-- ")?.parse().ok()?;
        (below.trim() == "/32 host LOCAL").then_some(address.into())
    })
}

/// One line for each address: 32 hexadecimal digits first.
fn ipv6(interfaces: &str) -> impl Iterator<Item = IpAddr> {
    interfaces.lines().filter_map(|line| {
        let address = Ipv6Addr::from(u128::from_str_radix(line.split_whitespace().next()?, 16).ok()?);
        (!address.is_unicast_link_local()).then_some(address.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_interfaces_are_found() {
        let routes = "Local:\n  +-- 127.0.0.0/8 2 0 2\n     |-- 127.0.0.0\n        /8 host LOCAL\n     |-- 127.0.0.1\n        \
                      /32 host LOCAL\n     |-- 127.255.255.255\n        /32 link BROADCAST\n     |-- 192.0.2.2\n        /32 host LOCAL\n";
        let found: Vec<String> = ipv4(routes).map(|address| address.to_string()).collect();
        assert_eq!(found, ["127.0.0.1", "192.0.2.2"]);
        let interfaces = "fd000000000000000000000000000002 04 40 00 82     eth0\nfe8000000000000000fc00fffe000001 04 40 20 80     eth0\nx\n\n";
        let found: Vec<String> = ipv6(interfaces).map(|address| address.to_string()).collect();
        assert_eq!(found, ["fd00::2"]);
        assert!(addresses().contains(&IpAddr::from(Ipv4Addr::LOCALHOST)));
    }
}

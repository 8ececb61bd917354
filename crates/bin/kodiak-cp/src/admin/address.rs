//! The address at which the control plane reaches the admin interface of a proxy.
//!
//! A Dataplane claims an address and a port, and every proxy with a token can register one. So the control plane connects to an
//! address from which the proxy itself has connected: the peer address of its ADS stream. A proxy on the machine of the
//! control plane may use any address of this machine, except for the control plane's own ports. Behind NAT or a load
//! balancer the two differ; the networks of such proxies are a setting.

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::{Arc, OnceLock},
};

/// Ports of this control plane, once all of them are open.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnPorts(Arc<OnceLock<BTreeSet<u16>>>);

impl OwnPorts {
    pub(crate) fn set(&self, ports: impl IntoIterator<Item = SocketAddr>) {
        // A control plane starts once.
        let _ = self.0.set(ports.into_iter().map(|address| address.port()).collect());
    }

    /// Before they are known, every port counts as one of them.
    fn contains(&self, port: u16) -> bool {
        self.0.get().is_none_or(|ports| ports.contains(&port))
    }
}

/// `10.0.0.0/8` or `fd00::/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let invalid = || format!("{text:?} is not a network such as 10.0.0.0/8 or fd00::/8");
        let (address, prefix) = text.split_once('/').ok_or_else(invalid)?;
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let prefix: u8 = prefix.parse().map_err(|_| invalid())?;
        if prefix > if address.is_ipv4() { 32 } else { 128 } { Err(invalid()) } else { Ok(Self { address, prefix }) }
    }

    fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differs = network.to_bits() ^ address.to_bits();
                differs.checked_shr(32 - u32::from(self.prefix)).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differs = network.to_bits() ^ address.to_bits();
                differs.checked_shr(128 - u32::from(self.prefix)).unwrap_or(0) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

pub(super) struct AddressRule {
    pub(super) networks: Vec<Network>,
    pub(super) own_ports: OwnPorts,
}

impl AddressRule {
    /// The first claimed address that is in line with the peer address of the proxy's stream, or why none is.
    pub(super) fn allowed(
        &self,
        claimed: &[IpAddr],
        peer: IpAddr,
        port: u16,
        is_local: impl Fn(IpAddr) -> bool,
    ) -> Result<SocketAddr, String> {
        let peer = peer.to_canonical();
        let mut reason = "the address of the Dataplane has no IP address".to_owned();
        for address in claimed.iter().map(IpAddr::to_canonical) {
            let is_of_proxy = address == peer || (is_local(address) && is_local(peer));
            // These are no address of one machine elsewhere.
            let is_special = address.is_unspecified() || address.is_multicast() || address.is_loopback();
            let is_of_network = !is_special && self.networks.iter().any(|network| network.contains(address));
            if address.is_unspecified() || address.is_multicast() || !(is_of_proxy || is_of_network) {
                reason = format!(
                    "the Dataplane claims {address}, but the proxy connects from {peer}; behind NAT or a load balancer, add \
                     its network to dpServer.adminNetworks"
                );
            } else if is_local(address) && self.own_ports.contains(port) {
                reason = format!("the Dataplane claims {address}:{port}, which is a port of the control plane");
            } else {
                return Ok(SocketAddr::new(address, port));
            }
        }
        Err(reason)
    }
}

/// Whether a packet to this address stays on this machine: sockets can be bound to no other.
pub(super) fn is_of_this_machine(address: IpAddr) -> bool {
    !address.is_unspecified() && !address.is_multicast() && UdpSocket::bind((address, 0)).is_ok()
}

pub(super) async fn resolve(host: &str, port: u16) -> io::Result<Vec<IpAddr>> {
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    Ok(tokio::net::lookup_host((host, port)).await?.map(|address| address.ip()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN_PORT: u16 = 5681;

    fn rule(networks: &[&str]) -> AddressRule {
        let own_ports = OwnPorts::default();
        own_ports.set([SocketAddr::from(([0, 0, 0, 0], OWN_PORT))]);
        AddressRule { networks: networks.iter().map(|text| Network::parse(text).unwrap()).collect(), own_ports }
    }

    /// The machine has the addresses 10.0.0.1 and fd00::1.
    fn is_local(address: IpAddr) -> bool {
        address.is_loopback() || ["10.0.0.1", "fd00::1"].iter().any(|own| own.parse() == Ok(address))
    }

    #[track_caller]
    fn check(networks: &[&str], claimed: &str, peer: &str, port: u16, expected: bool) {
        let claimed: Vec<IpAddr> = claimed.split_whitespace().map(|text| text.parse().unwrap()).collect();
        let found = rule(networks).allowed(&claimed, peer.parse().unwrap(), port, is_local);
        assert_eq!(found.is_ok(), expected, "{claimed:?} from {peer}, port {port}: {found:?}");
        if let Ok(address) = found {
            assert!(claimed.iter().any(|claimed| claimed.to_canonical() == address.ip()), "{address}");
        }
    }

    #[test]
    fn only_the_address_that_the_proxy_connects_from_is_allowed() {
        for (claimed, peer, expected) in [
            ("10.0.0.7", "10.0.0.7", true),
            ("10.0.0.7", "::ffff:10.0.0.7", true),
            ("::ffff:10.0.0.7", "10.0.0.7", true),
            ("fd00::7", "fd00::7", true),
            ("10.0.0.8 10.0.0.7", "10.0.0.7", true),
            ("10.0.0.8", "10.0.0.7", false),
            ("169.254.169.254", "10.0.0.7", false),
            ("127.0.0.1", "10.0.0.7", false),
            ("::1", "10.0.0.7", false),
            ("0.0.0.0", "10.0.0.7", false),
            ("::", "10.0.0.7", false),
            ("10.0.0.1", "10.0.0.7", false),
            ("224.0.0.1", "10.0.0.7", false),
            ("", "10.0.0.7", false),
            // On the machine of the control plane.
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.2", "127.0.0.1", true),
            ("10.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "10.0.0.1", true),
            ("fd00::1", "10.0.0.1", true),
            ("10.0.0.7", "127.0.0.1", false),
            ("0.0.0.0", "127.0.0.1", false),
        ] {
            check(&[], claimed, peer, 9901, expected);
        }
    }

    #[test]
    fn own_ports_are_never_reached() {
        for (claimed, peer) in [("127.0.0.1", "127.0.0.1"), ("10.0.0.1", "10.0.0.1"), ("fd00::1", "127.0.0.1")] {
            check(&["0.0.0.0/0"], claimed, peer, OWN_PORT, false);
            check(&["0.0.0.0/0"], claimed, peer, 9901, true);
        }
        // It is a port of another machine.
        check(&[], "10.0.0.7", "10.0.0.7", OWN_PORT, true);
        let unknown = AddressRule { networks: Vec::new(), own_ports: OwnPorts::default() };
        let loopback = IpAddr::from([127, 0, 0, 1]);
        assert!(unknown.allowed(&[loopback], loopback, 9901, is_local).is_err());
    }

    #[test]
    fn networks_allow_other_addresses_but_no_loopback() {
        for (claimed, expected) in
            [("10.1.2.3", true), ("10.0.0.1", true), ("192.0.2.1", false), ("127.0.0.1", false), ("fd00::7", false)]
        {
            check(&["10.0.0.0/8"], claimed, "203.0.113.9", 9901, expected);
        }
        check(&["10.0.0.0/8"], "10.0.0.1", "203.0.113.9", OWN_PORT, false);
        check(&["fd00::/8"], "fd12::7", "203.0.113.9", 9901, true);
        check(&["0.0.0.0/0", "::/0"], "127.0.0.1", "203.0.113.9", 9901, false);
        check(&["0.0.0.0/0", "::/0"], "0.0.0.0", "203.0.113.9", 9901, false);
        for text in ["10.0.0.0", "10.0.0.0/33", "fd00::/129", "a/8", "10.0.0.0/", "/8", "10.0.0.0/-1"] {
            assert!(Network::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_recognised() {
        assert!(is_of_this_machine(IpAddr::from([127, 0, 0, 1])));
        for other in ["192.0.2.1", "0.0.0.0", "224.0.0.1", "::"] {
            assert!(!is_of_this_machine(other.parse().unwrap()), "{other}");
        }
    }
}

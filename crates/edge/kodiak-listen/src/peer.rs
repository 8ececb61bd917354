//! Who is at the other end of a connection, and under which address connections are counted.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Tcp(SocketAddr),
    /// A process of this machine, by its user.
    Unix {
        uid: u32,
    },
}

impl Peer {
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(address),
            Self::Unix { .. } => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix { uid } => write!(f, "unix:uid={uid}"),
        }
    }
}

/// Connections with equal keys share one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PeerKey {
    /// This machine, which has no limit of its own.
    Local,
    V4(u32),
    /// The upper half: a host commonly has a whole /64 of addresses to itself.
    V6(u64),
}

impl From<Peer> for PeerKey {
    fn from(peer: Peer) -> Self {
        let Peer::Tcp(address) = peer else { return Self::Local };
        match address.ip().to_canonical() {
            ip if ip.is_loopback() => Self::Local,
            IpAddr::V4(ip) => Self::V4(ip.to_bits()),
            IpAddr::V6(ip) => Self::V6(u64::try_from(ip.to_bits() >> 64).expect("half of 128 bits are 64")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(address: &str) -> PeerKey {
        Peer::Tcp(address.parse().unwrap()).into()
    }

    #[test]
    fn ipv6_peers_count_by_their_64() {
        assert_eq!(key("[2001:db8:0:1::1]:9"), key("[2001:db8:0:1:ffff::2]:7"));
        assert_ne!(key("[2001:db8:0:1::1]:9"), key("[2001:db8:0:2::1]:9"));
    }

    #[test]
    fn ipv4_peers_count_by_address_however_it_is_written() {
        assert_eq!(key("192.0.2.1:9"), key("192.0.2.1:7"));
        assert_eq!(key("192.0.2.1:9"), key("[::ffff:192.0.2.1]:7"));
        assert_ne!(key("192.0.2.1:9"), key("192.0.2.2:9"));
    }

    #[test]
    fn this_machine_has_no_limit_of_its_own() {
        for local in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(key(local), PeerKey::Local);
        }
        assert_eq!(PeerKey::from(Peer::Unix { uid: 0 }), PeerKey::Local);
    }
}

//! Destinations outside the mesh that a proxy lets its application reach.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

/// Rules for connections to destinations outside the mesh.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PassthroughRules {
    All,
    None,
    /// Only destinations that one of these matches. Sorted, without duplicates.
    Matched(Arc<[PassthroughMatch]>),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PassthroughMatch {
    pub destination: OutsideDestination,
    /// All ports when missing.
    pub port: Option<u16>,
    pub protocol: PassthroughProtocol,
    /// The destination as the policy has it.
    pub value: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutsideDestination {
    /// `*`: every hostname.
    AnyDomain,
    /// A hostname in lower case, or `*.` and a suffix.
    Domain(Arc<str>),
    Range(IpRange),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PassthroughProtocol {
    Tcp,
    /// TCP whose server sends first: Envoy must not wait for bytes of the client.
    Mysql,
    Tls,
    Http,
    Http2,
    Grpc,
}

impl PassthroughProtocol {
    /// As in policies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Mysql => "mysql",
            Self::Tls => "tls",
            Self::Http => "http",
            Self::Http2 => "http2",
            Self::Grpc => "grpc",
        }
    }

    pub fn is_http(self) -> bool {
        match self {
            Self::Http | Self::Http2 | Self::Grpc => true,
            Self::Tcp | Self::Mysql | Self::Tls => false,
        }
    }
}

/// IPv4 or IPv6 addresses with a common prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpRange {
    first: IpAddr,
    length: u8,
}

impl IpRange {
    /// Clears the bits of the address after the prefix. `None` when the prefix is longer than the address.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let first = match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32_u8.checked_sub(length)?.into()).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128_u8.checked_sub(length)?.into()).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        };
        Some(Self { first, length })
    }

    /// An address, or a CIDR.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some((address, length)) = text.split_once('/') {
            return Self::new(address.parse().ok()?, length.parse().ok()?);
        }
        let address: IpAddr = text.parse().ok()?;
        Self::new(address, if address.is_ipv4() { 32 } else { 128 })
    }

    pub fn first(self) -> IpAddr {
        self.first
    }

    /// Length of the prefix.
    pub fn length(self) -> u8 {
        self.length
    }

    pub fn is_ipv6(self) -> bool {
        self.first.is_ipv6()
    }

    /// Whether all addresses of the other range are in this one.
    pub fn contains(self, other: Self) -> bool {
        self.length <= other.length && Self::new(other.first, self.length) == Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_contains_longer_prefixes_of_its_family() {
        let contains = |one: &str, other: &str| IpRange::parse(one).unwrap().contains(IpRange::parse(other).unwrap());
        for (one, other, expected) in [
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "10.0.0.0/8", true),
            ("10.0.0.0/8", "0.0.0.0/0", false),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "11.0.0.1", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "fd00::1", true),
            ("fd00::/8", "fe00::1", false),
            ("::/0", "10.0.0.1", false),
        ] {
            assert_eq!(contains(one, other), expected, "{one} {other}");
        }
        assert_eq!(IpRange::parse("10.1.2.3/8"), IpRange::parse("10.0.0.0/8"));
        assert_eq!(IpRange::parse("10.0.0.0/33"), None);
        assert_eq!(IpRange::parse("fd00::/129"), None);
    }
}

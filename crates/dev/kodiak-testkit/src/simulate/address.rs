//! Addresses and CIDR ranges.

use std::net::IpAddr;

use kodiak_envoy::envoy::config::core::v3::socket_address::{PortSpecifier, Protocol};
use kodiak_envoy::envoy::config::core::v3::{Address, CidrRange, SocketAddress, address};

/// Destination of a connection, before any redirection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Destination<'a> {
    pub(super) address: &'a str,
    pub(super) port: u16,
}

/// Address and port of a TCP socket.
pub(super) fn tcp(address: Option<&Address>) -> Option<(&str, u16)> {
    let Some(address::Address::SocketAddress(socket)) = address.and_then(|address| address.address.as_ref()) else {
        return None;
    };
    let SocketAddress { protocol, address, port_specifier: Some(PortSpecifier::PortValue(port)), .. } = socket else {
        return None;
    };
    (*protocol == i32::from(Protocol::Tcp)).then_some((address.as_str(), u16::try_from(*port).ok()?))
}

/// `::1` has more than one notation.
pub(super) fn same(one: &str, other: &str) -> bool {
    match (one.parse::<IpAddr>(), other.parse::<IpAddr>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

pub(super) fn is_any(address: &str, like: &str) -> bool {
    let ipv6 = like.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6());
    same(address, if ipv6 { "::" } else { "0.0.0.0" })
}

/// Prefix length of the range, if it contains the address.
pub(super) fn in_range(range: &CidrRange, address: &str) -> Option<u32> {
    let fixed = range.prefix_len.unwrap_or(0);
    let (bits, prefix, address) = match (range.address_prefix.parse().ok()?, address.parse().ok()?) {
        (IpAddr::V4(prefix), IpAddr::V4(address)) => (32, u128::from(prefix.to_bits()), u128::from(address.to_bits())),
        (IpAddr::V6(prefix), IpAddr::V6(address)) => (128, prefix.to_bits(), address.to_bits()),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return None,
    };
    let free = bits - fixed.min(bits);
    let network = |address: u128| address.checked_shr(free).unwrap_or(0);
    (network(prefix) == network(address)).then_some(fixed)
}

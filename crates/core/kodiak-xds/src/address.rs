//! Conversions of addresses to Envoy's.

use kodiak_envoy::envoy::config::core::v3::socket_address::{PortSpecifier, Protocol};
use kodiak_envoy::envoy::config::core::v3::{Address, CidrRange, Pipe, SocketAddress, address};

pub(crate) const LOOPBACK: &str = "127.0.0.1";
pub(crate) const ANY_IPV4: &str = "0.0.0.0";
pub(crate) const ANY_IPV6: &str = "::";

pub(crate) fn socket(address: &str, port: u32) -> SocketAddress {
    SocketAddress {
        address: address.to_owned(),
        port_specifier: Some(PortSpecifier::PortValue(port)),
        ..SocketAddress::default()
    }
}

pub(crate) fn tcp(address: &str, port: u32) -> Address {
    Address { address: Some(address::Address::SocketAddress(socket(address, port))) }
}

pub(crate) fn udp(address: &str, port: u32) -> Address {
    let socket = SocketAddress { protocol: Protocol::Udp.into(), ..socket(address, port) };
    Address { address: Some(address::Address::SocketAddress(socket)) }
}

pub(crate) fn pipe(path: &str) -> Address {
    Address { address: Some(address::Address::Pipe(Pipe { path: path.to_owned(), mode: 0 })) }
}

/// A Unix socket that only its owner may use.
pub(crate) fn private_pipe(path: &str) -> Address {
    Address { address: Some(address::Address::Pipe(Pipe { path: path.to_owned(), mode: 0o600 })) }
}

pub(crate) fn range(address: &str, length: u32) -> CidrRange {
    CidrRange { address_prefix: address.to_owned(), prefix_len: Some(length) }
}

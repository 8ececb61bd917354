//! Addresses and ports that no other test uses.
//!
//! All of 127.0.0.0/8 is this machine. A proxy with an address of its own cannot clash with another one, and source ports
//! of connections are taken at 127.0.0.1 only.

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::atomic::{AtomicU16, Ordering},
};

/// The system chooses source ports above; so a port from here is still free when a killed process comes back.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Of this process alone, each time another one.
pub(crate) fn loopback() -> Ipv4Addr {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let [round, next] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    // Odd, so never that of 127.0.0.1.
    Ipv4Addr::new(127, (high | 1).wrapping_add(2 * round), low, next)
}

/// A port that is free now, and that no other test of this process was given.
pub(crate) fn port(address: Ipv4Addr) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Other processes begin elsewhere.
    let begin = u16::try_from(std::process::id() % 1000).expect("it is less than 1000") * 12;
    loop {
        let offset = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % u16::try_from(PORTS.len()).unwrap();
        let port = PORTS.start + offset;
        if TcpListener::bind((address, port)).is_ok() {
            return port;
        }
    }
}

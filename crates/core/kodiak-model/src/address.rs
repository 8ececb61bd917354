//! Validation of addresses and ports in legacy kinds, with Kuma's error texts.

use std::net::{IpAddr, Ipv4Addr};

use crate::{FieldPath, Problems};

const DNS_NAME_MAX: usize = 255;
const DNS_LABEL_MAX: usize = 63;

pub fn check_port(port: u32, at: &FieldPath<'_>, problems: &mut Problems) {
    problems.require((1..=65535).contains(&port), at, "port must be in the range [1, 65535]");
}

/// Address that other proxies connect to: an IP or a DNS name, but not the wildcard address.
pub fn check_host(address: &str, at: &FieldPath<'_>, problems: &mut Problems) {
    if address.is_empty() {
        problems.add(at, "address can't be empty");
        return;
    }
    problems.require(!matches!(address, "0.0.0.0" | "::"), at, "must not be 0.0.0.0 or ::");
    let is_host = is_ip(address) || is_dns_name(address);
    problems.require(is_host, at, "address has to be valid IP address or domain name");
}

/// Bind address. Empty means the default.
pub fn check_ip(address: &str, at: &FieldPath<'_>, problems: &mut Problems) {
    problems.require(address.is_empty() || is_ip(address), at, "address has to be valid IP address");
}

pub fn is_ip(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Labels of letters, digits, `-` and `_`, separated by dots; a trailing dot is allowed.
pub fn is_dns_name(text: &str) -> bool {
    let is_label = |label: &str| {
        label.len() <= DNS_LABEL_MAX
            && !label.is_empty()
            && !label.starts_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    text.len() <= DNS_NAME_MAX && !is_ip(text) && name.split('.').all(is_label)
}

/// Whether a listener on `address` also occupies the port on the loopback address.
pub fn binds_loopback(address: &str) -> bool {
    address.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified() || ip == IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Splits `host:port` or `[host]:port`; `None` unless both parts are present.
pub fn split_host_port(text: &str) -> Option<(&str, &str)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once("]:")?,
        None => text.split_once(':')?,
    };
    let whole = !host.is_empty() && !port.is_empty() && !port.contains([':', ']']);
    whole.then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_addresses() {
        for name in ["web", "web.example.com", "web.example.com.", "_srv.web", "1234"] {
            assert!(is_dns_name(name), "{name}");
        }
        for other in ["", ".", "a..b", "-a", "a b", "10.0.0.1", "::1", "é", &"a".repeat(64)] {
            assert!(!is_dns_name(other), "{other}");
        }
    }

    #[test]
    fn a_port_follows_the_last_colon() {
        assert_eq!(split_host_port("logs:9000"), Some(("logs", "9000")));
        assert_eq!(split_host_port("[::1]:9000"), Some(("::1", "9000")));
        for other in ["", "logs", "logs:", ":9000", "::1:9000", "[::1]", "[::1]:"] {
            assert_eq!(split_host_port(other), None, "{other}");
        }
    }
}

//! Validation of URLs and addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

const SCHEMES: &[&str] = &["ftp", "tcp", "udp", "ws", "wss", "http", "https"];
const SHORTEST: usize = 4;
const LONGEST: usize = 2082;

/// `http://collector:9411/api`, `collector:9411`, `collector.example`, `127.0.0.1`; but not a single word.
pub(crate) fn is_url(text: &str) -> bool {
    if text.len() < SHORTEST || text.chars().count() > LONGEST || text.contains(char::is_whitespace) {
        return false;
    }
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, text),
    };
    let (authority, _) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
    scheme.is_none_or(|scheme| SCHEMES.contains(&scheme))
        && (scheme.is_some() || authority.contains(['.', ':']))
        && is_address(address)
}

fn is_address(text: &str) -> bool {
    if let Some(rest) = text.strip_prefix('[') {
        return rest.split_once(']').is_some_and(|(ip, port)| {
            let port = port.strip_prefix(':');
            ip.parse::<Ipv6Addr>().is_ok() && (rest.ends_with(']') || port.is_some_and(is_port))
        });
    }
    match text.split_once(':') {
        Some((host, port)) => is_host(host) && is_port(port),
        None => is_host(text),
    }
}

fn is_host(text: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii();
    let is_label = |label: &str| {
        label.starts_with(inside) && label.ends_with(inside) && label.chars().all(|c| inside(c) || c == '-' || c == '_')
    };
    text.parse::<Ipv4Addr>().is_ok() || text.strip_suffix('.').unwrap_or(text).split('.').all(is_label)
}

fn is_port(text: &str) -> bool {
    (1..=5).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
}

/// Parts of an absolute URI. Empty when missing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Uri<'a> {
    pub scheme: &'a str,
    /// The rest after the scheme when it does not start with `//`.
    pub opaque: &'a str,
    pub user: Option<&'a str>,
    pub host: &'a str,
    pub port: &'a str,
    pub path: &'a str,
    pub query: &'a str,
}

impl<'a> Uri<'a> {
    /// `None` when the text is neither an absolute URI nor an absolute path.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        if text.bytes().any(|b| b <= b' ' || b == 0x7f) {
            return None;
        }
        let (scheme, rest) = match text.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (scheme, rest),
            Some(_) | None if text.starts_with('/') => ("", text),
            Some(_) | None => return None,
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let uri = Self { scheme, query, ..Self::default() };
        if !rest.starts_with('/') {
            return Some(Self { opaque: rest, ..uri });
        }
        let Some(rest) = rest.strip_prefix("//").filter(|_| !scheme.is_empty()) else {
            return Some(Self { path: rest, ..uri });
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, address) = match authority.rsplit_once('@') {
            Some((user, address)) => (Some(user), address),
            None => (None, authority),
        };
        let after_ip = address.find(']').map_or(0, |end| end + 1);
        let (host, port) = match address[after_ip..].rfind(':') {
            Some(colon) => (&address[..after_ip + colon], &address[after_ip + colon + 1..]),
            None => (address, ""),
        };
        port.bytes().all(|b| b.is_ascii_digit()).then_some(Self { user, host, port, path, ..uri })
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::{Uri, is_url};

    #[test]
    fn accepts_addresses_with_and_without_scheme() {
        for good in [
            "http://jaeger-collector.observability:9411/api/v2/spans",
            "logging:8080",
            "logging.example",
            "127.0.0.1:5000",
            "[::1]:5000",
            "tcp://user:word@host:1",
            "http://localhost",
        ] {
            assert!(is_url(good), "{good}");
        }
        for bad in
            ["", "a:1", "not_valid_url", "logging", ".example.com", "host:", "host:port", "gopher://host", "a b.com"]
        {
            assert!(!is_url(bad), "{bad}");
        }
    }

    #[test]
    fn parses_uris() {
        let uri = Uri::parse("http://user@host:8126/path?q=1").unwrap();
        assert_eq!(
            (uri.scheme, uri.user, uri.host, uri.port, uri.path, uri.query),
            ("http", Some("user"), "host", "8126", "/path", "q=1")
        );
        assert_eq!(Uri::parse("http://[::1]:8126").unwrap().port, "8126");
        assert_eq!(Uri::parse("http:word").unwrap().opaque, "word");
        assert_eq!(Uri::parse("/only/path").unwrap().path, "/only/path");
        for bad in ["", "word", "http://host:port", "http://ho st"] {
            assert_eq!(Uri::parse(bad), None, "{bad}");
        }
    }
}

//! Address of a control plane, and URLs below it.

use std::fmt;
use std::path::{Path, PathBuf};

use hyper::Uri;

/// Default address of a control plane on this machine.
pub const LOCAL: &str = "http://localhost:5681";

/// Scheme of a Unix socket.
const UNIX: &str = "unix:";

/// Address of the API of a control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Scheme, host, port and base path, without a trailing slash.
    Url(String),
    /// Unix socket: `unix:/var/lib/kodiak/kodiak.sock`.
    Socket(PathBuf),
}

impl Address {
    /// Parses `http://host:port`, `https://host:port/base/path` or `unix:/path/of/socket`.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix(UNIX) {
            let path = Path::new(path.strip_prefix("//").unwrap_or(path));
            if !path.is_absolute() {
                return Err(AddressError::RelativeSocket(text.to_owned()));
            }
            return Ok(Self::Socket(path.to_owned()));
        }
        let wrong = |why: &str| AddressError::Invalid { address: text.to_owned(), reason: why.to_owned() };
        let uri: Uri = text.parse().map_err(|error| wrong(&format!("{error}")))?;
        match uri.scheme_str() {
            Some("http" | "https") => (),
            Some(_) => return Err(wrong("it must start with http:// or https://")),
            None => return Err(wrong("http:// or https:// is missing")),
        }
        let host = uri.authority().filter(|authority| !authority.host().is_empty());
        let Some(authority) = host else { return Err(wrong("the host is missing")) };
        if authority.as_str().contains('@') {
            return Err(AddressError::Credentials);
        }
        if uri.query().is_some() || text.contains('#') {
            return Err(wrong("it must not have a query or a fragment"));
        }
        Ok(Self::Url(text.trim_end_matches('/').to_owned()))
    }

    /// Whether requests use TLS.
    pub fn is_https(&self) -> bool {
        match self {
            Self::Url(url) => url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://")),
            Self::Socket(_) => false,
        }
    }

    /// Path of the Unix socket, if it is one.
    pub fn socket(&self) -> Option<&Path> {
        match self {
            Self::Url(_) => None,
            Self::Socket(path) => Some(path),
        }
    }

    /// Whether requests stay on this machine.
    pub fn is_loopback(&self) -> bool {
        let Self::Url(url) = self else { return true };
        let host = url.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default();
        let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    }

    /// URL of `path`, which starts with a slash and has percent-encoded segments.
    pub fn url(&self, path: &str) -> String {
        match self {
            Self::Url(url) => format!("{url}{path}"),
            // The host is ignored, but HTTP requires one.
            Self::Socket(_) => format!("http://localhost{path}"),
        }
    }
}

/// Invalid address of a control plane.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("{0:?} must have an absolute path: unix:/var/lib/kodiak/kodiak.sock")]
    RelativeSocket(String),
    #[error("{address:?} is not the address of a control plane: {reason}; use for example {LOCAL}")]
    Invalid { address: String, reason: String },
    /// The message omits the address, since it contains a password.
    #[error("the address of a control plane must not contain a user name or password; use a token")]
    Credentials,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.write_str(url),
            Self::Socket(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// Percent-encodes a segment of a path or a value of a query.
pub(crate) fn encode(text: &str) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::with_capacity(text.len());
    // Some servers resolve `.` and `..` in paths.
    let only_dots = text.bytes().all(|byte| byte == b'.');
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) || (byte == b'.' && !only_dots);
        if plain {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("writing to a String does not fail");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_invalid_addresses() {
        for (text, url) in [
            ("http://localhost:5681", "http://localhost:5681/meshes"),
            ("https://cp.example.com/", "https://cp.example.com/meshes"),
            ("https://cp.example.com/kuma/", "https://cp.example.com/kuma/meshes"),
            ("http://[::1]:5681", "http://[::1]:5681/meshes"),
            ("unix:/tmp/kodiak.sock", "http://localhost/meshes"),
            ("unix:///tmp/kodiak.sock", "http://localhost/meshes"),
        ] {
            assert_eq!(Address::parse(text).unwrap().url("/meshes"), url);
        }
        for (text, why) in [
            ("localhost:5681", "http:// or https:// is missing"),
            ("localhost", "http:// or https:// is missing"),
            ("ftp://x", "it must start with http://"),
            ("unix:kodiak.sock", "must have an absolute path"),
            ("unix://kodiak.sock", "must have an absolute path"),
            ("http://", "is not the address"),
            ("http://a b", "is not the address"),
            ("http://admin:pw@cp", "must not contain a user name or password"),
            ("http://cp?x=1", "a query or a fragment"),
            ("http://cp#x", "a query or a fragment"),
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
            assert!(!error.contains("pw"), "{error}");
        }
    }

    #[test]
    fn recognises_loopback_addresses() {
        for (text, here) in [
            ("http://localhost:5681", true),
            ("http://127.0.0.2", true),
            ("http://[::1]:1", true),
            ("http://localhost.example.com", false),
            ("http://10.0.0.1", false),
            ("unix:/tmp/kodiak.sock", true),
        ] {
            assert_eq!(Address::parse(text).unwrap().is_loopback(), here, "{text}");
        }
    }

    #[test]
    fn encoded_segments_cannot_change_the_path() {
        assert_eq!(encode("demo-app.v1_x~"), "demo-app.v1_x~");
        assert_eq!(encode("a/b?c=d&é"), "a%2Fb%3Fc%3Dd%26%C3%A9");
        assert_eq!(encode(".."), "%2E%2E");
    }
}

//! Where a control plane is, and the URLs below it.

use std::fmt;
use std::path::{Path, PathBuf};

use hyper::Uri;

/// Where a control plane of this machine answers.
pub const LOCAL: &str = "http://localhost:5681";

/// The scheme of a socket of this machine.
const UNIX: &str = "unix:";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Scheme, host, port, and the path the API is served under; without a slash at the end.
    Url(String),
    /// A Unix socket of this machine: `unix:/var/lib/kodiak/kodiak.sock`.
    Socket(PathBuf),
}

impl Address {
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
            return Err(wrong("there must be nothing after the path"));
        }
        Ok(Self::Url(text.trim_end_matches('/').to_owned()))
    }

    pub fn is_https(&self) -> bool {
        match self {
            Self::Url(url) => url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://")),
            Self::Socket(_) => false,
        }
    }

    pub fn socket(&self) -> Option<&Path> {
        match self {
            Self::Url(_) => None,
            Self::Socket(path) => Some(path),
        }
    }

    /// Whether what is sent there stays on this machine.
    pub fn is_loopback(&self) -> bool {
        let Self::Url(url) = self else { return true };
        let host = url.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default();
        let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    }

    /// `path` starts with a slash, and its parts are encoded.
    pub fn url(&self, path: &str) -> String {
        match self {
            Self::Url(url) => format!("{url}{path}"),
            // The host is not looked at; HTTP needs one.
            Self::Socket(_) => format!("http://localhost{path}"),
        }
    }
}

/// A text that is not the address of a control plane.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("{0:?} must have the whole path: unix:/var/lib/kodiak/kodiak.sock")]
    RelativeSocket(String),
    #[error("{address:?} is not the address of a control plane: {reason}; write for example {LOCAL}")]
    Invalid { address: String, reason: String },
    /// The address is not repeated, since it holds a password.
    #[error("the address of a control plane must not hold a name or a password; use a token")]
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

/// One part of a path or of a query, whatever the text.
pub(crate) fn encode(text: &str) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::with_capacity(text.len());
    // A part that is only dots means another folder to some servers.
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
    fn addresses_are_checked() {
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
            ("unix:kodiak.sock", "must have the whole path"),
            ("unix://kodiak.sock", "must have the whole path"),
            ("http://", "is not the address"),
            ("http://a b", "is not the address"),
            ("http://admin:pw@cp", "must not hold a name or a password"),
            ("http://cp?x=1", "nothing after the path"),
            ("http://cp#x", "nothing after the path"),
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
            assert!(!error.contains("pw"), "{error}");
        }
    }

    #[test]
    fn this_machine_is_known() {
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
    fn parts_cannot_leave_their_place() {
        assert_eq!(encode("demo-app.v1_x~"), "demo-app.v1_x~");
        assert_eq!(encode("a/b?c=d&é"), "a%2Fb%3Fc%3Dd%26%C3%A9");
        assert_eq!(encode(".."), "%2E%2E");
    }
}

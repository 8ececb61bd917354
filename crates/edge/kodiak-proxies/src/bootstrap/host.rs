//! Whether the certificate of the control plane has the host that the proxy used.

use std::net::IpAddr;

use bytes::Bytes;
use http::{Request, header::HOST, uri::Authority};

/// Host of the request, without port and brackets.
pub(super) fn of_request(request: &Request<Bytes>) -> Option<String> {
    let header = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let authority: Authority = match (request.uri().authority(), header) {
        (Some(authority), _) => authority.clone(),
        (None, Some(header)) => header.parse().ok()?,
        (None, None) => return None,
    };
    let host = authority.host();
    let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    (!host.is_empty()).then(|| host.to_owned())
}

/// Whether one of these SANs matches the host.
pub(super) fn is_named(host: &str, names: &[String]) -> bool {
    let address: Option<IpAddr> = host.parse().ok();
    names.iter().any(|name| match address {
        Some(address) => name.parse() == Ok(address),
        None => same_name(host, name),
    })
}

fn same_name(host: &str, name: &str) -> bool {
    match (name.strip_prefix("*."), host.split_once('.')) {
        (Some(parent), Some((_, of_host))) => of_host.eq_ignore_ascii_case(parent),
        (Some(_), None) => false,
        (None, _) => host.eq_ignore_ascii_case(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_read_from_authority_or_header() {
        let asked = |uri: &str, host: Option<&str>| {
            let request = Request::builder().uri(uri);
            let request = if let Some(host) = host { request.header(HOST, host) } else { request };
            of_request(&request.body(Bytes::new()).unwrap())
        };
        assert_eq!(asked("/bootstrap", Some("cp.example:5678")).as_deref(), Some("cp.example"));
        assert_eq!(asked("https://cp.example:5678/bootstrap", None).as_deref(), Some("cp.example"));
        assert_eq!(asked("/bootstrap", Some("[::1]:5678")).as_deref(), Some("::1"));
        for nothing in [None, Some(""), Some("a b")] {
            assert_eq!(asked("/bootstrap", nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn names_and_addresses_are_compared_by_value() {
        let names = ["localhost", "*.mesh.example", "127.0.0.1", "::1"].map(str::to_owned);
        for host in ["localhost", "LocalHost", "cp.mesh.example", "127.0.0.1", "0:0:0:0:0:0:0:1"] {
            assert!(is_named(host, &names), "{host}");
        }
        for host in ["other", "mesh.example", "a.b.mesh.example", "127.0.0.2", "::2"] {
            assert!(!is_named(host, &names), "{host}");
        }
    }
}

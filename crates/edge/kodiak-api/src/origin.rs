//! Detection of local requests, which have administrator rights.
//!
//! A loopback address alone proves nothing: a local browser sends requests for any web page, and a local reverse proxy
//! forwards requests of remote clients. Any sign of either makes the request remote.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, Uri, Version, header, request::Parts, uri::Authority};

/// Headers that proxies, gateways and content delivery networks add to forwarded requests, except those that begin with
/// [`FORWARDED`].
const OF_PROXIES: &[&str] = &[
    "via",
    "forwarded",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-original-host",
    "x-original-forwarded-for",
    "x-originating-ip",
    "x-remote-ip",
    "x-remote-addr",
    "x-proxyuser-ip",
    "x-envoy-external-address",
    "x-envoy-original-path",
    "true-client-ip",
    "cf-connecting-ip",
    "cf-ray",
    "fastly-client-ip",
    "x-azure-clientip",
    "x-appengine-user-ip",
    "x-amzn-trace-id",
    "x-coming-from",
    "forwarded-for",
    "client-ip",
    "proxy-connection",
];
const FORWARDED: &str = "x-forwarded";

/// Whether a proxy forwarded the request, or a web page sent it. Neither reaches a Unix socket by accident, but somebody
/// may have put a proxy in front of it.
pub(crate) fn is_of_others(headers: &HeaderMap) -> bool {
    is_passed_on(headers) || headers.contains_key(header::ORIGIN) || !is_same_site(headers)
}

fn is_passed_on(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with(FORWARDED) || OF_PROXIES.contains(&name.as_str()))
}

pub(crate) fn is_local_person(peer: SocketAddr, tls: bool, parts: &Parts) -> bool {
    let Parts { uri, headers, version, .. } = parts;
    peer.ip().to_canonical().is_loopback()
        && !is_passed_on(headers)
        // Clients use HTTP/1.1 or newer; nginx forwards requests as HTTP/1.0 without added headers by default.
        && *version >= Version::HTTP_11
        && is_same_site(headers)
        && asked_host(uri, headers)
            .is_some_and(|host| is_loopback_host(host) && origin_is(host, if tls { "https" } else { "http" }, headers))
}

/// Host of a request. HTTP/2 has it in the URI.
fn asked_host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok(),
        (None, _) => uri.authority().map(Authority::as_str),
        (Some(_), Some(_)) => None,
    }
}

fn is_same_site(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all("sec-fetch-site").iter();
    values.all(|site| site == "same-origin" || site == "none")
}

/// A request with an `Origin` must come from a page of this server.
fn origin_is(host: &str, scheme: &str, headers: &HeaderMap) -> bool {
    headers.get_all(header::ORIGIN).iter().all(|origin| {
        let Some(rest) = origin.to_str().ok().and_then(|origin| origin.strip_prefix(scheme)) else { return false };
        let Some(authority) = rest.strip_prefix("://") else { return false };
        is_loopback_host(authority) && with_port(authority, scheme) == with_port(host, scheme)
    })
}

fn with_port<'a>(authority: &'a str, scheme: &str) -> Option<(&'a str, u16)> {
    let (host, port) = split(authority)?;
    Some((host, port.unwrap_or(if scheme == "https" { 443 } else { 80 })))
}

/// `localhost`, `127.0.0.1` or `[::1]`, with or without a port, and nothing else.
fn is_loopback_host(authority: &str) -> bool {
    let Some((host, _)) = split(authority) else { return false };
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn split(authority: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        return match after.strip_prefix(':') {
            Some(port) => Some((host, Some(port_of(port)?))),
            None => after.is_empty().then_some((host, None)),
        };
    }
    match authority.split_once(':') {
        Some((host, port)) => Some((host, Some(port_of(port)?))),
        None => Some((authority, None)),
    }
}

fn port_of(text: &str) -> Option<u16> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten().filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(version: Version, headers: &[(&'static str, &str)]) -> Parts {
        let request = axum::http::Request::get("/").version(version);
        headers
            .iter()
            .fold(request, |request, (name, value)| request.header(*name, *value))
            .body(())
            .unwrap()
            .into_parts()
            .0
    }

    #[test]
    fn requests_of_a_reverse_proxy_without_headers_are_remote() {
        let peer = "127.0.0.1:9".parse().unwrap();
        let host = [("host", "localhost:5681"), ("connection", "close")];
        assert!(!is_local_person(peer, false, &parts(Version::HTTP_10, &host)));
        assert!(is_local_person(peer, false, &parts(Version::HTTP_11, &host)));
    }

    #[track_caller]
    fn check(peer: &str, headers: &[(&'static str, &str)], expected: bool) {
        let found = is_local_person(peer.parse().unwrap(), false, &parts(Version::HTTP_11, headers));
        assert_eq!(found, expected, "{peer} {headers:?}");
    }

    #[test]
    fn requests_from_loopback_are_local() {
        check("127.0.0.1:9", &[("host", "localhost:5681")], true);
        check("[::1]:9", &[("host", "[::1]:5681")], true);
        check("[::ffff:127.0.0.1]:9", &[("host", "127.0.0.1")], true);
        check("127.0.0.1:9", &[("host", "localhost:5681"), ("origin", "http://localhost:5681")], true);
        check("127.0.0.1:9", &[("host", "localhost:5681"), ("sec-fetch-site", "none")], true);
        check("127.0.0.1:9", &[("host", "localhost"), ("origin", "http://localhost:80")], true);
    }

    #[test]
    fn any_proxy_header_makes_a_request_remote() {
        let local = ("host", "localhost:5681");
        for name in OF_PROXIES {
            check("127.0.0.1:9", &[local, (name, "x")], false);
        }
        for name in [
            "x-forwarded-for",
            "x-forwarded-host",
            "x-forwarded-proto",
            "x-forwarded-port",
            "x-forwarded-server",
            "x-forwarded-by",
            "x-forwarded-prefix",
            "x-forwarded-client-cert",
            "x-forwarded",
        ] {
            check("127.0.0.1:9", &[local, (name, "")], false);
        }
        check("127.0.0.1:9", &[local, ("user-agent", "curl"), ("accept", "*/*"), ("x-request-id", "1")], true);
    }

    #[test]
    fn signs_of_a_browser_or_proxy_make_a_request_remote() {
        let local = ("host", "localhost:5681");
        check("10.0.0.1:9", &[local], false);
        check("127.0.0.1:9", &[], false);
        check("127.0.0.1:9", &[local, local], false);
        check("127.0.0.1:9", &[("host", "evil.example:5681")], false);
        check("127.0.0.1:9", &[("host", "localhost.evil.example")], false);
        check("127.0.0.1:9", &[("host", "localhost:0")], false);
        check("127.0.0.1:9", &[("host", "localhost:+5681")], false);
        check("127.0.0.1:9", &[local, ("x-forwarded-for", "1.2.3.4")], false);
        check("127.0.0.1:9", &[local, ("forwarded", "for=1.2.3.4")], false);
        check("127.0.0.1:9", &[local, ("x-real-ip", "1.2.3.4")], false);
        check("127.0.0.1:9", &[local, ("sec-fetch-site", "cross-site")], false);
        check("127.0.0.1:9", &[local, ("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")], false);
        for origin in [
            "http://evil.example",
            "http://localhost:9999",
            "https://localhost:5681",
            "null",
            "http://localhost:5681/x",
            "http://a@localhost:5681",
        ] {
            check("127.0.0.1:9", &[local, ("origin", origin)], false);
        }
    }
}

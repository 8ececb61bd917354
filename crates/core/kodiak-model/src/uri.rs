//! Request targets: an absolute path or a URL. Parses just enough to report violations.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestUri<'a> {
    /// Empty when the URL has none.
    pub port: &'a str,
}

/// `None` when the text is neither an absolute path nor a URL with a scheme.
pub fn parse(text: &str) -> Option<RequestUri<'_>> {
    if text.bytes().any(|b| b < b' ' || b == 0x7f) {
        return None;
    }
    if text.starts_with('/') {
        return is_escaped(text).then_some(RequestUri { port: "" });
    }
    let (scheme, rest) = text.split_once(':')?;
    if !is_scheme(scheme) {
        return None;
    }
    let Some(rest) = rest.strip_prefix("//") else { return Some(RequestUri { port: "" }) };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if host.contains(' ') || !is_escaped(path) {
        return None;
    }
    port(host).map(|port| RequestUri { port })
}

/// The port after a host; `None` when it is invalid.
fn port(host: &str) -> Option<&str> {
    let after_name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.1,
        None => host.find(':').map_or("", |colon| &host[colon..]),
    };
    let port = if after_name.is_empty() { "" } else { after_name.strip_prefix(':')? };
    port.bytes().all(|b| b.is_ascii_digit()).then_some(port)
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

/// Whether every `%` starts a valid percent-encoding.
fn is_escaped(path_and_query: &str) -> bool {
    let path = path_and_query.split('?').next().unwrap_or_default();
    let starts_escape = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    path.split('%').skip(1).all(starts_escape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_paths_and_urls() {
        for (text, port) in [
            ("/healthz?full=1", ""),
            ("http://zipkin/api", ""),
            ("http://zipkin:9411/api", "9411"),
            ("http://user@[::1]:9411", "9411"),
            ("zipkin:9411/api", ""),
        ] {
            assert_eq!(parse(text), Some(RequestUri { port }), "{text}");
        }
    }

    #[test]
    fn rejects_invalid_request_targets() {
        for text in
            ["", "healthz", "/a%zz", "/a\u{1}", "1http://a", "http://a b/", "http://a:b/", "http://[::1/", "://a"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}

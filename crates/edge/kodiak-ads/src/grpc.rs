//! The parts of gRPC that HTTP carries in headers and trailers.
//!
//! <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>

use std::fmt::Write as _;

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};

use crate::proxies::{Closing, Credential};

pub(crate) const CONTENT: HeaderValue = HeaderValue::from_static("application/grpc");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// Accepted encodings: none. Clients compress only with an encoding that was announced.
const ACCEPTED: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// Longer messages are truncated: peers bound the size of trailers.
const LONGEST_MESSAGE: usize = 4096;

/// `application/grpc`, with or without the name of an encoding, but not `application/grpc-web`.
pub(crate) fn is_grpc<B>(request: &Request<B>) -> bool {
    let content = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let rest = content.strip_prefix("application/grpc");
    request.method() == Method::POST && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', ';']))
}

/// The `authorization` header of the stream, if it has exactly one.
pub(crate) fn credential(headers: &HeaderMap) -> Credential {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let only = values.next().filter(|_| values.next().is_none());
    Credential(only.and_then(|value| value.to_str().ok()).map(str::to_owned))
}

/// A response without messages: the status is in the headers.
pub(crate) fn only_trailers<B: Default>(closing: &Closing) -> Response<B> {
    let mut response = opening(B::default());
    response.headers_mut().extend(trailers(closing));
    response
}

/// A response whose status is in the trailers.
pub(crate) fn opening<B>(body: B) -> Response<B> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, CONTENT);
    response.headers_mut().insert(ACCEPTED, HeaderValue::from_static("identity"));
    response
}

pub(crate) fn trailers(closing: &Closing) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(2);
    trailers.insert(STATUS, HeaderValue::from(u16::from(closing.code)));
    if !closing.message.is_empty() {
        let message = HeaderValue::try_from(percent_encoded(&closing.message));
        trailers.insert(MESSAGE, message.expect("the encoded message is visible ASCII and spaces"));
    }
    trailers
}

fn percent_encoded(message: &str) -> String {
    let message = &message[..message.floor_char_boundary(LONGEST_MESSAGE)];
    message.bytes().fold(String::with_capacity(message.len()), |mut encoded, byte| {
        match byte {
            b'%' | ..0x20 | 0x7f.. => write!(encoded, "%{byte:02X}").expect("writing to a string does not fail"),
            _ => encoded.push(char::from(byte)),
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_encoded_for_headers() {
        for (message, encoded) in [
            ("no such mesh", "no such mesh"),
            ("100%", "100%25"),
            ("a\nb\u{7f}", "a%0Ab%7F"),
            ("für", "f%C3%BCr"),
            ("~\t!", "~%09!"),
        ] {
            assert_eq!(percent_encoded(message), encoded);
        }
        assert_eq!(percent_encoded(&"é".repeat(4000)).len(), 3 * LONGEST_MESSAGE);
    }

    #[test]
    fn an_end_without_a_message_has_only_a_status() {
        let trailers = trailers(&Closing { code: 0, message: String::new() });
        assert_eq!(trailers.len(), 1);
        assert_eq!(trailers["grpc-status"], "0");
    }

    #[test]
    fn grpc_is_detected_by_method_and_content_type() {
        let is = |method: &str, content: &str| {
            is_grpc(&Request::builder().method(method).header("content-type", content).body(()).unwrap())
        };
        assert!(is("POST", "application/grpc"));
        assert!(is("POST", "application/grpc+proto"));
        assert!(is("POST", "application/grpc; charset=utf-8"));
        assert!(!is("GET", "application/grpc"));
        assert!(!is("POST", "application/grpc-web"));
        assert!(!is("POST", "application/json"));
        assert!(!is_grpc(&Request::builder().method("POST").body(()).unwrap()));
    }

    #[test]
    fn only_a_single_authorization_header_counts() {
        let of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("authorization", HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            credential(&headers).0
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["token"]).as_deref(), Some("token"));
        assert_eq!(of(&["token", "token"]), None);
        assert_eq!(of(&["tökén"]), None);
    }
}

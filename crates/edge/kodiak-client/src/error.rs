//! Errors of requests, and advice on what to do about them.

use std::error::Error;
use std::time::Duration;
use std::{fmt, io};

use hyper::StatusCode;
use kodiak_model::{GoDuration, Problem};
use serde::Deserialize;

/// A failed request. [`ClientError::advice`] says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection, or it was lost before the response.
    #[error("cannot reach the control plane at {address}")]
    Unreachable { address: String, failure: ConnectFailure, source: RootCause },
    #[error("the control plane at {address} did not answer within {}", shown(*after))]
    TimedOut { address: String, after: Duration },
    /// The control plane answered with an error.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// `what` is the method and path of the request.
    #[error("the control plane at {address} answered {what} with more than {} MiB", super::MAX_RESPONSE >> 20)]
    TooLarge { address: String, what: String },
    #[error("the response of {address} to {what} is not that of a control plane")]
    NotUnderstood { address: String, what: String, source: serde_json::Error },
    #[error("{address} answered {what} with pages that do not end")]
    Endless { address: String, what: String },
    /// The output of [`Client::backup`](crate::Client::backup) failed.
    #[error("cannot write the backup")]
    Backup(#[source] io::Error),
}

impl ClientError {
    /// Whether no response arrived: the request may be retried, or sent to another control plane.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::TimedOut { .. })
    }

    /// Error response of the control plane, if there is one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::TooLarge { .. }
            | Self::NotUnderstood { .. }
            | Self::Endless { .. }
            | Self::Backup(_) => None,
        }
    }

    /// How to correct the configuration of the client.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Unreachable { failure: ConnectFailure::Certificate, .. } => {
                Some("the certificate is not issued by a trusted CA: set Endpoint::ca_cert_file")
            }
            Self::Unreachable { failure: ConnectFailure::NotTls, .. } => {
                Some("the port does not speak TLS: use http://, or the HTTPS port (5682 by default)")
            }
            Self::Unreachable { failure: ConnectFailure::Connection, .. } => {
                Some("check that the control plane runs and that the address is right")
            }
            Self::TimedOut { .. } => Some("retry, or allow more time"),
            Self::Refused(refusal) => refusal.advice(),
            Self::TooLarge { .. } | Self::NotUnderstood { .. } | Self::Endless { .. } => {
                Some("check that the address is that of a control plane")
            }
            Self::Backup(_) => Some("check that there is room and permission to write"),
        }
    }
}

/// Reason why the control plane is unreachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectFailure {
    /// Refused, unresolved, reset or any other failure of the connection.
    Connection,
    /// The certificate of the server is not trusted.
    Certificate,
    /// The server does not speak TLS.
    NotTls,
}

/// Innermost cause of a failed connection. Those around it only say that it failed.
#[derive(Debug)]
pub struct RootCause(String);

impl RootCause {
    pub(crate) fn of(error: &(dyn Error + 'static)) -> (ConnectFailure, Self) {
        let mut failure = ConnectFailure::Connection;
        let mut innermost = error;
        loop {
            if let Some(tls) = innermost.downcast_ref::<rustls::Error>() {
                failure = of_tls(tls);
            }
            // The source of an I/O error that wraps another error is the source of that error.
            let wrapped = innermost.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
            match wrapped.map(|error| error as &(dyn Error + 'static)).or_else(|| innermost.source()) {
                Some(inner) => innermost = inner,
                None => return (failure, Self(innermost.to_string())),
            }
        }
    }
}

fn of_tls(error: &rustls::Error) -> ConnectFailure {
    match error {
        rustls::Error::InvalidCertificate(_) => ConnectFailure::Certificate,
        rustls::Error::InvalidMessage(_) => ConnectFailure::NotTls,
        _ => ConnectFailure::Connection,
    }
}

impl fmt::Display for RootCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for RootCause {}

/// Error response of a control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    pub title: String,
    pub detail: String,
    /// Problems of the resource in the request.
    pub problems: Vec<Problem>,
}

/// Characters to show of a response that is not an error body of the API.
const LONGEST_TEXT: usize = 200;

impl Refusal {
    /// Reads the body of an error response, whatever it is.
    pub fn read(status: StatusCode, body: &[u8]) -> Self {
        let body_of_error = serde_json::from_slice::<ErrorBody>(body).ok().filter(|body| !body.title.is_empty());
        match body_of_error {
            Some(body) => body.into_refusal(status),
            None => Self {
                status,
                title: status.to_string(),
                detail: String::from_utf8_lossy(body).trim().chars().take(LONGEST_TEXT).collect(),
                problems: Vec::new(),
            },
        }
    }

    /// 404.
    pub fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// 409: another write came first.
    pub fn is_conflict(&self) -> bool {
        self.status == StatusCode::CONFLICT
    }

    fn advice(&self) -> Option<&'static str> {
        match self.status {
            StatusCode::UNAUTHORIZED => Some("the token was not accepted: set a valid one in Endpoint::token"),
            StatusCode::FORBIDDEN => Some("the user lacks the permission: use a token of another user"),
            status if status.is_redirection() => Some("redirects are not followed: use the address it points to"),
            _ => None,
        }
    }
}

/// Formats durations the way users write them.
fn shown(duration: Duration) -> String {
    let millis = i64::try_from(duration.as_millis()).ok().filter(|millis| millis.checked_mul(1_000_000).is_some());
    millis.map_or_else(|| format!("{duration:?}"), |millis| GoDuration::from_millis(millis).to_string())
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title)?;
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        for problem in &self.problems {
            write!(f, "\n* {problem}")?;
        }
        Ok(())
    }
}

impl Error for Refusal {}

/// Error body of the API. Older servers send only `details` and `causes`.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct ErrorBody {
    title: String,
    detail: String,
    details: String,
    invalid_parameters: Vec<InvalidParameter>,
    causes: Vec<OldCause>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct InvalidParameter {
    field: String,
    reason: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OldCause {
    field: String,
    message: String,
}

impl ErrorBody {
    fn into_refusal(self, status: StatusCode) -> Refusal {
        let Self { title, detail, details, invalid_parameters, causes } = self;
        let mut problems: Vec<_> = invalid_parameters
            .into_iter()
            .map(|InvalidParameter { field, reason }| Problem { path: field, message: reason })
            .collect();
        if problems.is_empty() {
            problems.extend(causes.into_iter().map(|OldCause { field, message }| Problem { path: field, message }));
        }
        Refusal { status, title, detail: if detail.is_empty() { details } else { detail }, problems }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(status: u16, body: &str, expected: &Expect) {
        let refusal = Refusal::read(StatusCode::from_u16(status).unwrap(), body.as_bytes());
        expected.assert_eq(&refusal.to_string());
    }

    #[test]
    fn reads_the_error_body_of_the_api() {
        check(
            400,
            r#"{"type":"/std-errors","status":400,"title":"Could not process a resource","detail":"Resource is not valid",
                "invalid_parameters":[{"field":"spec.to[0]","reason":"must be set"},{"field":"","reason":"odd"}],
                "details":"Resource is not valid","causes":[{"field":"spec.to[0]","message":"must be set"}]}"#,
            &expect![[r#"
                Could not process a resource (Resource is not valid)
                * spec.to[0]: must be set
                * odd"#]],
        );
    }

    #[test]
    fn reads_older_error_bodies() {
        check(
            400,
            r#"{"title":"Invalid","details":"old","causes":[{"field":"mesh","message":"cannot be empty"}]}"#,
            &expect![[r#"
                Invalid (old)
                * mesh: cannot be empty"#]],
        );
    }

    #[test]
    fn truncates_text_that_is_no_error_body() {
        check(404, "404: Page Not Found\n", &expect!["404 Not Found (404: Page Not Found)"]);
        check(502, "", &expect!["502 Bad Gateway"]);
        check(500, r#"{"title": 5}"#, &expect![[r#"500 Internal Server Error ({"title": 5})"#]]);
        let long = Refusal::read(StatusCode::BAD_GATEWAY, "x".repeat(5000).as_bytes());
        assert_eq!(long.detail.len(), LONGEST_TEXT);
    }

    #[test]
    fn advises_what_to_do_about_a_refusal() {
        let advice = |status| Refusal::read(status, b"").advice().unwrap_or_default();
        assert!(advice(StatusCode::UNAUTHORIZED).contains("token"));
        assert!(advice(StatusCode::FORBIDDEN).contains("permission"));
        assert!(advice(StatusCode::FOUND).contains("not followed"));
        assert_eq!(advice(StatusCode::BAD_REQUEST), "");
    }

    #[test]
    fn shows_time_limits_as_users_write_them() {
        let shown = |after| ClientError::TimedOut { address: "http://cp".to_owned(), after }.to_string();
        assert_eq!(shown(Duration::from_mins(1)), "the control plane at http://cp did not answer within 1m0s");
        assert_eq!(shown(Duration::from_secs(5)), "the control plane at http://cp did not answer within 5s");
        assert!(shown(Duration::MAX).contains("did not answer within"));
    }
}

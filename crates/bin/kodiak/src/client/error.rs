//! What can go wrong between us and a control plane, and what to do about it.

use std::error::Error;
use std::fmt;

use hyper::StatusCode;
use kodiak_model::Problem;
use serde::Deserialize;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("cannot reach the control plane at {address}")]
    Unreachable { address: String, trouble: Trouble, source: Cause },
    #[error("the control plane at {address} did not answer within {after}")]
    TimedOut { address: String, after: String },
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the control plane at {address} answered {what} with more than {} MiB", super::MAX_ANSWER >> 20)]
    TooLarge { address: String, what: String },
    #[error("the answer of {address} to {what} is not what a control plane says")]
    NotUnderstood { address: String, what: String, source: serde_json::Error },
    #[error("{address} answered {what} with lists that do not end")]
    Endless { address: String, what: String },
}

impl ClientError {
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::TimedOut { .. })
    }

    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::TooLarge { .. }
            | Self::NotUnderstood { .. }
            | Self::Endless { .. } => None,
        }
    }

    /// What the user can do.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { trouble: Trouble::Certificate, .. } => Some(
                "Its certificate is not one that this machine trusts. Kodiak never skips this check; pass the CA instead:\n  \
                 kodiak config control-planes add --name NAME --address URL --ca-cert-file CA.pem"
                    .to_owned(),
            ),
            Self::Unreachable { trouble: Trouble::NotTls, .. } => {
                Some("Does it speak HTTPS? By default HTTP is on port 5681 and HTTPS on port 5682.".to_owned())
            }
            Self::Unreachable { trouble: Trouble::Connection, .. } => Some(
                "Start a control plane with\n  kodiak run\nor choose another one with\n  kodiak --cp URL …\n  \
                 kodiak config control-planes add --name NAME --address URL"
                    .to_owned(),
            ),
            Self::TimedOut { .. } => Some("Wait longer with --api-timeout, or choose another one with --cp URL.".to_owned()),
            Self::Refused(refusal) => refusal.hint(),
            Self::TooLarge { .. } | Self::NotUnderstood { .. } | Self::Endless { .. } => None,
        }
    }
}

/// What kept us from the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    Connection,
    Certificate,
    /// We spoke TLS, the other side did not.
    NotTls,
}

/// The innermost reason. Those around it only say that we tried to connect.
#[derive(Debug)]
pub(crate) struct Cause(String);

impl Cause {
    pub(crate) fn of(error: &(dyn Error + 'static)) -> (Trouble, Self) {
        let mut trouble = Trouble::Connection;
        let mut innermost = error;
        loop {
            if let Some(tls) = innermost.downcast_ref::<rustls::Error>() {
                trouble = of_tls(tls);
            }
            // An I/O error that wraps another error names the source of that one as its own.
            let wrapped = innermost.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
            match wrapped.map(|error| error as &(dyn Error + 'static)).or_else(|| innermost.source()) {
                Some(inner) => innermost = inner,
                None => return (trouble, Self(innermost.to_string())),
            }
        }
    }
}

fn of_tls(error: &rustls::Error) -> Trouble {
    match error {
        rustls::Error::InvalidCertificate(_) => Trouble::Certificate,
        rustls::Error::InvalidMessage(_) => Trouble::NotTls,
        _ => Trouble::Connection,
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Cause {}

/// An answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) title: String,
    pub(crate) detail: String,
    /// What is wrong with the resource that was sent.
    pub(crate) problems: Vec<Problem>,
}

/// More of a text that is not ours is noise.
const LONGEST_TEXT: usize = 200;

impl Refusal {
    pub(crate) fn read(status: StatusCode, body: &[u8]) -> Self {
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

    pub(crate) fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    pub(crate) fn is_conflict(&self) -> bool {
        self.status == StatusCode::CONFLICT
    }

    fn hint(&self) -> Option<String> {
        let with_token = "kodiak config control-planes add --name NAME --address URL --overwrite --auth-type tokens --auth-conf token=TOKEN";
        match self.status {
            StatusCode::UNAUTHORIZED => Some(format!("The token was not accepted. Set a new one with\n  {with_token}")),
            StatusCode::FORBIDDEN => Some(format!(
                "`kodiak who-am-i` shows who you are to the control plane. To be someone else, set a token with\n  {with_token}"
            )),
            status if status.is_redirection() => {
                Some("Redirects are not followed: use the address it points to.".to_owned())
            }
            _ => None,
        }
    }
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

/// The error body of the API. Older servers send only `details` and `causes`.
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
    fn the_body_of_an_error_is_read() {
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
    fn older_bodies_are_read_too() {
        check(
            400,
            r#"{"title":"Invalid","details":"old","causes":[{"field":"mesh","message":"cannot be empty"}]}"#,
            &expect![[r#"
                Invalid (old)
                * mesh: cannot be empty"#]],
        );
    }

    #[test]
    fn text_that_is_no_error_body_is_shown_in_part() {
        check(404, "404: Page Not Found\n", &expect!["404 Not Found (404: Page Not Found)"]);
        check(502, "", &expect!["502 Bad Gateway"]);
        check(500, r#"{"title": 5}"#, &expect![[r#"500 Internal Server Error ({"title": 5})"#]]);
        let long = Refusal::read(StatusCode::BAD_GATEWAY, "x".repeat(5000).as_bytes());
        assert_eq!(long.detail.len(), LONGEST_TEXT);
    }

    #[test]
    fn who_is_refused_learns_how_to_get_in() {
        let refused = |status| Refusal::read(status, b"").hint().unwrap_or_default();
        assert!(refused(StatusCode::UNAUTHORIZED).contains("--auth-conf token="));
        assert!(refused(StatusCode::FORBIDDEN).contains("who-am-i"));
        assert!(refused(StatusCode::FOUND).contains("not followed"));
        assert_eq!(refused(StatusCode::BAD_REQUEST), "");
    }
}

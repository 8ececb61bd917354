//! Validation of retry conditions.

use kodiak_model::{Choice, FieldPath, Problems};

use crate::mesh_retry::GrpcRetryOn;

const HTTP_CONDITIONS: &[&str] = &[
    "5xx",
    "GatewayError",
    "Reset",
    "Retriable4xx",
    "ConnectFailure",
    "EnvoyRatelimited",
    "RefusedStream",
    "Http3PostConnectFailure",
    "HttpMethodConnect",
    "HttpMethodDelete",
    "HttpMethodGet",
    "HttpMethodHead",
    "HttpMethodOptions",
    "HttpMethodPatch",
    "HttpMethodPost",
    "HttpMethodPut",
    "HttpMethodTrace",
];

pub(super) fn check_http(conditions: &[String], at: &FieldPath<'_>, problems: &mut Problems) {
    for (n, condition) in conditions.iter().enumerate() {
        if !HTTP_CONDITIONS.contains(&condition.as_str()) && !is_status_code(condition) {
            problems.add(&at.index(n), format!("unknown item '{condition}'"));
        }
    }
}

pub(super) fn check_grpc(conditions: &[Choice<GrpcRetryOn>], at: &FieldPath<'_>, problems: &mut Problems) {
    for (n, condition) in conditions.iter().enumerate() {
        if let Choice::Unknown(text) = condition {
            problems.add(&at.index(n), format!("unknown item '{text}'"));
        }
    }
}

/// A status code that has a name.
fn is_status_code(text: &str) -> bool {
    matches!(
        text.parse::<u16>(),
        Ok(
            100..=103
            | 200..=208
            | 226
            | 300..=305
            | 307
            | 308
            | 400..=418
            | 421..=426
            | 428
            | 429
            | 431
            | 451
            | 500..=508
            | 510
            | 511,
        )
    )
}

#[cfg(test)]
mod tests {
    use super::is_status_code;

    #[test]
    fn accepts_only_named_status_codes() {
        for code in ["100", "226", "404", "418", "503", "511"] {
            assert!(is_status_code(code), "{code}");
        }
        for code in ["", "0", "99", "306", "419", "509", "599", "70000", "-1", "5XX", "50x"] {
            assert!(!is_status_code(code), "{code}");
        }
    }
}

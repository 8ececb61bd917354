//! The parameters of questions about proxies.

use super::Asked;
use crate::ApiError;

/// In all spellings that clients of Kuma know.
pub(crate) fn flag(asked: &Asked, name: &str) -> Result<Option<bool>, ApiError> {
    asked.query_value(name).map(|text| read_flag(&text).ok_or_else(|| unsupported(name))).transpose()
}

fn read_flag(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

pub(super) fn includes_diff(asked: &Asked) -> Result<bool, ApiError> {
    match asked.query_value("include").as_deref() {
        None => Ok(false),
        Some("diff") => Ok(true),
        Some(_) => Err(unsupported("include")),
    }
}

/// Text, unless something else is asked for.
pub(super) fn wants_json(asked: &Asked) -> Result<bool, ApiError> {
    match asked.query_value("format").as_deref() {
        None | Some("" | "text") => Ok(false),
        Some("json") => Ok(true),
        Some(_) => Err(unsupported("format")),
    }
}

fn unsupported(name: &str) -> ApiError {
    ApiError::bad_request(format_args!("unsupported value for query parameter '{name}'"))
}

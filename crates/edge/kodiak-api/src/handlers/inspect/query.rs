//! Query parameters of the inspection routes.

use super::Question;
use crate::ApiError;

/// Boolean, in all spellings that Go's `strconv.ParseBool` accepts, as in Kuma.
pub(crate) fn flag(call: &Question, name: &str) -> Result<Option<bool>, ApiError> {
    call.query_value(name).map(|text| read_flag(&text).ok_or_else(|| unsupported(name))).transpose()
}

fn read_flag(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

pub(super) fn includes_diff(call: &Question) -> Result<bool, ApiError> {
    match call.query_value("include").as_deref() {
        None => Ok(false),
        Some("diff") => Ok(true),
        Some(_) => Err(unsupported("include")),
    }
}

/// Parameter `format`: text by default.
pub(super) fn wants_json(call: &Question) -> Result<bool, ApiError> {
    match call.query_value("format").as_deref() {
        None | Some("" | "text") => Ok(false),
        Some("json") => Ok(true),
        Some(_) => Err(unsupported("format")),
    }
}

fn unsupported(name: &str) -> ApiError {
    ApiError::bad_request(format_args!("unsupported value for query parameter '{name}'"))
}

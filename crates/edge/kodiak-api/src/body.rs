//! Request bodies: JSON, limited in size and time.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

use crate::{ApiError, go_json::syntax_error};

const MAX_BYTES: usize = 4 * 1024 * 1024;
const TIME: Duration = Duration::from_secs(10);

pub(crate) async fn read(headers: &HeaderMap, body: Body) -> Result<Vec<u8>, ApiError> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        let text = "415: Unsupported Media Type\nset the header Content-Type: application/json\n";
        return Err(ApiError::plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    let whole = axum::body::to_bytes(body, MAX_BYTES);
    match tokio::time::timeout(TIME, whole).await {
        Ok(Ok(bytes)) => Ok(bytes.into()),
        Ok(Err(error)) if error.to_string().contains("length limit") => {
            let detail = format!("the request body is larger than {} MiB; split the request", MAX_BYTES / 1024 / 1024);
            Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "Request body too large", detail))
        }
        Ok(Err(_)) | Err(_) => Err(ApiError::bad_request("the request body is incomplete; send it again")),
    }
}

/// Parses a body as JSON. `what` names the expected document in the error.
pub(crate) fn document(bytes: &[u8], what: &str) -> Result<Value, ApiError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let detail = format!("invalid {what} object: {:?}", syntax_error(bytes, &error));
        ApiError::new(StatusCode::BAD_REQUEST, "Bad Request", detail)
    })
}

/// Parses a body into a request type.
pub(crate) fn typed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let text = if error.is_syntax() || error.is_eof() { syntax_error(bytes, &error) } else { error.to_string() };
        ApiError::bad_request(text)
    })
}

/// Field of a request whose `null` means that it is not set, as in Go.
pub(crate) fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

//! Request bodies: JSON, limited in size, in time and in the number of documents.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
};
use bytes::Bytes;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

use crate::{ApiError, User, config::AccessConfig, go_json::syntax_error};

const TOO_LARGE: &str = "Request body too large";

const TIME: Duration = Duration::from_secs(10);

/// Largest request body, and most documents in it, of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DocumentLimits {
    pub(crate) bytes: usize,
    pub(crate) documents: usize,
}

impl DocumentLimits {
    const WRITERS: Self = Self { bytes: 4 * 1024 * 1024, documents: 10_000 };
    /// A few policies.
    const READERS: Self = Self { bytes: 256 * 1024, documents: 50 };

    /// Those of users who may write are larger: they could store the same documents.
    pub(crate) fn of(access: &AccessConfig, user: &User) -> Self {
        if access.modify_resources.allows(user) { Self::WRITERS } else { Self::READERS }
    }

    pub(crate) fn check(self, documents: usize) -> Result<(), ApiError> {
        if documents <= self.documents {
            return Ok(());
        }
        let most = self.documents;
        let detail =
            format!("the request has {documents} documents, and at most {most} are allowed; {}", self.advice());
        Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE, detail))
    }

    fn advice(self) -> &'static str {
        if self == Self::READERS {
            "split the request, or use the token of a user who may write (access modifyResources), who has larger limits"
        } else {
            "split the request"
        }
    }
}

pub(crate) async fn read(headers: &HeaderMap, body: Body, limits: DocumentLimits) -> Result<Bytes, ApiError> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        let text = "415: Unsupported Media Type\nset the header Content-Type: application/json\n";
        return Err(ApiError::plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    let whole = axum::body::to_bytes(body, limits.bytes);
    match tokio::time::timeout(TIME, whole).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if error.to_string().contains("length limit") => {
            let most = if limits.bytes < 1024 * 1024 {
                format!("{} KiB", limits.bytes / 1024)
            } else {
                format!("{} MiB", limits.bytes / 1024 / 1024)
            };
            let detail = format!("the request body is larger than {most}; {}", limits.advice());
            Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE, detail))
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

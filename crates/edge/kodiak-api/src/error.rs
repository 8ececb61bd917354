//! Error responses: one JSON body for all errors.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use kodiak_catalog::{Refusal, Stage};
use kodiak_kinds::LegacyKind;
use kodiak_model::{Cancelled, Problems};
use kodiak_pool::PoolError;
use kodiak_tokens::TokenError;
use serde::Serialize;

/// Most computed answers take less time.
const RETRY_AFTER: u32 = 5;

/// Error response. `detail` is the cause, `problems` has the invalid fields.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    title: String,
    detail: String,
    problems: Problems,
    form: Form,
    /// Seconds after which the request may succeed.
    retry_after: Option<u32>,
}

/// Kuma sends plain text when it cannot route or read a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Plain,
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    error_type: &'a str,
    status: u16,
    title: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    invalid_parameters: Vec<Parameter<'a>>,
    /// Legacy names of `detail` and `invalid_parameters`, which Kuma's clients still read.
    details: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<Cause<'a>>,
}

#[derive(Serialize)]
struct Parameter<'a> {
    field: &'a str,
    reason: &'a str,
}

#[derive(Serialize)]
struct Cause<'a> {
    field: &'a str,
    message: &'a str,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, title: &str, detail: impl Into<String>) -> Self {
        Self {
            status,
            title: title.to_owned(),
            detail: detail.into(),
            problems: Problems::default(),
            form: Form::Json,
            retry_after: None,
        }
    }

    pub(crate) fn plain(status: StatusCode, text: &str) -> Self {
        Self { form: Form::Plain, ..Self::new(status, "", text) }
    }

    pub(crate) fn page_not_found() -> Self {
        // Kuma's clients match this text.
        Self::plain(StatusCode::NOT_FOUND, "404: Page Not Found")
    }

    pub(crate) fn legacy_kind(kind: &LegacyKind) -> Self {
        Self::new(StatusCode::NOT_FOUND, "Kind not supported", kind.advice())
    }

    pub(crate) fn bad_request(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "Bad Request", format!("bad request: {detail}"))
    }

    pub(crate) fn not_found(title: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, title, "Not found")
    }

    pub(crate) fn invalid(title: &str, detail: &str, problems: Problems) -> Self {
        Self { problems, ..Self::new(StatusCode::BAD_REQUEST, title, detail) }
    }

    pub(crate) fn method_not_allowed(detail: &str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed", detail)
    }

    pub(crate) fn denied(user: &str, action: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Access Denied", format!("user {user:?} cannot access {action}"))
    }

    pub(crate) fn unauthenticated() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Invalid authentication data", "Unauthenticated")
    }

    /// The pool gave no answer.
    pub(crate) fn not_computed(error: PoolError) -> Self {
        let busy = |title: &str, detail: &str| Self {
            retry_after: Some(RETRY_AFTER),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, title, detail)
        };
        match error {
            PoolError::Full => busy(
                "Control plane is busy",
                "too many requests wait for an answer that is computed from a whole mesh; try again in a few seconds. \
                 Requests with a user token have a part of the queue to themselves",
            ),
            PoolError::TooLong(longest) => busy(
                "Timeout",
                &format!(
                    "computing the answer took longer than {} s and was cancelled; ask about fewer documents or a part \
                     of the mesh, or try again when the control plane has less to do",
                    longest.as_secs()
                ),
            ),
            PoolError::Panicked => {
                tracing::error!("computing an answer panicked");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Could not compute the answer", "Internal Server Error")
            }
        }
    }

    /// Failure to issue a token.
    pub(crate) fn issue(error: &TokenError) -> Self {
        match error {
            TokenError::KeyNotFound { .. } => {
                Self::new(StatusCode::NOT_FOUND, "Signing Key not found", error.to_string())
            }
            other => {
                tracing::error!(error = %other, "failed to issue a token");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Could not issue a token", "Internal Server Error")
            }
        }
    }

    /// `not_found` is the title for a resource that does not exist.
    pub(crate) fn refused(refusal: Refusal, not_found: &str) -> Self {
        match refusal {
            Refusal::NoMesh => Self::not_found("Failed to retrieve Mesh"),
            Refusal::NotFound => Self::not_found(not_found),
            Refusal::UnreadableMesh(_) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Mesh is unreadable", refusal.to_string())
            }
            Refusal::Malformed(detail) => Self::new(StatusCode::BAD_REQUEST, "Bad Request", detail),
            Refusal::Invalid { stage, problems } => Self::invalid(title_of(stage), "Resource is not valid", problems),
            Refusal::Denied { problems } => {
                let detail = "the resource references a Secret that its author may not read";
                Self { problems, ..Self::new(StatusCode::FORBIDDEN, "Access Denied", detail) }
            }
            Refusal::Conflict(key) => {
                let (kind, name, mesh) = (&key.kind, &key.name, &key.mesh);
                let detail = format!("resource conflict: type={kind:?} name={name:?} mesh={mesh:?}");
                Self::new(StatusCode::CONFLICT, "Conflict", detail)
            }
            Refusal::Cancelled(cancelled) => cancelled.into(),
            Refusal::Store(error) => {
                tracing::error!(error = chain(&error), "store write failed");
                let detail =
                    format!("{}. The change may have been stored: check the resource, then try again", chain(&error));
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "Store not available", detail)
            }
            Refusal::Make(error) => {
                tracing::error!(error = chain(error.as_ref()), "failed to create the dependents of a resource");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Could not process a resource", "Internal Server Error")
            }
        }
    }
}

fn title_of(stage: Stage) -> &'static str {
    match stage {
        Stage::Check => "Could not process a resource",
        Stage::Create => "Failed to create a resource",
        Stage::Update => "Failed to update a resource",
        Stage::Labels => "Could not update a resource",
        Stage::Delete => "Could not delete a resource",
    }
}

/// Error with its chain of causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self { status, title, detail, problems, form, retry_after } = &self;
        if *form == Form::Plain {
            return (*status, detail.clone()).into_response();
        }
        let body = Body {
            error_type: "/std-errors",
            status: status.as_u16(),
            title,
            detail,
            invalid_parameters: problems.iter().map(|p| Parameter { field: &p.path, reason: &p.message }).collect(),
            details: detail,
            causes: problems.iter().map(|p| Cause { field: &p.path, message: &p.message }).collect(),
        };
        let text = serde_json::to_string(&body).expect("the body is made of strings and lists");
        let mut response = (*status, [(header::CONTENT_TYPE, "application/json")], text).into_response();
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, (*seconds).into());
        }
        response
    }
}

/// Nobody waits for the answer of a cancelled computation.
impl From<Cancelled> for ApiError {
    fn from(cancelled: Cancelled) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Cancelled", cancelled.to_string())
    }
}

//! Issuing tokens.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use kodiak_model::{FieldPath, Problems, ResourceKey};
use kodiak_tokens::{
    DataplaneClaims, TEN_YEARS, TokenError, UserClaims, ZoneClaims, issue_dataplane, issue_user, issue_zone,
    names::TokenKind, parse_valid_for,
};
use serde::Deserialize;

use super::ApiCall;
use crate::{
    Api, ApiError,
    body::{self, DocumentLimits},
};

const INVALID: &str = "Invalid request";

/// Optional fields may be `null`: Go clients send empty lists and maps so.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct DataplaneRequest {
    #[serde(deserialize_with = "body::or_default")]
    name: String,
    #[serde(deserialize_with = "body::or_default")]
    mesh: String,
    #[serde(deserialize_with = "body::or_default")]
    tags: BTreeMap<String, Vec<String>>,
    #[serde(rename = "type", deserialize_with = "body::or_default")]
    proxy_type: String,
    #[serde(deserialize_with = "body::or_default")]
    workload: String,
    #[serde(deserialize_with = "body::or_default")]
    labels: BTreeMap<String, Vec<String>>,
    #[serde(deserialize_with = "body::or_default")]
    valid_for: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ZoneRequest {
    #[serde(deserialize_with = "body::or_default")]
    zone: String,
    #[serde(deserialize_with = "body::or_default")]
    scope: Vec<String>,
    #[serde(deserialize_with = "body::or_default")]
    valid_for: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct UserRequest {
    #[serde(deserialize_with = "body::or_default")]
    name: String,
    #[serde(deserialize_with = "body::or_default")]
    groups: Vec<String>,
    #[serde(deserialize_with = "body::or_default")]
    valid_for: String,
}

pub(crate) async fn dataplane(api: Api, call: ApiCall) -> Result<Response, ApiError> {
    require_issuer(api.config().issue.dataplane)?;
    let limits = DocumentLimits::of(&api.config().access, &call.user);
    let bytes = body::read(&call.headers, call.body, limits).await?;
    let request: DataplaneRequest = body::typed(&bytes)?;
    let mut problems = Problems::default();
    if request.mesh.is_empty() {
        problems.add(&FieldPath::MESH, "cannot be empty");
    } else if api.catalog().store().get(&ResourceKey::global("Mesh", &request.mesh)).is_none() {
        problems.add(&FieldPath::MESH, format!("mesh of name {} is not found", request.mesh));
    }
    if !["", "dataplane", "ingress", "egress"].contains(&request.proxy_type.as_str()) {
        problems.add(&FieldPath::TYPE, format!("{} is not a valid proxy type", request.proxy_type));
    }
    let valid_for = valid_for(&request.valid_for, Some(TEN_YEARS), &mut problems);
    let valid_for = finish(valid_for, problems)?;
    let DataplaneRequest { name, mesh, tags, proxy_type, workload, labels, valid_for: _ } = request;
    let key =
        api.catalog().signing_key(TokenKind::Dataplane { mesh: &mesh }).map_err(|error| ApiError::issue(&error))?;
    let claims = DataplaneClaims { name, mesh, tags, kind: proxy_type, workload, labels };
    answer(issue_dataplane(&claims, &key, valid_for, Timestamp::now()))
}

pub(crate) async fn zone(api: Api, call: ApiCall) -> Result<Response, ApiError> {
    require_issuer(api.config().issue.zone)?;
    let limits = DocumentLimits::of(&api.config().access, &call.user);
    let bytes = body::read(&call.headers, call.body, limits).await?;
    let ZoneRequest { zone, scope, valid_for: period } = body::typed(&bytes)?;
    let mut problems = Problems::default();
    let at = FieldPath::ROOT.field("scope");
    problems.require(!scope.is_empty(), &at, "cannot be empty");
    for (n, word) in scope.iter().enumerate() {
        let known = ["ingress", "egress"].contains(&word.as_str());
        problems.require(known, &at.index(n), "must be ingress or egress");
    }
    let valid_for = valid_for(&period, None, &mut problems);
    let valid_for = finish(valid_for, problems)?;
    let key = api.catalog().signing_key(TokenKind::Zone).map_err(|error| ApiError::issue(&error))?;
    answer(issue_zone(&ZoneClaims { zone, scope }, &key, valid_for, Timestamp::now()))
}

pub(crate) async fn user(api: Api, call: ApiCall) -> Result<Response, ApiError> {
    require_issuer(api.config().issue.user)?;
    let limits = DocumentLimits::of(&api.config().access, &call.user);
    let bytes = body::read(&call.headers, call.body, limits).await?;
    let UserRequest { name, groups, valid_for: period } = body::typed(&bytes)?;
    let mut problems = Problems::default();
    problems.require(!name.is_empty(), &FieldPath::NAME, "cannot be empty");
    let valid_for = valid_for(&period, None, &mut problems);
    let valid_for = finish(valid_for, problems)?;
    let key = api.catalog().signing_key(TokenKind::User).map_err(|error| ApiError::issue(&error))?;
    answer(issue_user(&UserClaims { name, groups }, &key, valid_for, Timestamp::now()))
}

fn require_issuer(enabled: bool) -> Result<(), ApiError> {
    if enabled {
        return Ok(());
    }
    let detail = "issuing tokens using the control plane is disabled.";
    Err(ApiError::new(StatusCode::BAD_REQUEST, "Could not issue a token", detail))
}

fn valid_for(text: &str, default: Option<Duration>, problems: &mut Problems) -> Option<Duration> {
    let at = FieldPath::ROOT.field("validFor");
    match (text, default) {
        ("", Some(default)) => Some(default),
        ("", None) => {
            problems.add(&at, "cannot be empty");
            None
        }
        (text, _) => parse_valid_for(text).map_err(|error| problems.add(&at, format!("is invalid: {error}"))).ok(),
    }
}

fn finish(valid_for: Option<Duration>, problems: Problems) -> Result<Duration, ApiError> {
    match valid_for {
        Some(valid_for) if problems.is_empty() => Ok(valid_for),
        _ => Err(ApiError::invalid(INVALID, "Resource is not valid", problems)),
    }
}

fn answer(token: Result<String, TokenError>) -> Result<Response, ApiError> {
    let token = token.map_err(|error| ApiError::issue(&error))?;
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "text/plain")], token).into_response())
}

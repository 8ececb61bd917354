//! From an HTTP request to a handler: authentication, authorisation, then the handler.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{FromRequestParts, RawPathParams, Request, State},
    http::{HeaderValue, Method, StatusCode, Uri, header, request::Parts, uri::Authority},
    response::{IntoResponse, Response},
    routing::{MethodFilter, MethodRouter},
};

use bytes::Bytes;
use kodiak_kinds::legacy_kinds;
use kodiak_pool::Caller;

use crate::{
    Api, ApiError, Connection,
    body::{self, DocumentLimits},
    handlers::{ApiCall, ComputedCall, Question},
    routes::{self, Compute, Computed, Route, Run},
    user,
};

/// Longer than any request takes; limits the resources that a stuck request holds.
const TIME: Duration = Duration::from_secs(30);

/// Router of the API. Requests carry their [`Connection`] as an extension.
pub fn router(api: &Api) -> Router {
    let router = local_router(api);
    let base = api.config().base_path.trim_end_matches('/').to_owned();
    if base.is_empty() { router } else { Router::new().nest(&base, router).fallback(page_not_found) }
}

/// Router without the base path, for clients of the Unix socket, which know only its path.
pub fn local_router(api: &Api) -> Router {
    let mut by_path: BTreeMap<String, MethodRouter<Api>> = BTreeMap::new();
    for route in routes::all() {
        let filter = MethodFilter::try_from(route.method.clone()).expect("routes use the methods that axum knows");
        let path = route.path.clone();
        let route = Arc::new(route);
        let handler = move |State(api): State<Api>, request: Request| async move { answer(&route, api, request).await };
        let methods = by_path.remove(&path).unwrap_or_default().on(filter, handler);
        by_path.insert(path, methods);
    }
    let mut router = Router::new();
    for (path, methods) in by_path {
        let methods = methods.fallback(method_not_allowed);
        // Kuma's router ignores a slash at the end.
        if path != "/" {
            router = router.route(&format!("{path}/"), methods.clone());
        }
        router = router.route(&path, methods);
    }
    router.fallback(page_not_found).with_state(api.clone())
}

/// Paths of legacy kinds of Kuma get an error with their replacement.
async fn page_not_found(uri: Uri) -> Response {
    let segments: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    let path = match *segments.as_slice() {
        [path] | ["meshes", _, path] | ["meshes", _, path, _] => path,
        _ => "",
    };
    let legacy = legacy_kinds().iter().find(|kind| kind.path == path);
    legacy.map_or_else(ApiError::page_not_found, ApiError::legacy_kind).into_response()
}

async fn method_not_allowed(State(api): State<Api>, request: Request) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let mut response = if request.method() == Method::OPTIONS && origin.is_some() {
        StatusCode::NO_CONTENT.into_response()
    } else {
        (StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed").into_response()
    };
    allow_origin(&api, origin, &mut response);
    response
}

async fn answer(route: &Route, api: Api, request: Request) -> Response {
    let started = Instant::now();
    let _in_flight = api.metrics().api.begun(&route.path);
    let origin = request.headers().get(header::ORIGIN).cloned();
    let result = match tokio::time::timeout(TIME, run(route, &api, request)).await {
        Ok(result) => result,
        Err(_) => Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "Timeout", "the request timed out; try again")),
    };
    let mut response = result.unwrap_or_else(IntoResponse::into_response);
    allow_origin(&api, origin, &mut response);
    let code = response.status().as_u16();
    api.metrics().api.answered(route.method.as_str(), &route.path, code, started.elapsed());
    response
}

async fn run(route: &Route, api: &Api, request: Request) -> Result<Response, ApiError> {
    let (mut parts, body) = request.into_parts();
    let connection = parts.extensions.get::<Connection>().copied();
    let user = match route.need {
        // Public routes ignore credentials, valid or not.
        crate::access::Need::Nothing => crate::User::anonymous(),
        _ => user::identify(api.config().authn, api.catalog(), connection, &parts)?,
    };
    route.need.check(&api.config().access, &user)?;
    let params = match RawPathParams::from_request_parts(&mut parts, &()).await {
        Ok(params) => params.iter().map(|(_, value)| value.to_owned()).collect(),
        Err(_) => return Err(ApiError::bad_request("the path is not valid UTF-8")),
    };
    let question = Question {
        params,
        route: route.path.clone(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        url: url(&parts, connection),
        user,
    };
    let call = ApiCall { question, headers: parts.headers, body };
    match &route.run {
        Run::Lookup(lookup) => lookup(api.clone(), call).await,
        Run::Computed(compute) => computed(api, &route.method, compute.clone(), call).await,
        Run::Write { dry_run, .. } if is_dry_run(&call)? => computed(api, &route.method, dry_run.clone(), call).await,
        Run::Write { write, .. } => write(api.clone(), call).await,
    }
}

/// Reads the body, and then waits for a turn of the pool: a slow client occupies none.
async fn computed(api: &Api, method: &Method, compute: Compute, call: ApiCall) -> Result<Response, ApiError> {
    let ApiCall { question, headers, body } = call;
    let limits = DocumentLimits::of(&api.config().access, &question.user);
    let body = if *method == Method::GET { Bytes::new() } else { body::read(&headers, body, limits).await? };
    let caller = if question.user.is_anonymous() { Caller::Anonymous } else { Caller::Known };
    let on_the_pool = api.clone();
    let made = api.pool().run(caller, move |cancellation| {
        let call = ComputedCall { question, body, limits, cancellation: cancellation.clone() };
        compute(&on_the_pool, &call)
    });
    match made.await.map_err(ApiError::not_computed)?? {
        Computed::Answer(response) => Ok(response),
        Computed::Store(stored) => stored.await,
    }
}

fn is_dry_run(question: &Question) -> Result<bool, ApiError> {
    match question.query_value("dryRun").as_deref() {
        None | Some("false") => Ok(false),
        Some("true" | "") => Ok(true),
        Some(other) => Err(ApiError::bad_request(format_args!("dryRun must be true or false, not {other:?}"))),
    }
}

/// URL as the client sees it, without its query.
fn url(parts: &Parts, connection: Option<Connection>) -> String {
    let scheme = if connection.is_some_and(Connection::is_tls) { "https" } else { "http" };
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or(parts.uri.authority().map(Authority::as_str)).unwrap_or_default();
    let original = parts.extensions.get::<axum::extract::OriginalUri>();
    let path = original.map_or(parts.uri.path(), |original| original.0.path());
    format!("{scheme}://{host}{path}")
}

/// Adds CORS headers for the configured origins.
fn allow_origin(api: &Api, origin: Option<HeaderValue>, response: &mut Response) {
    let Some(origin) = origin else { return };
    let listed = api.config().cors_allowed_domains.iter().any(|domain| domain != "*" && origin == domain.as_str());
    if listed {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, PUT, POST, DELETE"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("authorization, content-type"));
    }
}

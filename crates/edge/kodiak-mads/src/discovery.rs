//! One discovery request and its answer, in the JSON format of xDS.

use std::fmt::Write as _;
use std::time::Duration;

use axum::{
    Json,
    body::Bytes,
    extract::{Query, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use kodiak_inspection::monitoring::{MonitoringAssignment, assignments};
use kodiak_listen::LogThrottle;
use kodiak_model::{Cancellation, Cancelled, GoDuration};
use kodiak_world::World;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{LONGEST_WAIT, Mads, poll};

const TYPE_URL: &str = "type.googleapis.com/kuma.observability.v1.MonitoringAssignment";

/// Fields have two spellings in the JSON of protobuf. Others are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DiscoveryRequest {
    #[serde(alias = "versionInfo")]
    version_info: String,
    node: Node,
    #[serde(alias = "typeUrl")]
    type_url: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Node {
    /// Client ID of a Prometheus.
    id: String,
}

static FAILURES: LogThrottle = LogThrottle::new();

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Parameters {
    #[serde(rename = "fetch-timeout")]
    fetch_timeout: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct DiscoveryResponse {
    pub(crate) version_info: String,
    resources: Vec<Resource>,
    type_url: &'static str,
    nonce: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Resource {
    #[serde(rename = "@type")]
    type_url: &'static str,
    #[serde(flatten)]
    assignment: MonitoringAssignment,
}

/// The body is JSON, whatever its content type says: so it is with Kuma.
pub(crate) async fn discover(State(mads): State<Mads>, Query(parameters): Query<Parameters>, body: Bytes) -> Response {
    let request: DiscoveryRequest = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return invalid(format!("the request is not a DiscoveryRequest in JSON: {error}\n")),
    };
    if !(request.type_url.is_empty() || request.type_url == TYPE_URL) {
        return invalid(format!("type_url must be {TYPE_URL}\n"));
    }
    let wait = match parameters.fetch_timeout.as_deref().filter(|text| !text.is_empty()) {
        None => mads.default_wait,
        Some(text) => match duration(text) {
            Some(wait) => wait,
            None => return invalid("fetch-timeout must be a duration like 30s\n".to_owned()),
        },
    };
    match poll::newer(&mads, &request.node.id, &request.version_info, wait.min(LONGEST_WAIT)).await {
        Ok(Some(response)) => Json(response).into_response(),
        Ok(None) => StatusCode::NOT_MODIFIED.into_response(),
        Err(error) => {
            if let Some(suppressed) = FAILURES.admit() {
                tracing::warn!(%error, suppressed, "failed to compute monitoring assignments");
            }
            (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")], format!("{error}; try again\n"))
                .into_response()
        }
    }
}

/// Assignments of a client. The version is a hash of them, so that all control planes give the same one.
pub(crate) fn respond(
    world: &World,
    client_id: &str,
    cancellation: &Cancellation,
) -> Result<DiscoveryResponse, Cancelled> {
    let assignments = assignments(world, client_id, cancellation)?;
    let resources: Vec<_> =
        assignments.into_iter().map(|assignment| Resource { type_url: TYPE_URL, assignment }).collect();
    let written = serde_json::to_vec(&resources).expect("strings and maps of strings can be written as JSON");
    let mut version_info = String::new();
    for byte in &Sha256::digest(written)[..16] {
        write!(version_info, "{byte:02x}").expect("a String takes all that is written");
    }
    Ok(DiscoveryResponse { nonce: version_info.clone(), version_info, resources, type_url: TYPE_URL })
}

fn duration(text: &str) -> Option<Duration> {
    serde_json::from_value::<GoDuration>(text.into()).ok()?.to_std()
}

fn invalid(text: String) -> Response {
    (StatusCode::BAD_REQUEST, text).into_response()
}

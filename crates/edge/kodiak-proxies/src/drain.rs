//! `POST /drain`: a proxy is about to end and asks to receive no more requests.

use http::{HeaderMap, StatusCode, header::AUTHORIZATION};
use kodiak_ads::{Credential, Reply};
use kodiak_model::ProxyKey;
use serde::Deserialize;
use serde_json::json;

use crate::{
    Registry, credential,
    dataplane::EffectiveDataplane,
    port::{empty, json_reply, text},
    readiness::DrainError,
};

#[derive(Deserialize)]
struct Request {
    mesh: String,
    name: String,
}

impl Registry {
    /// Makes every inbound of the stored Dataplane NotReady. Needs a token with which the proxy may connect.
    pub(crate) async fn drain(&self, headers: &HeaderMap, body: &[u8]) -> Reply {
        let Request { mesh, name } = match serde_json::from_slice(body) {
            Ok(request) => request,
            Err(error) => return text(StatusCode::BAD_REQUEST, format!("the request is not {{mesh, name}}: {error}")),
        };
        let key = ProxyKey::new(&mesh, &name);
        let denied = |reason: String| text(StatusCode::UNAUTHORIZED, reason);
        let proof = match credential::verify(&self.0.catalog, &self.0.settings, &key, &credential_of(headers)) {
            Ok(proof) => proof,
            Err(reason) => return denied(reason),
        };
        let authorize = |stored: &EffectiveDataplane| proof.check(&key, stored);
        match self.0.readiness.drain(&key, authorize).await {
            Ok(()) => json_reply(&json!({})),
            Err(DrainError::NotFound) => empty(StatusCode::NOT_FOUND),
            Err(DrainError::Denied(reason)) => denied(reason),
            Err(DrainError::Store(error)) => {
                let reason = format!("cannot drain {key}: {}; send the request again", error.with_causes());
                text(StatusCode::INTERNAL_SERVER_ERROR, reason)
            }
        }
    }
}

/// The token of the request, if it has exactly one.
pub(crate) fn credential_of(headers: &HeaderMap) -> Credential {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Credential(value.to_str().ok().map(str::to_owned)),
        _ => Credential::default(),
    }
}

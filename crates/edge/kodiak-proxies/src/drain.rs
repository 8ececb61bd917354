//! `POST /drain`: a proxy is about to end, so others should stop calling it.

use http::{HeaderMap, StatusCode, header::AUTHORIZATION};
use kodiak_ads::{Credential, Reply};
use kodiak_catalog::{Author, Refusal, Target};
use kodiak_model::{ProxyKey, kinds::dataplane::Inbound};
use kodiak_xds::health::is_probed;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Registry,
    answer::{empty, json_reply, text},
    credential,
    dataplane::{self, InForce},
};

#[derive(Deserialize)]
struct Request {
    mesh: String,
    name: String,
}

impl Registry {
    /// Sets every inbound of the stored Dataplane NotReady. Whoever may connect as the proxy may do it.
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
        let snapshot = self.0.catalog.store().snapshot();
        let Some(mut stored) = dataplane::stored(&snapshot, &key) else { return empty(StatusCode::NOT_FOUND) };
        if let Err(reason) = proof.check(&snapshot, &key, &stored) {
            return denied(reason);
        }
        let inbounds = stored.spec.networking.iter_mut().flat_map(|networking| &mut networking.inbound);
        let before: Vec<_> = inbounds.filter(|inbound| inbound.is_ready()).map(drain_inbound).collect();
        {
            let mut state = self.state();
            let drained = state.drained.entry(key.clone()).or_default();
            // A second request finds nothing to remember.
            if !before.is_empty() {
                *drained = before;
            }
            // Whoever goes before it has arrived is not welcomed any more.
            state.welcome.remove(&key);
            if let Some(stream) = state.streams.get_mut(&key) {
                stream.arriving = false;
            }
        }
        match self.replace(&key, &stored).await {
            Ok(()) => json_reply(&json!({})),
            Err(Refusal::NotFound | Refusal::NoMesh) => empty(StatusCode::NOT_FOUND),
            Err(refusal) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot drain {key}: {refusal}")),
        }
    }

    /// The inbounds that were held back are as they were, and those that are probed as their probes found them.
    pub(crate) async fn undrain(&self, key: &ProxyKey) -> Result<(), Refusal> {
        let (before, findings) = {
            let state = self.state();
            let Some(before) = state.drained.get(key).cloned() else { return Ok(()) };
            (before, state.health.get(key).and_then(|stream| stream.findings.clone()))
        };
        let probes = self.0.settings.health.is_some();
        let snapshot = self.0.catalog.store().snapshot();
        let Some(mut stored) = dataplane::stored(&snapshot, key) else { return Ok(()) };
        for inbound in stored.spec.networking.iter_mut().flat_map(|networking| &mut networking.inbound) {
            let before = before.iter().find(|before| before.port == inbound.port);
            if let Some(before) = before.filter(|_| !(probes && is_probed(inbound))) {
                inbound.state.clone_from(&before.state);
                inbound.health.clone_from(&before.health);
            }
        }
        if let Some(findings) = findings {
            findings.apply(&mut stored.spec, true);
        }
        self.replace(key, &stored).await?;
        self.state().drained.remove(key);
        Ok(())
    }

    /// Writes what was observed of a Dataplane.
    pub(crate) async fn replace(&self, key: &ProxyKey, dataplane: &InForce) -> Result<(), Refusal> {
        self.replace_by(key, dataplane, &Author::Unchanged).await
    }

    pub(crate) async fn replace_by(&self, key: &ProxyKey, dataplane: &InForce, author: &Author) -> Result<(), Refusal> {
        let ProxyKey { mesh, name } = key;
        let kind = dataplane::kind();
        let mut document = json!({ "type": kind.name, "mesh": mesh, "name": name, "labels": dataplane.labels });
        if let (Value::Object(document), Ok(Value::Object(spec))) =
            (&mut document, serde_json::to_value(&dataplane.spec))
        {
            document.extend(spec);
        }
        self.0.catalog.put_by(Target { kind, mesh, name }, document, author).await.map(drop)
    }
}

/// Gives back what it was before.
pub(crate) fn drain_inbound(inbound: &mut Inbound) -> Inbound {
    let before = inbound.clone();
    inbound.set_ready(false);
    before
}

/// The token, if there is exactly one.
fn credential_of(headers: &HeaderMap) -> Credential {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Credential(value.to_str().ok().map(str::to_owned)),
        _ => Credential::default(),
    }
}

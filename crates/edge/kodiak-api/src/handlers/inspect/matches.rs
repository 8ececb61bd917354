//! Which policies are in force at which inbound of a proxy, in which order.

use std::sync::Arc;

use axum::{http::StatusCode, response::Response};
use kodiak_catalog::spec_of;
use kodiak_kinds::kinds;
use kodiak_model::{Kind, kinds::dataplane::Dataplane, policy::Body};
use kodiak_rules::{Context, Policy, Proxy, Shadow, precedence, select};
use kodiak_store::{Record, Snapshot};
use serde_json::{Value, json};

use super::{Asked, NOT_FOUND, find};
use crate::{Api, ApiError, handlers::json};

/// The kinds that proxies are configured by.
const IN_FORCE: [&str; 1] = ["MeshTrafficPermission"];

/// `_matches`: the policies at each inbound, weakest first.
pub(crate) async fn matches(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let (snapshot, proxy) = find(&api, &asked)?;
    let record = snapshot.get(&proxy.dataplane()).ok_or_else(|| ApiError::not_found(NOT_FOUND))?;
    let dataplane = spec_of::<Dataplane>(record).ok_or_else(|| ApiError::not_found(NOT_FOUND))?;
    let proxy = Proxy {
        mesh: (*proxy.mesh).into(),
        name: (*proxy.name).into(),
        labels: Arc::clone(&record.labels),
        dataplane: Arc::new(dataplane.clone()),
    };
    let mut inbounds: Vec<Vec<Value>> = vec![Vec::new(); dataplane.inbounds().len()];
    for kind in IN_FORCE.iter().filter_map(|name| kinds().by_name(name)) {
        let found = of_kind(kind, &snapshot, &proxy);
        for (inbound, origins) in found.into_iter().enumerate().filter(|(_, origins)| !origins.is_empty()) {
            inbounds[inbound].push(json!({ "kind": kind.name, "origins": origins }));
        }
    }
    let shown = dataplane.inbounds().iter().zip(inbounds).map(|(inbound, policies)| {
        let inbound = json!({ "name": inbound.section_name(), "port": inbound.port, "tags": inbound.tags });
        json!({ "inbound": inbound, "policies": policies })
    });
    Ok(json(StatusCode::OK, json!({ "inbounds": shown.collect::<Vec<_>>() }).to_string()))
}

/// For each inbound, the policies of a kind, weakest first.
fn of_kind(kind: &'static Kind, snapshot: &Snapshot, proxy: &Proxy) -> Vec<Vec<Value>> {
    let mut policies: Vec<Policy> =
        snapshot.list_in(kind.name, &proxy.mesh).filter_map(|record| policy(kind, record)).collect();
    policies.sort_by(precedence);
    let mut found = vec![Vec::new(); proxy.dataplane.inbounds().len()];
    for policy in &policies {
        for inbound in select(policy, proxy, Context::default(), Shadow::Ignored).inbounds {
            found[inbound].push(origin(policy));
        }
    }
    found
}

fn policy(kind: &'static Kind, record: &Record) -> Option<Policy> {
    let spec = serde_json::from_str(&record.spec).ok()?;
    let body = Body::read(kind.policy.as_ref()?, &spec).ok()?;
    let labels = Arc::clone(&record.labels);
    Some(Policy { kind, mesh: (*record.key.mesh).into(), name: (*record.key.name).into(), labels, body })
}

fn origin(policy: &Policy) -> Value {
    json!({ "kri": policy.kri().to_string(), "name": policy.name, "targetRef": policy.body.target })
}

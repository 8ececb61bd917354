//! Which policies are in force at which inbound of a proxy, in which order.

use axum::{http::StatusCode, response::Response};
use kodiak_catalog::spec_of;
use kodiak_kinds::kinds;
use kodiak_model::{Kind, Kri, ProxyKey, TargetRef, kinds::dataplane::Dataplane};
use kodiak_store::{Record, Snapshot};
use kodiak_views::matching::{Meta, Policy, Shadow, precedence, select};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Asked, NOT_FOUND, find};
use crate::{Api, ApiError, handlers::json};

/// The kinds that proxies are configured by.
const IN_FORCE: [&str; 1] = ["MeshTrafficPermission"];

/// All that matching looks at, whatever the kind.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Target {
    target_ref: Option<TargetRef>,
}

/// `_matches`: the policies at each inbound, weakest first.
pub(crate) async fn matches(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let (snapshot, proxy) = find(&api, &asked)?;
    let record = snapshot.get(&proxy.dataplane()).ok_or_else(|| ApiError::not_found(NOT_FOUND))?;
    let dataplane = spec_of::<Dataplane>(record).ok_or_else(|| ApiError::not_found(NOT_FOUND))?;
    let meta = Meta { mesh: &proxy.mesh, name: &proxy.name, labels: &record.labels };
    let mut inbounds: Vec<Vec<Value>> = vec![Vec::new(); dataplane.inbounds().len()];
    for kind in IN_FORCE.iter().filter_map(|name| kinds().by_name(name)) {
        let found = of_kind(kind, &snapshot, &proxy, &meta, &dataplane);
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
fn of_kind(
    kind: &'static Kind,
    snapshot: &Snapshot,
    proxy: &ProxyKey,
    meta: &Meta<'_>,
    dataplane: &Dataplane,
) -> Vec<Vec<Value>> {
    let records = snapshot.list_in(kind.name, &proxy.mesh);
    let targets = records.filter_map(|record| Some((record, serde_json::from_str::<Target>(&record.spec).ok()?)));
    let targets: Vec<(&Record, Target)> = targets.collect();
    let policies = targets.iter().map(|(record, target)| {
        let meta = Meta { mesh: &record.key.mesh, name: &record.key.name, labels: &record.labels };
        Policy { meta, target: target.target_ref.as_ref() }
    });
    let mut policies: Vec<Policy<'_>> = policies.collect();
    policies.sort_by(precedence);
    let mut found = vec![Vec::new(); dataplane.inbounds().len()];
    for policy in &policies {
        for inbound in select(policy, meta, dataplane, Shadow::Ignored).inbounds {
            found[inbound].push(origin(kind, policy));
        }
    }
    found
}

fn origin(kind: &'static Kind, policy: &Policy<'_>) -> Value {
    let Meta { mesh, name, labels } = policy.meta;
    let kri = Kri::of(kind, mesh, name, labels).map(|kri| kri.to_string());
    json!({ "kri": kri, "name": name, "targetRef": policy.target })
}

//! Policies that apply to each inbound of a proxy, in order of precedence.

use axum::response::Response;
use kodiak_rules::{Policy, Shadow};
use serde_json::{Value, json};

use super::{ComputedCall, answer, find_proxy};
use crate::{Api, ApiError};

/// `_matches`: policies of each inbound, lowest precedence first.
pub(crate) fn matches(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let (view, proxy) = find_proxy(api, call)?;
    let mut inbounds: Vec<Vec<Value>> = vec![Vec::new(); proxy.dataplane.inbounds().len()];
    for kind in view.kinds.iter().filter(|kind| kind.policy.is_some_and(|facts| facts.from || facts.rules)) {
        for (inbound, policies) in &view.policy_index.matched(kind.name, &proxy.name, Shadow::Ignored).inbounds {
            let origins: Vec<Value> = policies.iter().map(|policy| origin(policy)).collect();
            inbounds[*inbound].push(json!({ "kind": kind.name, "origins": origins }));
        }
    }
    let shown = proxy.dataplane.inbounds().iter().zip(inbounds).map(|(inbound, policies)| {
        let inbound = json!({ "name": inbound.section_name(), "port": inbound.port, "tags": inbound.tags });
        json!({ "inbound": inbound, "policies": policies })
    });
    Ok(answer(&json!({ "inbounds": shown.collect::<Vec<_>>() })))
}

fn origin(policy: &Policy) -> Value {
    json!({ "kri": policy.kri().to_string(), "name": *policy.name, "targetRef": policy.body.target })
}

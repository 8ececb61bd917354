//! Legacy routes about policies, for kumactl.

use std::collections::BTreeMap;

use axum::response::Response;
use kodiak_model::{Kind, ResourceKey};
use kodiak_rules::{Proxy, Shadow};
use serde_json::{Value, json};

use super::{ComputedCall, NOT_FOUND, answer, find, find_proxy, find_resource};
use crate::{
    Api, ApiError, render,
    shapes::legacy::{self, Affected, Attachment, List},
};

/// `<policy>/{name}/dataplanes`
pub(crate) fn affected(api: &Api, kind: &'static Kind, call: &ComputedCall) -> Result<Response, ApiError> {
    let title = "Could not retrieve policy";
    let (snapshot, record) = find_resource(api, kind, call, title)?;
    let policy = snapshot.world().get(&record.key).and_then(|policy| policy.policy());
    let policy = policy.ok_or_else(|| ApiError::not_found(title))?;
    let view = api.meshes().view(&snapshot, &record.key.mesh, &call.cancellation)?;
    let selected = view.policy_index.selected(policy, Shadow::Included);
    let proxies = selected.iter().filter_map(|name| view.proxies.get(name));
    let items: Vec<Affected> = proxies.map(|proxy| legacy::affected(&view, proxy)).collect();
    Ok(answer(&List::from(items)))
}

/// `dataplanes/{name}/policies`: matched policies, grouped by kind.
pub(crate) fn policies(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let (snapshot, key) = find(api, call)?;
    let view = api.meshes().view(&snapshot, &key.mesh, &call.cancellation)?;
    let proxy = view.proxies.get(&*key.name).ok_or_else(|| ApiError::not_found(NOT_FOUND))?;
    let mut matched: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for kind in &view.kinds {
        for policy in &view.policy_index.matched(kind.name, &proxy.name, Shadow::Ignored).proxy {
            let key = ResourceKey::in_mesh(kind.name, &policy.mesh, &policy.name);
            let Some(record) = snapshot.get(&key) else { continue };
            let shown = serde_json::from_str(&render::resource(kind, record)).expect("resources are shown as JSON");
            matched.entry(kind.name).or_default().push(shown);
        }
    }
    Ok(answer(&match legacy::affected(&view, proxy) {
        Affected::SidecarDataplane { attachments, .. } => {
            let entry = |attachment: Attachment| {
                let mut entry = json!(attachment);
                entry["matchedPolicies"] = json!(matched);
                entry
            };
            let items: Vec<Value> =
                if matched.is_empty() { Vec::new() } else { attachments.into_iter().map(entry).collect() };
            json!({ "kind": "SidecarDataplane", "total": items.len(), "items": items })
        }
        Affected::MeshGatewayDataplane { gateway, .. } => {
            // One policy of each kind: that with the highest precedence, which is the last.
            let policies: BTreeMap<&str, Value> = matched
                .into_iter()
                .filter_map(|(kind, policies)| Some((kind, policies.into_iter().next_back()?)))
                .collect();
            json!({ "kind": "MeshGatewayDataplane", "gateway": gateway, "listeners": [], "policies": policies })
        }
    }))
}

/// `meshgateways/{name}/dataplanes`: proxies that serve a MeshGateway.
pub(crate) fn gateway_members(api: &Api, kind: &'static Kind, call: &ComputedCall) -> Result<Response, ApiError> {
    let (snapshot, record) = find_resource(api, kind, call, NOT_FOUND)?;
    let view = api.meshes().view(&snapshot, &record.key.mesh, &call.cancellation)?;
    let serves =
        |proxy: &Proxy| view.policy_index.gateway_of(proxy).is_some_and(|gateway| *gateway.name == *record.key.name);
    let proxies = view.proxies.values().filter(|proxy| serves(proxy));
    let items: Vec<Value> = proxies.map(|proxy| json!({ "dataplane": legacy::name_of(proxy) })).collect();
    Ok(answer(&List::from(items)))
}

/// `dataplanes/{name}/rules`
pub(crate) fn old_rules(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let (view, proxy) = find_proxy(api, call)?;
    Ok(answer(&legacy::rules(&view, &proxy)))
}

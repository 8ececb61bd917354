//! Transparent proxying: whether a proxy has listeners at virtual addresses, because outgoing connections of its workload
//! are redirected to it, or because it binds them itself.

use kodiak_model::kinds::dataplane::Dataplane;
use serde_json::Value;

/// Feature of a proxy that binds the virtual addresses of its outbounds.
const BIND_OUTBOUNDS: &str = "feature-bind-outbounds";

/// `metadata` is that of the proxy's last connection, from its DataplaneInsight: it overrides the Dataplane, which may
/// have been written by hand. `None` when neither says anything.
pub fn redirects_outbound(dataplane: &Dataplane, metadata: Option<&Value>) -> Option<bool> {
    let features = metadata.and_then(|metadata| metadata.get("features")).and_then(Value::as_array);
    if features.is_some_and(|features| features.iter().any(|feature| feature == BIND_OUTBOUNDS)) {
        return Some(true);
    }
    if let Some(told) = metadata.and_then(|metadata| metadata.get("transparentProxy")).filter(|told| told.is_object()) {
        let outbound = told.pointer("/redirect/outbound").unwrap_or(&Value::Null);
        let has_port = is_port(&outbound["port"]);
        return Some(has_port && is_on(&outbound["enabled"]).unwrap_or(has_port));
    }
    let transparent = dataplane.networking.as_ref().and_then(|networking| networking.transparent_proxying.as_ref());
    let written = transparent.is_some_and(|transparent| transparent.redirect_port_outbound != 0);
    (written || metadata.is_some()).then_some(written)
}

/// `kodiak dp` and `kuma-dp` write ports as numbers or as text.
fn is_port(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_some_and(|port| (1.0..=f64::from(u16::MAX)).contains(&port)),
        Value::String(text) => text.parse::<u16>().is_ok_and(|port| port != 0),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

fn is_on(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_of_the_proxy_overrides_the_dataplane() {
        let outbound = |told: Value| json!({ "transparentProxy": { "redirect": { "outbound": told } } });
        for (port, metadata, expected) in [
            (0, None, None),
            (15001, None, Some(true)),
            (0, Some(json!({})), Some(false)),
            (15001, Some(json!({})), Some(true)),
            (0, Some(outbound(json!({ "enabled": true, "port": 15001.0 }))), Some(true)),
            (0, Some(outbound(json!({ "port": "15001" }))), Some(true)),
            (15001, Some(outbound(json!({ "enabled": false, "port": 15001 }))), Some(false)),
            (15001, Some(outbound(json!({ "enabled": "false", "port": "15001" }))), Some(false)),
            (15001, Some(outbound(json!({ "enabled": true }))), Some(false)),
            (15001, Some(outbound(json!({ "enabled": true, "port": 0 }))), Some(false)),
            (15001, Some(json!({ "transparentProxy": {} })), Some(false)),
            (0, Some(json!({ "features": ["feature-bind-outbounds"] })), Some(true)),
            (0, Some(json!({ "features": ["feature-reuse-port"] })), Some(false)),
        ] {
            let networking = json!({ "transparentProxying": { "redirectPortOutbound": port } });
            let dataplane = serde_json::from_value(json!({ "networking": networking })).unwrap();
            assert_eq!(redirects_outbound(&dataplane, metadata.as_ref()), expected, "{port} {metadata:?}");
        }
    }
}

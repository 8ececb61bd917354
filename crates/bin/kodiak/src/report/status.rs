//! Whether a proxy is there, from what was observed of it.

use serde_json::Value;

/// `Online`, `Offline` or `Partially degraded`, of a DataplaneOverview.
pub(super) fn of_dataplane(overview: &Value) -> &'static str {
    let Some(insight) = overview.get("dataplaneInsight") else { return "Offline" };
    let networking = overview.get("dataplane").and_then(|dataplane| dataplane.get("networking"));
    let list = |field: &str| networking.and_then(|networking| networking.get(field)?.as_array()).into_iter().flatten();
    if !is_connected(insight) {
        return "Offline";
    }
    if networking.is_some_and(|networking| networking.get("gateway").is_some()) {
        return "Online";
    }
    // What is ignored is not waited for.
    let counted = list("inbound").chain(list("listeners")).filter(|one| state(one) != Some("Ignored"));
    let ready: Vec<bool> = counted.map(is_ready).collect();
    match (ready.contains(&true), ready.contains(&false)) {
        (true, false) => "Online",
        (true, true) => "Partially degraded",
        (false, _) => "Offline",
    }
}

/// The version of the proxy that connected last.
pub(super) fn version(overview: &Value) -> Option<&str> {
    let subscriptions = overview.pointer("/dataplaneInsight/subscriptions")?.as_array()?;
    subscriptions.last()?.pointer("/version/kumaDp/version")?.as_str()
}

fn is_connected(insight: &Value) -> bool {
    let subscriptions = insight.get("subscriptions").and_then(Value::as_array);
    subscriptions.into_iter().flatten().any(|subscription| {
        let has = |field| subscription.get(field).is_some_and(|time| !time.is_null());
        has("connectTime") && !has("disconnectTime")
    })
}

fn is_ready(inbound: &Value) -> bool {
    let healthy = inbound.pointer("/health/ready").and_then(Value::as_bool);
    healthy != Some(false) && state(inbound).is_none_or(|state| state == "Ready")
}

fn state(inbound: &Value) -> Option<&str> {
    inbound.get("state").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_follows_from_connection_and_inbounds() {
        let up = json!({ "subscriptions": [{ "connectTime": "t", "disconnectTime": "t" }, { "connectTime": "t" }] });
        let down = json!({ "subscriptions": [{ "connectTime": "t", "disconnectTime": "t" }] });
        let (ready, not_ready) = (json!({ "port": 1 }), json!({ "port": 2, "state": "NotReady" }));
        let unhealthy = json!({ "port": 2, "health": { "ready": false } });
        let ignored = json!({ "port": 3, "state": "Ignored" });
        for (networking, insight, status) in [
            (json!({ "inbound": [ready] }), &up, "Online"),
            (json!({ "inbound": [ready, ignored] }), &up, "Online"),
            (json!({ "inbound": [ready] }), &down, "Offline"),
            (json!({ "inbound": [ready, not_ready] }), &up, "Partially degraded"),
            (json!({ "inbound": [ready, unhealthy] }), &up, "Partially degraded"),
            (json!({ "inbound": [not_ready] }), &up, "Offline"),
            (json!({ "gateway": {} }), &up, "Online"),
            (json!({ "gateway": {} }), &down, "Offline"),
        ] {
            let overview = json!({ "dataplane": { "networking": networking }, "dataplaneInsight": insight });
            assert_eq!(of_dataplane(&overview), status, "{overview}");
        }
        assert_eq!(of_dataplane(&json!({ "dataplane": {} })), "Offline");
    }

    #[test]
    fn the_last_version_is_shown() {
        let of = |v: &str| json!({ "version": { "kumaDp": { "version": v } } });
        let overview = json!({ "dataplaneInsight": { "subscriptions": [of("1.0"), of("2.0")] } });
        assert_eq!(version(&overview), Some("2.0"));
        assert_eq!(version(&json!({})), None);
    }
}

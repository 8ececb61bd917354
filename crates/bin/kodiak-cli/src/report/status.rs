//! Status of a proxy, from its insight.

use serde_json::Value;

/// `Online`, `Offline` or `Partially degraded`, of a DataplaneOverview.
pub(crate) fn of_dataplane(overview: &Value) -> &'static str {
    let Some(insight) = overview.get("dataplaneInsight") else { return "Offline" };
    let networking = overview.get("dataplane").and_then(|dataplane| dataplane.get("networking"));
    let list = |field: &str| networking.and_then(|networking| networking.get(field)?.as_array()).into_iter().flatten();
    if !is_connected(insight) {
        return "Offline";
    }
    if networking.is_some_and(|networking| networking.get("gateway").is_some()) {
        return "Online";
    }
    // Ignored inbounds do not count.
    let counted = list("inbound").chain(list("listeners")).filter(|one| state(one) != Some("Ignored"));
    let ready: Vec<bool> = counted.map(is_ready).collect();
    match (ready.contains(&true), ready.contains(&false)) {
        (true, false) => "Online",
        (true, true) => "Partially degraded",
        (false, _) => "Offline",
    }
}

/// Versions of the sidecar and of Envoy at the last connection: `0.1.0/1.40.0`.
pub(crate) fn versions(overview: &Value) -> Option<String> {
    let version = last(overview)?.get("version")?;
    let of = |pointer| version.pointer(pointer).and_then(Value::as_str).unwrap_or("?");
    Some(format!("{}/{}", of("/kumaDp/version"), of("/envoy/version")))
}

/// ACKs and NACKs of the last connection: `acked 12/12`, or `NACKED 1 (lds)`.
pub(super) fn responses(overview: &Value) -> Option<String> {
    let status = last(overview)?.get("status")?;
    // JSON of protobuf omits zeros and writes numbers as text.
    let count = |of: &str, field: &str| {
        let value = status.get(of).and_then(|of| of.get(field));
        value.and_then(|value| value.as_str().map_or_else(|| value.as_u64(), |text| text.parse().ok())).unwrap_or(0)
    };
    let rejected = |of: &str| count(of, "responsesRejected");
    let total = rejected("total");
    if total == 0 {
        let (sent, acked) = (count("total", "responsesSent"), count("total", "responsesAcknowledged"));
        return Some(format!("acked {acked}/{sent}"));
    }
    let mut types: Vec<_> = ["cds", "eds", "lds", "rds"].into_iter().filter(|of| rejected(of) > 0).collect();
    // Secrets count in the total only.
    if types.iter().map(|of| rejected(of)).sum::<u64>() < total {
        types.push("sds");
    }
    Some(format!("NACKED {total} ({})", types.join(",")))
}

/// Expiration of the certificate of the proxy.
pub(super) fn certificate_end(overview: &Value) -> Option<&str> {
    overview.pointer("/dataplaneInsight/mTLS/certificateExpirationTime")?.as_str()
}

fn last(overview: &Value) -> Option<&Value> {
    overview.pointer("/dataplaneInsight/subscriptions")?.as_array()?.last()
}

pub(super) fn is_connected(insight: &Value) -> bool {
    let subscriptions = insight.get("subscriptions").and_then(Value::as_array);
    subscriptions.into_iter().flatten().any(|subscription| {
        let has = |field| subscription.get(field).is_some_and(|time| !time.is_null());
        has("connectTime") && !has("disconnectTime")
    })
}

pub(super) fn is_ready(inbound: &Value) -> bool {
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
    fn status_depends_on_connection_and_inbounds() {
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
    fn shows_the_last_versions() {
        let of = |v: &str| json!({ "version": { "kumaDp": { "version": v }, "envoy": { "version": "1.40.0" } } });
        let overview = json!({ "dataplaneInsight": { "subscriptions": [of("1.0"), of("2.0")] } });
        assert_eq!(versions(&overview).as_deref(), Some("2.0/1.40.0"));
        assert_eq!(versions(&json!({})), None);
    }

    #[test]
    fn shows_nacks_instead_of_acks() {
        let of = |status: Value| {
            responses(&json!({ "dataplaneInsight": { "subscriptions": [{ "status": status }] } })).unwrap()
        };
        let total = |sent: &str, acked: &str| json!({ "responsesSent": sent, "responsesAcknowledged": acked });
        assert_eq!(of(json!({ "total": total("12", "12") })), "acked 12/12");
        assert_eq!(of(json!({ "total": {} })), "acked 0/0");
        let rejected = |count: u64| json!({ "responsesRejected": count.to_string() });
        assert_eq!(of(json!({ "total": rejected(1), "lds": rejected(1) })), "NACKED 1 (lds)");
        assert_eq!(
            of(json!({ "total": rejected(3), "cds": rejected(1), "lds": rejected(1) })),
            "NACKED 3 (cds,lds,sds)"
        );
        assert_eq!(responses(&json!({})), None);
    }
}

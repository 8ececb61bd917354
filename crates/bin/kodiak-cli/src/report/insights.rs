//! Tables of insights, with the columns of `kumactl inspect`.

use jiff::Timestamp;
use kodiak_terminal::Table;
use serde_json::Value;

use super::{age, columns::tags, status};

/// Columns about the connections of a proxy or a zone.
const CONNECTION: [&str; 5] = ["STATUS", "LAST CONNECTED AGO", "LAST UPDATED AGO", "TOTAL UPDATES", "TOTAL ERRORS"];

/// Proxies, from DataplaneOverviews.
pub(crate) fn dataplanes(items: &[Value], now: Timestamp) -> String {
    let mut headers = vec!["MESH", "NAME", "TAGS"];
    headers.extend(CONNECTION);
    headers.extend(["CERT REGENERATED AGO", "CERT EXPIRATION", "CERT REGENERATIONS", "CERT BACKEND"]);
    headers.extend(["SUPPORTED CERT BACKENDS", "KUMA-DP VERSION", "ENVOY VERSION", "NOTES"]);
    let mut table = Table::new(headers);
    for item in items {
        let insight = &item["dataplaneInsight"];
        let networking = &item["dataplane"]["networking"];
        let mut cells = vec![text(&item["mesh"]), text(&item["name"]), tags(networking)];
        cells.push(status::of_dataplane(item).to_owned());
        cells.extend(updates(insight, now));
        cells.extend(certificate(&insight["mTLS"], now));
        cells.extend(versions(insight));
        cells.push(notes(networking));
        table.row(cells);
    }
    table.show()
}

/// Zone ingresses or egresses, from their overviews. `insight` is the field of the insight.
pub(crate) fn zone_proxies(items: &[Value], insight: &str, now: Timestamp) -> String {
    let mut table = Table::new([&["NAME"], &CONNECTION[..], &["KUMA-DP VERSION", "ENVOY VERSION"]].concat());
    for item in items {
        let insight = &item[insight];
        let mut cells = vec![text(&item["name"]), online(status::is_connected(insight))];
        cells.extend(updates(insight, now));
        cells.extend(versions(insight));
        table.row(cells);
    }
    table.show()
}

/// Zones, from ZoneOverviews.
pub(crate) fn zones(items: &[Value], now: Timestamp) -> String {
    let mut table = Table::new([&["NAME"], &CONNECTION[..], &["ZONE-CP VERSION", "BACKEND"]].concat());
    for item in items {
        let insight = &item["zoneInsight"];
        let enabled = item.pointer("/zone/enabled").and_then(Value::as_bool) != Some(false);
        let mut cells = vec![text(&item["name"]), online(enabled && status::is_connected(insight))];
        cells.extend(updates(insight, now));
        let last = last(insight);
        let config: Value = serde_json::from_str(last["config"].as_str().unwrap_or_default()).unwrap_or_default();
        cells.extend([dash(&last["version"]["kumaCp"]["version"]), dash(&config["store"]["type"])]);
        table.row(cells);
    }
    table.show()
}

/// Meshes, from MeshInsights.
pub(crate) fn meshes(items: &[Value]) -> String {
    let mut table = Table::new(["MESH", "DATAPLANES", "SERVICES", "POLICIES"]);
    for item in items {
        let policies = item["policies"].as_object().into_iter().flatten();
        let policies: u64 = policies.map(|(_, of_kind)| number(&of_kind["total"])).sum();
        let services = number(&item["services"]["total"]);
        table.row([text(&item["name"]), share(&item["dataplanes"]), services.to_string(), policies.to_string()]);
    }
    table.show()
}

/// Services by `kuma.io/service`, from ServiceInsights.
pub(crate) fn services(items: &[Value]) -> String {
    let mut table = Table::new(["SERVICE", "STATUS", "DATAPLANES"]);
    for item in items {
        let status = match item["status"].as_str() {
            Some("online") => "Online",
            Some("partially_degraded") => "Partially degraded",
            Some("not_available") => "Not available",
            None | Some(_) => "Offline",
        };
        table.row([text(&item["name"]), status.to_owned(), share(&item["dataplanes"])]);
    }
    table.show()
}

/// `online/total`
fn share(dataplanes: &Value) -> String {
    format!("{}/{}", number(&dataplanes["online"]), number(&dataplanes["total"]))
}

fn online(is_online: bool) -> String {
    if is_online { "Online" } else { "Offline" }.to_owned()
}

/// Last connection and update, and the counts of all connections that the insight has.
fn updates(insight: &Value, now: Timestamp) -> [String; 4] {
    let last = last(insight);
    let since = |time: &Value| age::since(time.as_str(), now);
    let subscriptions = || insight["subscriptions"].as_array().into_iter().flatten();
    let total =
        |field: &str| subscriptions().map(|one| number(&one["status"]["total"][field])).sum::<u64>().to_string();
    let (connected, updated) = (since(&last["connectTime"]), since(&last["status"]["lastUpdateTime"]));
    [connected, updated, total("responsesSent"), total("responsesRejected")]
}

fn certificate(mtls: &Value, now: Timestamp) -> [String; 5] {
    let until = mtls["certificateExpirationTime"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
    let backends = mtls["supportedBackends"].as_array().into_iter().flatten().filter_map(Value::as_str);
    [
        age::since(mtls["lastCertificateRegeneration"].as_str(), now),
        until.map_or_else(|| "-".to_owned(), |until| until.strftime("%Y-%m-%d %H:%M:%S").to_string()),
        number(&mtls["certificateRegenerations"]).to_string(),
        dash(&mtls["issuedBackend"]),
        backends.collect::<Vec<_>>().join(","),
    ]
}

fn versions(insight: &Value) -> [String; 2] {
    let version = &last(insight)["version"];
    [dash(&version["kumaDp"]["version"]), dash(&version["envoy"]["version"])]
}

/// Inbounds that are not ready.
fn notes(networking: &Value) -> String {
    let inbounds = networking["inbound"].as_array().into_iter().flatten();
    let waiting = inbounds.filter(|inbound| !status::is_ready(inbound) && inbound["state"] != "Ignored");
    let note = |inbound: &Value| {
        let service = inbound["tags"]["kuma.io/service"].as_str().unwrap_or_default();
        format!("inbound[port={},svc={service}] is not ready", number(&inbound["port"]))
    };
    waiting.map(note).collect::<Vec<_>>().join(";")
}

fn last(insight: &Value) -> &Value {
    insight["subscriptions"].as_array().and_then(|all| all.last()).unwrap_or(&Value::Null)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn dash(value: &Value) -> String {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or("-").to_owned()
}

/// JSON of protobuf leaves zeros out, and writes long numbers as text.
fn number(value: &Value) -> u64 {
    value.as_str().map_or_else(|| value.as_u64(), |text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn now() -> Timestamp {
        "2026-11-15T12:00:00Z".parse().unwrap()
    }

    fn insight() -> Value {
        let counts = |sent: &str, rejected: &str| json!({ "responsesSent": sent, "responsesRejected": rejected });
        json!({
            "subscriptions": [
                { "connectTime": "2026-11-15T10:00:00Z", "disconnectTime": "2026-11-15T11:00:00Z",
                  "status": { "total": counts("5", "1") } },
                { "connectTime": "2026-11-15T11:00:00Z", "config": "{\"store\":{\"type\":\"postgres\"}}",
                  "status": { "lastUpdateTime": "2026-11-15T11:59:00Z", "total": counts("6", "0") },
                  "version": { "kumaDp": { "version": "2.14.3" }, "envoy": { "version": "1.40.0" }, "kumaCp": { "version": "2.14.3" } } },
            ],
            "mTLS": { "lastCertificateRegeneration": "2026-11-15T09:00:00Z", "certificateRegenerations": 3,
                      "certificateExpirationTime": "2026-11-16T09:00:00Z", "issuedBackend": "ca-1", "supportedBackends": ["ca-1", "ca-2"] },
        })
    }

    #[test]
    fn shows_connections_and_certificates_of_proxies() {
        let inbound = json!([
            { "port": 80, "tags": { "kuma.io/service": "web" } },
            { "port": 81, "state": "NotReady", "tags": { "kuma.io/service": "web" } },
        ]);
        let networking = json!({ "networking": { "inbound": inbound } });
        let items = [
            json!({ "mesh": "default", "name": "web-1", "dataplane": networking, "dataplaneInsight": insight() }),
            json!({ "mesh": "default", "name": "web-2", "dataplane": {} }),
        ];
        expect![[r#"
            MESH      NAME    TAGS                  STATUS               LAST CONNECTED AGO   LAST UPDATED AGO   TOTAL UPDATES   TOTAL ERRORS   CERT REGENERATED AGO   CERT EXPIRATION       CERT REGENERATIONS   CERT BACKEND   SUPPORTED CERT BACKENDS   KUMA-DP VERSION   ENVOY VERSION   NOTES
            default   web-1   kuma.io/service=web   Partially degraded   1h                   1m                 11              1              3h                     2026-11-16 09:00:00   3                    ca-1           ca-1,ca-2                 2.14.3            1.40.0          inbound[port=81,svc=web] is not ready
            default   web-2                         Offline              never                never              0               0              never                  -                     0                    -                                        -                 -"#]]
        .assert_eq(&dataplanes(&items, now()));
    }

    #[test]
    fn shows_zones_and_zone_proxies() {
        let zone = [json!({ "name": "east", "zone": { "enabled": true }, "zoneInsight": insight() })];
        expect![[r#"
            NAME   STATUS   LAST CONNECTED AGO   LAST UPDATED AGO   TOTAL UPDATES   TOTAL ERRORS   ZONE-CP VERSION   BACKEND
            east   Online   1h                   1m                 11              1              2.14.3            postgres"#]]
        .assert_eq(&zones(&zone, now()));
        let ingress = [json!({ "name": "in", "zoneIngressInsight": insight() }), json!({ "name": "out" })];
        expect![[r#"
            NAME   STATUS    LAST CONNECTED AGO   LAST UPDATED AGO   TOTAL UPDATES   TOTAL ERRORS   KUMA-DP VERSION   ENVOY VERSION
            in     Online    1h                   1m                 11              1              2.14.3            1.40.0
            out    Offline   never                never              0               0              -                 -"#]]
        .assert_eq(&zone_proxies(&ingress, "zoneIngressInsight", now()));
    }

    #[test]
    fn shows_meshes_and_services() {
        let mesh = json!({ "name": "default", "dataplanes": { "total": 3, "online": 2 }, "services": { "total": 2 },
                           "policies": { "MeshTimeout": { "total": 2 }, "MeshRetry": { "total": 1 } } });
        expect![[r#"
            MESH      DATAPLANES   SERVICES   POLICIES
            default   2/3          2          3"#]]
        .assert_eq(&meshes(&[mesh]));
        let items = [
            json!({ "name": "web", "status": "partially_degraded", "dataplanes": { "total": 2, "online": 1 } }),
            json!({ "name": "db", "dataplanes": { "total": 1 } }),
        ];
        expect![[r#"
            SERVICE   STATUS               DATAPLANES
            web       Partially degraded   1/2
            db        Offline              0/1"#]]
        .assert_eq(&services(&items));
    }
}

//! Summary of the status of a proxy.

use std::fmt::Write as _;

use kodiak_terminal::{Table, printable};
use serde_json::Value;

use crate::report::{dataplane_status, dataplane_versions};

/// `why_not` is the reason if there is no `status`.
pub(super) fn text(overview: &Value, status: Option<&Value>, why_not: Option<&str>) -> String {
    let last = overview.pointer("/dataplaneInsight/subscriptions").and_then(Value::as_array).and_then(|all| all.last());
    let mut lines = vec![
        ("Dataplane", format!("{} in mesh {}", string(overview, "/name"), string(overview, "/mesh"))),
        ("Status", format!("{}{}", dataplane_status(overview), since(last))),
    ];
    lines.extend(dataplane_versions(overview).map(|versions| ("Versions", versions)));
    lines.extend(certificate(overview, status));
    if let Some(status) = status {
        lines.extend(step(status, overview));
        lines.push(("Configuration", progress(status)));
    }
    let mut text = String::new();
    for (name, value) in lines {
        let _ = writeln!(text, "{:<15}{}", format!("{name}:"), printable(&value).replace('\n', " "));
    }
    if let Some(status) = status {
        let _ = writeln!(text, "\n{}", responses(status));
        text.push_str(&rejections(status));
        text.push_str(&faults(status));
        if let Some(warning) = status.pointer("/certificate/warning").and_then(Value::as_str) {
            let _ = writeln!(text, "\nWarning: {}", printable(warning));
        }
    } else if let Some(why_not) = why_not {
        let _ = writeln!(text, "\nNo further status: {}", printable(why_not));
    }
    text
}

fn string(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// ` since TIME, at control plane NAME`
fn since(last: Option<&Value>) -> String {
    let Some(last) = last else { return ", never connected".to_owned() };
    let (connected, gone) = (string(last, "/connectTime"), string(last, "/disconnectTime"));
    let time = if gone.is_empty() { connected } else { gone };
    format!(" since {time}, at control plane {}", string(last, "/controlPlaneInstanceId"))
}

fn certificate(overview: &Value, status: Option<&Value>) -> Option<(&'static str, String)> {
    let mtls = overview.pointer("/dataplaneInsight/mTLS")?;
    let issuer = Some(string(mtls, "/issuedBackend")).filter(|issuer| !issuer.is_empty())?;
    let trusted = mtls.get("supportedBackends").and_then(Value::as_array).into_iter().flatten();
    let trusted: Vec<_> = trusted.filter_map(Value::as_str).collect();
    let until = string(mtls, "/certificateExpirationTime");
    let left = status.map(|status| string(status, "/certificate/expiresIn")).filter(|left| !left.is_empty());
    let left = left.map(|left| format!(" (expires in {left})")).unwrap_or_default();
    Some(("Certificate", format!("from {issuer}, until {until}{left}; trusts {}", trusted.join(", "))))
}

/// Current step and goal of the mTLS rollout, and the progress of this proxy.
fn step(status: &Value, overview: &Value) -> Option<(&'static str, String)> {
    let (step, target) = (string(status, "/mTLS/step"), string(status, "/mTLS/target"));
    if step.is_empty() && target.is_empty() {
        return None;
    }
    let named = |step: &str| if step.is_empty() { "off".to_owned() } else { step.to_owned() };
    let mut text = named(&step);
    if step != target {
        let _ = write!(text, "; rolling out to {}", named(&target));
    }
    if string(overview, "/dataplaneInsight/mTLS/acknowledged") != step {
        text.push_str("; not acknowledged by this proxy yet");
    }
    let waiting = status.pointer("/mTLS/waiting").and_then(Value::as_array).into_iter().flatten();
    let waiting: Vec<_> = waiting.filter_map(Value::as_str).collect();
    if !waiting.is_empty() {
        let _ = write!(text, "; the next step waits for {}", waiting.join(", "));
    }
    Some(("mTLS", text))
}

fn progress(status: &Value) -> String {
    let number = |field: &str| status.get(field).and_then(Value::as_u64);
    match (number("published"), number("settled")) {
        (None, _) => "nothing sent yet".to_owned(),
        (Some(published), Some(settled)) if published == settled => format!("revision {published}, answered in full"),
        (Some(published), Some(settled)) => format!("revision {published}; answered in full up to {settled}"),
        (Some(published), None) => format!("revision {published}; not answered in full yet"),
    }
}

fn types(status: &Value) -> impl Iterator<Item = &Value> {
    status.get("types").and_then(Value::as_array).into_iter().flatten()
}

fn responses(status: &Value) -> String {
    let mut table = Table::new(["TYPE", "SENT", "ACKED", "REJECTED"]);
    for of_type in types(status) {
        let number = |field: &str| of_type[field].to_string();
        table.row([string(of_type, "/type"), number("sent"), number("acknowledged"), number("rejected")]);
    }
    table.show()
}

/// Envoy's error in full.
fn rejections(status: &Value) -> String {
    let mut text = String::new();
    for of_type in types(status) {
        let Some(error) = of_type.get("lastError").and_then(Value::as_str) else { continue };
        let now = of_type["rejecting"].as_bool() == Some(true);
        let now = if now { "It stays on its last good configuration" } else { "It has accepted a later version since" };
        let short = string(of_type, "/type");
        let _ = writeln!(text, "\nThe proxy rejected {short}. {now}:\n{}", indented(error));
    }
    text
}

fn faults(status: &Value) -> String {
    let faults = status.get("faults").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let faults: Vec<_> = faults.map(indented).collect();
    if faults.is_empty() {
        return String::new();
    }
    format!(
        "\nResources failed validation. The proxy has their last good version, or does not have them; all others are current:\n{}\n",
        faults.join("\n")
    )
}

fn indented(text: &str) -> String {
    printable(text).lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn overview() -> Value {
        json!({
            "mesh": "default", "name": "web-1",
            "dataplane": { "networking": { "inbound": [{ "port": 80 }] } },
            "dataplaneInsight": {
                "subscriptions": [{
                    "connectTime": "2026-11-15T12:00:00Z", "controlPlaneInstanceId": "cp-1",
                    "version": { "kumaDp": { "version": "0.1.0" }, "envoy": { "version": "1.40.0" } },
                }],
                "mTLS": {
                    "issuedBackend": "ca-1", "certificateExpirationTime": "2026-11-16T12:00:00Z",
                    "supportedBackends": ["ca-1", "ca-2"], "acknowledged": "accept=both",
                },
            },
        })
    }

    #[test]
    fn shows_a_nack_with_the_error_of_envoy() {
        let status = json!({
            "types": [
                { "type": "cds", "sent": 2, "acknowledged": 2, "rejected": 0, "rejecting": false },
                { "type": "lds", "sent": 2, "acknowledged": 1, "rejected": 1, "rejecting": true,
                  "lastError": "cannot bind\n'203.0.113.5:80'\u{1b}" },
            ],
            "published": 7, "settled": 6, "faults": ["inbound:1: two resources have this name"],
            "mTLS": { "step": "accept=mtls", "target": "accept=mtls call=mtls" },
        });
        expect![[r#"
            Dataplane:     web-1 in mesh default
            Status:        Online since 2026-11-15T12:00:00Z, at control plane cp-1
            Versions:      0.1.0/1.40.0
            Certificate:   from ca-1, until 2026-11-16T12:00:00Z; trusts ca-1, ca-2
            mTLS:          accept=mtls; rolling out to accept=mtls call=mtls; not acknowledged by this proxy yet
            Configuration: revision 7; answered in full up to 6

            TYPE   SENT   ACKED   REJECTED
            cds    2      2       0
            lds    2      1       1

            The proxy rejected lds. It stays on its last good configuration:
              cannot bind
              '203.0.113.5:80'�

            Resources failed validation. The proxy has their last good version, or does not have them; all others are current:
              inbound:1: two resources have this name
        "#]]
        .assert_eq(&text(&overview(), Some(&status), None));
    }

    #[test]
    fn warns_of_a_certificate_that_was_not_renewed() {
        let certificate = json!({ "expiresIn": "5h 12m", "warning": "the certificate expires in 5h 12m" });
        let text = text(&overview(), Some(&json!({ "certificate": certificate })), None);
        assert!(text.contains("until 2026-11-16T12:00:00Z (expires in 5h 12m); trusts"), "{text}");
        assert!(text.contains("\nWarning: the certificate expires in 5h 12m\n"), "{text}");
    }

    #[test]
    fn shows_why_a_proxy_is_disconnected() {
        let never = json!({ "mesh": "default", "name": "web-1", "dataplane": {} });
        expect![[r#"
            Dataplane:     web-1 in mesh default
            Status:        Offline, never connected

            No further status: the proxy is not connected
        "#]]
        .assert_eq(&text(&never, None, Some("the proxy is not connected")));
    }
}

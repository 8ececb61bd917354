//! Merged policy configuration of a proxy: one row per rule, with the policies it comes from.

use std::fmt::Write as _;

use kodiak_kinds::kinds;
use kodiak_model::policy::{Conf, merge};
use serde_json::Value;

use kodiak_terminal::{Table, printable};

/// Rule with its inbound or outbound, its match, and the policies it comes from.
struct Row {
    at: String,
    about: String,
    kind: String,
    /// Lowest precedence first.
    policies: Vec<String>,
    conf: Value,
}

/// Inbound rules, then outbound rules, then those of the proxy itself.
pub(super) fn text(found: &Value) -> String {
    let mut rows: Vec<Row> = list(found, "rules").iter().flat_map(of_kind).collect();
    rows.sort_by_key(|row| match row.at.as_str() {
        "destination" => 1,
        "proxy" => 2,
        _ => 0,
    });
    let mut shown = if rows.is_empty() { "No policy affects this proxy.\n".to_owned() } else { String::new() };
    if !rows.is_empty() {
        let mut table = Table::new(["AT", "FOR", "KIND", "POLICIES", "CONF"]);
        for Row { at, about, kind, policies, conf } in rows {
            table.row([at, about, kind, policies.join(" < "), conf.to_string()]);
        }
        let _ = writeln!(shown, "{}", table.show());
    }
    for of_kind in list(found, "rules") {
        if let Some(why) = kinds().by_name(&string(of_kind, "type")).and_then(|kind| kind.without_effect) {
            let _ = writeln!(shown, "\nWarning: {} has no effect: {why}", string(of_kind, "type"));
        }
        for warning in list(of_kind, "warnings").iter().filter_map(Value::as_str) {
            let _ = writeln!(shown, "\nWarning: {}: {}", string(of_kind, "type"), printable(warning));
        }
    }
    shown
}

fn of_kind(of_kind: &Value) -> Vec<Row> {
    let kind = string(of_kind, "type");
    let row = |at: &str, about: String, policies: Vec<String>, conf: Value| Row {
        at: at.to_owned(),
        about,
        kind: kind.clone(),
        policies,
        conf,
    };
    let mut rows = Vec::new();
    for place in list(of_kind, "inboundRules") {
        let at = inbound(&place["inbound"]);
        rows.extend(
            for_callers(&kind, list(place, "rules"))
                .into_iter()
                .map(|(about, policies, conf)| row(&at, about, policies, conf)),
        );
    }
    // Where `from` is converted to `rules`, it is among those.
    let from = if is_merged(&kind) { &[] } else { list(of_kind, "fromRules") };
    for place in from {
        let at = inbound(&place["inbound"]);
        let rules = list(place, "rules").iter();
        rows.extend(rules.map(|rule| row(&at, tags(rule, "everybody"), origins(rule, "/name"), rule["conf"].clone())));
    }
    for rule in list(of_kind, "toResourceRules") {
        let about = destination(&rule["resourceMeta"], &string(rule, "resourceSectionName"));
        rows.push(row("destination", about, origins(rule, "/resourceMeta/name"), one(&rule["conf"])));
    }
    let rules = list(of_kind, "toRules").iter();
    rows.extend(
        rules.map(|rule| row("destination", tags(rule, "everything"), origins(rule, "/name"), rule["conf"].clone())),
    );
    if let Some(rule) = of_kind.get("proxyRule") {
        rows.push(row("proxy", "-".to_owned(), origins(rule, "/name"), rule["conf"].clone()));
    }
    rows
}

/// Merges rules without a match, for kinds that merge them.
fn for_callers(kind: &str, rules: &[Value]) -> Vec<(String, Vec<String>, Value)> {
    let together = is_merged(kind);
    let (merged, single): (Vec<&Value>, Vec<&Value>) =
        rules.iter().partition(|rule| together && rule.get("match").is_none());
    let about = |rule: &Value| rule.get("match").map_or_else(|| "everybody".to_owned(), caller);
    let mut shown: Vec<_> =
        single.iter().map(|rule| (about(rule), origins(rule, "/resourceMeta/name"), one(&rule["conf"]))).collect();
    if !merged.is_empty() {
        let confs: Vec<Conf> = merged.iter().map(|rule| Conf::new(one(&rule["conf"]))).collect();
        let mut policies: Vec<String> = merged.iter().flat_map(|rule| origins(rule, "/resourceMeta/name")).collect();
        policies.dedup();
        shown.push(("everybody".to_owned(), policies, merge(&confs).json().clone()));
    }
    shown
}

/// Whether rules of a kind without a match are merged into one configuration.
fn is_merged(kind: &str) -> bool {
    kinds().by_name(kind).and_then(|kind| kind.policy).is_some_and(|facts| facts.from_as_rules)
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn string(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A single configuration is shown without a list around it.
fn one(confs: &Value) -> Value {
    match confs.as_array().map(Vec::as_slice) {
        Some([only]) => only.clone(),
        _ => confs.clone(),
    }
}

/// `inbound 8080`, `inbound metrics (9090)`
fn inbound(inbound: &Value) -> String {
    let port = &inbound["port"];
    match string(inbound, "name").as_str() {
        "" => format!("inbound {port}"),
        name => format!("inbound {name} ({port})"),
    }
}

/// `Mesh default`, `MeshService web`, `MeshService web:http`
fn destination(meta: &Value, section: &str) -> String {
    let whole = format!("{} {}", string(meta, "type"), string(meta, "name"));
    if section.is_empty() { whole } else { format!("{whole}:{section}") }
}

fn tags(rule: &Value, all: &str) -> String {
    let tag = |tag: &Value| {
        let not = if tag["not"].as_bool() == Some(true) { "!" } else { "" };
        format!("{not}{}={}", string(tag, "key"), string(tag, "value"))
    };
    let tags: Vec<String> = list(rule, "matchers").iter().map(tag).collect();
    if tags.is_empty() { all.to_owned() } else { tags.join(",") }
}

/// `spiffeID=spiffe://a/b`, `spiffeID=spiffe://a*,sni=x`
fn caller(matches: &Value) -> String {
    let one = |field: &str| {
        let one = matches.get(field)?;
        let rest = if one["type"] == "Prefix" { "*" } else { "" };
        Some(format!("{field}={}{rest}", string(one, "value")))
    };
    let parts: Vec<String> = ["spiffeID", "sni"].into_iter().filter_map(one).collect();
    if parts.is_empty() { "everybody".to_owned() } else { parts.join(",") }
}

/// `slow`, or `slow (via web_shop_svc_80)` for a policy that targets the legacy name of a MeshService.
fn origins(rule: &Value, name: &str) -> Vec<String> {
    let shown = |origin: &Value| {
        let name = origin.pointer(name)?.as_str()?;
        Some(match string(origin, "viaOldName").as_str() {
            "" => name.to_owned(),
            legacy_name => format!("{name} (via {legacy_name})"),
        })
    };
    let mut names: Vec<String> = list(rule, "origin").iter().filter_map(shown).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn item(name: &str) -> Value {
        json!([{ "resourceMeta": { "type": "MeshTimeout", "name": name }, "ruleIndex": 0 }])
    }

    #[test]
    fn shows_the_legacy_name_a_policy_targets() {
        let origin = |name: &str, legacy_name: Value| {
            let mut origin = item(name)[0].clone();
            origin["viaOldName"] = legacy_name;
            origin
        };
        let legacy_name = json!("demo-app_kuma-demo_svc_5000");
        let rule = json!({
            "conf": [{ "a": 1 }], "resourceMeta": { "type": "MeshService", "name": "demo-app" },
            "resourceSectionName": "5000",
            "origin": [origin("all", Value::Null), origin("slow", legacy_name), origin("slow", Value::Null)],
        });
        let found = json!({ "rules": [{ "type": "MeshTimeout", "toResourceRules": [rule] }] });
        expect![[r#"
            AT            FOR                         KIND          POLICIES                                              CONF
            destination   MeshService demo-app:5000   MeshTimeout   all < slow (via demo-app_kuma-demo_svc_5000) < slow   {"a":1}
        "#]]
        .assert_eq(&text(&found));
    }

    #[test]
    fn shows_rules_with_policies_in_order_of_precedence() {
        let exact = json!({ "spiffeID": { "type": "Exact", "value": "spiffe://a/b" } });
        let timeout = json!({
            "type": "MeshTimeout",
            "toRules": [
                { "conf": { "a": 1 }, "matchers": [{ "key": "kuma.io/service", "value": "db", "not": false }],
                  "origin": [{ "name": "all" }, { "name": "db" }] },
                { "conf": { "a": 2 }, "matchers": [], "origin": [{ "name": "all" }] },
            ],
            "toResourceRules": [
                { "conf": [{ "a": 3 }], "origin": item("all"), "resourceSectionName": "http",
                  "resourceMeta": { "type": "MeshService", "name": "db" } },
            ],
            "fromRules": [],
            "inboundRules": [{ "inbound": { "port": 8080 }, "rules": [
                { "conf": [{ "a": 4 }], "match": exact, "origin": item("narrow") },
                { "conf": [{ "a": 5, "b": 5 }], "origin": item("weak") },
                { "conf": [{ "a": 6 }], "origin": item("strong") },
            ] }],
            "warnings": ["unable to resolve"],
        });
        let permission = json!({
            "type": "MeshTrafficPermission",
            "fromRules": [{ "inbound": { "name": "admin", "port": 9090 }, "rules": [
                { "conf": { "action": "Deny" }, "matchers": [{ "key": "v", "value": "1", "not": true }],
                  "origin": [{ "name": "p" }] },
            ] }],
        });
        let trace = json!({ "type": "MeshTrace", "proxyRule": { "conf": {}, "origin": [{ "name": "t" }] } });
        let found = json!({ "rules": [trace, timeout, permission] });
        expect![[r#"
            AT                     FOR                     KIND                    POLICIES        CONF
            inbound 8080           spiffeID=spiffe://a/b   MeshTimeout             narrow          {"a":4}
            inbound 8080           everybody               MeshTimeout             weak < strong   {"a":6,"b":5}
            inbound admin (9090)   !v=1                    MeshTrafficPermission   p               {"action":"Deny"}
            destination            MeshService db:http     MeshTimeout             all             {"a":3}
            destination            kuma.io/service=db      MeshTimeout             all < db        {"a":1}
            destination            everything              MeshTimeout             all             {"a":2}
            proxy                  -                       MeshTrace               t               {}

            Warning: MeshTimeout: unable to resolve
        "#]]
        .assert_eq(&text(&found));
        assert_eq!(text(&json!({ "rules": [] })), "No policy affects this proxy.\n");
    }
}

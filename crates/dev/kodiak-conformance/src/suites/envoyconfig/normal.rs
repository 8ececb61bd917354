//! Removes values that vary between runs and machines, as the recordings do.

use std::{cmp::Ordering, net::Ipv6Addr};

use serde_json::{Map, Value, json};

/// Listener for the sidecar process, which is covered by another suite.
const DP_LISTENER: &str = "_kuma:dynamicconfig";
/// Resources that contain the address of the admin interface or of the readiness endpoint.
const OWN: [&str; 2] = ["kuma:envoy:admin", "kuma:readiness"];

/// In a whole configuration.
pub(super) fn config(xds: &mut Value) {
    for resources in xds.as_object_mut().into_iter().flat_map(|types| types.values_mut()) {
        let Some(resources) = resources.as_object_mut() else { continue };
        resources.remove(DP_LISTENER);
        for name in OWN {
            if let Some(resource) = resources.get_mut(name) {
                own_address(resource);
            }
        }
    }
    values(xds);
}

fn own_address(resource: &mut Value) {
    let redacted = json!({ "socketAddress": { "address": "ADMIN_REDACTED", "portValue": 0 } });
    for pointer in ["/address", "/loadAssignment/endpoints/0/lbEndpoints/0/endpoint/address"] {
        if let Some(address) = resource.pointer_mut(pointer) {
            *address = redacted.clone();
        }
    }
}

/// At any depth.
fn values(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("dnsLookupFamily");
            let named = std::mem::take(fields).into_iter().map(|(name, mut value)| {
                match name.as_str() {
                    "statPrefix" => value = json!("STAT_PREFIX_REDACTED"),
                    // Both sides have other placeholders.
                    "privateKey" | "certificateChain" | "trustedCa" => value = json!("SECRET_REDACTED"),
                    _ => values(&mut value),
                }
                if let ("principals", Some(any_of)) = (name.as_str(), value.as_array_mut()) {
                    any_of.sort_by_key(Value::to_string);
                }
                (addresses(&name), value)
            });
            *fields = named.collect::<Map<_, _>>();
        }
        Value::Array(items) => items.iter_mut().for_each(values),
        Value::String(text) => *text = addresses(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

/// IPv4 addresses anywhere in a text, and IPv6 addresses that are the whole text.
fn addresses(text: &str) -> String {
    const REDACTED: &str = "IP_REDACTED";
    if text.contains(':') && text.parse::<Ipv6Addr>().is_ok() {
        return REDACTED.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        shown.push_str(before);
        shown.push_str(if word.parse::<std::net::Ipv4Addr>().is_ok() { REDACTED } else { word });
        rest = after;
    }
    shown + rest
}

/// A JSON patch, without test operations and in a canonical order.
pub(super) fn diff(operations: &mut Vec<Value>) {
    operations.retain(|operation| operation["op"] != "test");
    operations.sort_by(order);
}

/// Removals come before additions; operations on the same list keep their order.
fn order(one: &Value, other: &Value) -> Ordering {
    let path = |operation: &Value| operation["path"].as_str().unwrap_or_default().to_owned();
    let is_add = |operation: &Value| operation["op"] == "add";
    let in_list = path(one).rsplit('/').next().is_some_and(|last| last.parse::<usize>().is_ok());
    let by_value = || {
        if in_list { Ordering::Equal } else { one["value"].to_string().cmp(&other["value"].to_string()) }
    };
    path(one).cmp(&path(other)).then_with(|| is_add(one).cmp(&is_add(other))).then_with(by_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_names_and_values() {
        for (text, shown) in [
            ("inbound:10.0.0.1:80", "inbound:IP_REDACTED:80"),
            ("127.0.0.6", "IP_REDACTED"),
            ("::", "IP_REDACTED"),
            ("localhost:8080", "localhost:8080"),
            ("kuma-3.a1.2", "kuma-3.a1.2"),
        ] {
            assert_eq!(addresses(text), shown);
        }
    }

    #[test]
    fn dp_listener_is_removed_and_own_addresses_are_hidden() {
        let address = json!({ "pipe": { "path": "/tmp/x.sock" } });
        let mut xds = json!({ "l": { "_kuma:dynamicconfig": {}, "kuma:envoy:admin": { "address": address } } });
        config(&mut xds);
        let hidden = json!({ "socketAddress": { "address": "ADMIN_REDACTED", "portValue": 0 } });
        assert_eq!(xds, json!({ "l": { "kuma:envoy:admin": { "address": hidden } } }));
    }

    #[test]
    fn patch_has_no_test_operations_and_one_order() {
        let operation = |op: &str, path: &str, value: u32| json!({ "op": op, "path": path, "value": value });
        let mut operations = vec![
            operation("test", "/b", 1),
            operation("add", "/b", 2),
            operation("remove", "/b", 1),
            operation("add", "/a/0", 2),
            operation("add", "/a/0", 1),
        ];
        diff(&mut operations);
        let expected = [
            operation("add", "/a/0", 2),
            operation("add", "/a/0", 1),
            operation("remove", "/b", 1),
            operation("add", "/b", 2),
        ];
        assert_eq!(operations, expected);
    }
}

//! Deviations about proxy configuration.

use serde_json::Value;

use super::{cliques, faults, permissions};

const ASSIGNMENT: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";

/// Applies all of them to a whole configuration: `{ type: { name: resource } }`.
pub(crate) fn rewrite(xds: &mut Value, has_ipv6: bool) {
    if let Some(assignments) = xds.get_mut(ASSIGNMENT) {
        without_labels(assignments);
    }
    if let Some(listeners) = xds.get_mut(LISTENER) {
        by_caller(listeners);
        faults::without_tags_header(listeners);
    }
    if !has_ipv6 {
        without_ipv6(xds);
    }
}

/// [`super::NO_LABELS`]
fn without_labels(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("io.kuma.labels");
            fields.values_mut().for_each(without_labels);
        }
        Value::Array(items) => items.iter_mut().for_each(without_labels),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

/// [`super::NO_IPV6`]
fn without_ipv6(xds: &mut Value) {
    for resources in xds.as_object_mut().into_iter().flat_map(|types| types.values_mut()) {
        if let Some(resources) = resources.as_object_mut() {
            resources.retain(|name, _| !name.ends_with(":passthrough:ipv6"));
        }
    }
}

/// [`super::PRINCIPALS`], [`super::MOST_SPECIFIC`] and [`super::ONE_URI`]
fn by_caller(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let ("filters" | "httpFilters", Some(filters)) = (name.as_str(), value.as_array_mut()) {
                    permissions::by_principals(filters);
                    filters.iter_mut().filter(|filter| is_permissions(filter)).for_each(cliques::most_specific);
                    filters.iter_mut().for_each(faults::by_one_uri);
                }
                by_caller(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(by_caller),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

fn is_permissions(filter: &Value) -> bool {
    ["envoy.filters.http.rbac", "envoy.filters.network.rbac"].iter().any(|name| filter["name"] == *name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_and_ipv6_resources_are_removed() {
        let recorded = |labels: bool, ipv6: bool| {
            let mut tags = json!({ "envoy.lb": { "version": "v1" } });
            if labels {
                tags["io.kuma.labels"] = json!({ "team": "a" });
            }
            let mut listeners = json!({ "inbound:passthrough:ipv4": {} });
            if ipv6 {
                listeners["inbound:passthrough:ipv6"] = json!({});
            }
            json!({ LISTENER: listeners, ASSIGNMENT: { "web": { "endpoints": [{ "filterMetadata": tags }] } } })
        };
        let mut xds = recorded(true, true);
        rewrite(&mut xds, true);
        assert_eq!(xds, recorded(false, true));
        rewrite(&mut xds, false);
        assert_eq!(xds, recorded(false, false));
    }
}

//! What we answer differently on purpose, each as a rule over the expected answer.

use kodiak_model::{policy::Body, tags};
use serde_json::Value;

struct Deviation {
    name: &'static str,
    because: &'static str,
}

const UNKNOWN_FIELDS: Deviation = Deviation {
    name: "unknown-fields-are-reported",
    because: "nothing is dropped in silence: a field that nothing reads is accepted, and named in `warnings`",
};

const SECTIONS: Deviation = Deviation {
    name: "section-means-the-resource",
    because: "seed 004: an item with `sectionName` is about the MeshService only, never about `kuma.io/service`",
};

const ALL: &[&Deviation] = &[&UNKNOWN_FIELDS, &SECTIONS];

pub(crate) fn list() {
    for Deviation { name, because } in ALL {
        println!("{name}: {because}");
    }
}

/// [`UNKNOWN_FIELDS`]: the expected answer of a write gains the warnings about unknown fields.
pub(crate) fn with_unknown_fields(expected: &mut Value, found: &Value) {
    let warnings = found.get("warnings").and_then(Value::as_array);
    let unknown: Vec<Value> = warnings
        .into_iter()
        .flatten()
        .filter(|warning| warning.as_str().is_some_and(|text| text.starts_with("unknown field ")))
        .cloned()
        .collect();
    let Some(body) = expected.as_object_mut().filter(|body| !unknown.is_empty() && !body.contains_key("status")) else {
        return;
    };
    let all = body.entry("warnings").or_insert_with(|| Value::Array(Vec::new()));
    if let Some(all) = all.as_array_mut() {
        all.splice(0..0, unknown);
    }
}

/// [`SECTIONS`], in the expected answer of `_rules`.
pub(crate) fn with_sections_in_rules(expected: &mut Value, policies: &[Body]) {
    for of_kind in expected.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(Value::Array(rules)) = of_kind.get_mut("toRules") {
            rules.retain(|rule| !is_shown_for_sections(rule, policies));
        }
    }
}

/// A rule for a `kuma.io/service` that all items name together with a section.
fn is_shown_for_sections(rule: &Value, policies: &[Body]) -> bool {
    let mut matchers = rule["matchers"].as_array().into_iter().flatten();
    let Some(service) = matchers.find(|tag| tag["key"] == tags::SERVICE && tag["not"] == false) else { return false };
    let targets = policies.iter().flat_map(|policy| &policy.to).map(|item| &item.target);
    let mut named = targets.filter(|target| service["value"] == *target.name.as_deref().unwrap_or_default()).peekable();
    named.peek().is_some() && named.all(|target| target.section_name.as_deref().is_some_and(|name| !name.is_empty()))
}

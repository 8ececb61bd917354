//! `validate-<kind>`: validates a spec, compares the violations. Without an expected output the spec is valid.

use anyhow::Context as _;
use kodiak_kinds::kinds;
use kodiak_model::{CheckCtx, FieldPath, Labels, Problems, Shape, conform::conform, schema::Node, yaml};
use serde_json::{Map, Value, json};

use crate::case::{Case, Outcome, compare};

/// The recorded inputs contain only a spec, and were read without the schema: numbers became strings where strings are
/// expected. The order of violations is unspecified.
pub(crate) fn run(kind: &str, case: &Case) -> anyhow::Result<Outcome> {
    let Some(kind) = kinds().by_arg(kind) else { return Ok(Outcome::Skipped(format!("kind {kind} is unsupported"))) };
    let text = case.text()?;
    let mut spec = match yaml::parse(&text)?.into_iter().next() {
        Some(document) => document.value,
        None => Value::Object(Map::new()),
    };
    coerce(&mut spec, kind.spec_node());
    let _ = conform(&mut spec, kind.spec_node(), Shape::Plugin, &FieldPath::SPEC);

    let expected = case.beside(".output.yaml").or_else(|| case.beside(".golden.yaml"));
    let expected = match expected {
        Some(text) => yaml::parse(&text)?.into_iter().next().context("the expected output is empty")?.value,
        None => json!({ "violations": [] }),
    };
    let expected = sorted(expected["violations"].as_array().cloned().unwrap_or_default());

    // The name is not part of the input. A violation about it means that it was too long.
    let about_name = expected.iter().any(|violation| violation["field"] == "name");
    let name = if about_name { "n".repeat(64) } else { "name".to_owned() };
    let labels = Labels::new();
    let ctx = CheckCtx { mesh: "default", name: &name, labels: &labels };
    let mut problems = Problems::default();
    let _ = (kind.language.check)(spec, &FieldPath::SPEC, &ctx, &mut problems);
    let found = problems.iter().map(|problem| json!({ "field": problem.path, "message": problem.message })).collect();
    Ok(compare(&Value::Array(expected), &Value::Array(sorted(found))))
}

fn sorted(mut violations: Vec<Value>) -> Vec<Value> {
    violations.sort_by_key(|violation| (violation["field"].to_string(), violation["message"].to_string()));
    violations
}

fn coerce(value: &mut Value, node: &Node) {
    match (node, &mut *value) {
        (Node::Text(_), Value::Number(_) | Value::Bool(_)) => *value = Value::String(value.to_string()),
        (Node::List { items, .. }, Value::Array(list)) => list.iter_mut().for_each(|item| coerce(item, items)),
        (Node::Map(values), Value::Object(map)) => map.values_mut().for_each(|value| coerce(value, values)),
        (Node::Object(properties), Value::Object(map)) => {
            for property in properties {
                if let Some(value) = map.get_mut(&property.name) {
                    coerce(value, &property.node);
                }
            }
        }
        _ => (),
    }
}

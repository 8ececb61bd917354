//! Fields of a kind, from its schema in the OpenAPI document.

use anyhow::{Context, Result};
use serde_json::Value;

/// A schema that contains itself ends here.
const DEEPEST: usize = 12;

/// One row of a table of fields.
#[derive(Debug, PartialEq)]
pub(super) struct Field {
    /// `to[].default.http.requestTimeout`.
    pub(super) path: String,
    pub(super) type_name: String,
    pub(super) required: bool,
    pub(super) description: String,
}

/// All fields of a kind, below `spec` where it has one. The fields that all kinds share are left out.
pub(super) fn fields(openapi: &Value, kind: &str) -> Result<Vec<Field>> {
    let schemas = &openapi["components"]["schemas"];
    let schema = schemas.get(kind).with_context(|| format!("docs/openapi.json has no schema {kind}"))?;
    let schema = schema["properties"].get("spec").unwrap_or(schema);
    let mut fields = Vec::new();
    add(&mut fields, schemas, schema, "", 0);
    fields.retain(|field| !["type", "name", "mesh", "labels", "status"].contains(&field.path.as_str()));
    Ok(fields)
}

fn add(fields: &mut Vec<Field>, schemas: &Value, schema: &Value, path: &str, depth: usize) {
    let schema = resolve(schemas, schema);
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let resolved = resolve(schemas, property);
        let items = resolved.get("items").map(|items| resolve(schemas, items));
        let brackets = if items.is_some() { "[]" } else { "" };
        let path = if path.is_empty() { format!("{name}{brackets}") } else { format!("{path}.{name}{brackets}") };
        let describe = |schema: &Value| schema["description"].as_str().map(str::to_owned);
        fields.push(Field {
            path: path.clone(),
            type_name: type_name(schemas, property),
            required: required.contains(&name.as_str()),
            description: describe(property).or_else(|| describe(resolved)).unwrap_or_default().replace('\n', " "),
        });
        // Every targetRef has the same fields; the first shows them.
        let is_repeated = name == "targetRef" && path != "targetRef";
        if depth < DEEPEST && !is_repeated {
            add(fields, schemas, items.unwrap_or(resolved), &path, depth + 1);
        }
    }
}

/// The schema behind references and `anyOf` with null.
fn resolve<'a>(schemas: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return resolve(schemas, &schemas[name]);
    }
    let alternatives = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array());
    match alternatives.and_then(|all| all.iter().find(|schema| schema["type"] != "null")) {
        Some(first) => resolve(schemas, first),
        None => schema,
    }
}

/// A word for readers: `duration`, `list of objects`, or the words that are allowed.
fn type_name(schemas: &Value, schema: &Value) -> String {
    let schema = resolve(schemas, schema);
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    let name = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).find(|name| *name != "null").unwrap_or("any"),
        Value::String(name) => name,
        _ => "any",
    };
    match (name, schema["format"].as_str()) {
        ("array", _) => format!("list of {}", plural(&type_name(schemas, &schema["items"]))),
        ("object", _) if schema["additionalProperties"].is_object() => "map".to_owned(),
        ("string", Some("go-duration" | "duration")) => "duration".to_owned(),
        ("integer", _) => "number".to_owned(),
        _ => name.to_owned(),
    }
}

fn plural(name: &str) -> String {
    if name.ends_with('`') || name == "any" { name.to_owned() } else { format!("{name}s") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_listed_through_references_and_lists() {
        let openapi = json!({"components": {"schemas": {
            "MeshFoo": {"properties": {"type": {"const": "MeshFoo"}, "spec": {"type": "object", "properties": {
                "to": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/MeshFoo.Item"}}}}}},
            "MeshFoo.Item": {"type": "object", "required": ["mode"], "properties": {
                "mode": {"type": ["string", "null"], "enum": ["On", "Off", null], "description": "On or off."},
                "timeout": {"anyOf": [{"type": "string", "format": "go-duration"}, {"type": "null"}]},
                "again": {"$ref": "#/components/schemas/MeshFoo.Item"}}},
        }}});
        let fields = fields(&openapi, "MeshFoo").unwrap();
        let field = |path: &str| fields.iter().find(|field| field.path == path).unwrap();
        assert_eq!(field("to[]").type_name, "list of objects");
        assert_eq!(field("to[].timeout").type_name, "duration");
        let mode = field("to[].mode");
        assert_eq!(
            (mode.type_name.as_str(), mode.required, mode.description.as_str()),
            ("`On`, `Off`", true, "On or off.")
        );
        assert!(fields.len() < 60, "a schema that contains itself ends");
    }
}

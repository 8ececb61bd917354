//! OpenAPI document, generated from the table of routes and the schemas of the kinds.

use kodiak_kinds::kinds;
use kodiak_model::{Kind, Scope, Shape};
use serde_json::{Map, Value, json};

use crate::routes::{self, Content, Route};

pub fn document() -> Value {
    let mut paths = Map::new();
    for route in routes::all() {
        let operations = paths.entry(route.path.clone()).or_insert_with(|| json!({}));
        operations[route.method.as_str().to_ascii_lowercase()] = operation(&route);
    }
    let mut schemas = Map::new();
    schemas.insert("Error".to_owned(), error_schema());
    schemas.insert("Written".to_owned(), written_schema());
    for kind in kinds().iter() {
        add_kind(kind, &mut schemas);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Kodiak",
            "description": "The control plane's REST API. `x-kodiak-access` names the access list that a route is guarded by. `x-kodiak-cost` is `lookup`, `computed` or `write`: answers that are computed from a whole mesh, and dry runs of writes, may be refused with 503 and `Retry-After` while too many are computed.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "userToken": { "type": "http", "scheme": "bearer", "bearerFormat": "JWT" } },
        },
        "security": [{}, { "userToken": [] }],
    })
}

fn operation(route: &Route) -> Value {
    let mut operation = json!({
        "summary": route.summary,
        "x-kodiak-access": route.need.describe(),
        "x-kodiak-cost": route.run.cost().text(),
        "responses": { "default": { "description": "Error", "content": media(&reference("Error")) } },
    });
    let parameters = parameters(route);
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    match route.content {
        Content::Resource(kind) => operation["responses"]["200"] = answer("The resource", &reference(kind.name)),
        Content::List(kind) => {
            let list = json!({
                "type": "object",
                "required": ["total", "items", "next"],
                "properties": {
                    "total": { "type": "integer" },
                    "items": { "type": "array", "items": reference(kind.name) },
                    "next": { "type": ["string", "null"] },
                },
            });
            operation["responses"]["200"] = answer("A page of resources", &list);
        }
        Content::Names => {
            let name = json!({
                "type": "object",
                "required": ["type", "mesh", "name", "labels"],
                "properties": {
                    "type": { "type": "string" },
                    "mesh": { "type": "string" },
                    "name": { "type": "string" },
                    "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                },
            });
            let list = json!({
                "type": "object",
                "required": ["total", "items"],
                "properties": {
                    "total": { "type": "integer" },
                    "items": { "type": "array", "items": name },
                    "next": { "type": "string" },
                },
            });
            operation["responses"]["200"] = answer("A page of names", &list);
        }
        Content::Written(kind) => {
            operation["requestBody"] = json!({ "required": true, "content": media(&reference(kind.name)) });
            operation["responses"]["200"] = answer("Replaced", &reference("Written"));
            operation["responses"]["201"] = answer("Created", &reference("Written"));
        }
        Content::Deleted => operation["responses"]["200"] = answer("Deleted", &json!({ "type": "object" })),
        Content::Token => {
            operation["requestBody"] = json!({ "required": true, "content": media(&json!({ "type": "object" })) });
            operation["responses"]["200"] =
                json!({ "description": "The token", "content": { "text/plain": { "schema": { "type": "string" } } } });
        }
        Content::Object => operation["responses"]["200"] = answer("OK", &json!({ "type": "object" })),
        Content::Lines => {
            let content = json!({ "application/jsonl": { "schema": { "type": "string" } } });
            operation["responses"]["200"] = json!({ "description": "One JSON document per line", "content": content });
        }
        Content::EnvoyOutput => {
            let mut content = media(&json!({ "type": "object" }));
            content["text/plain"] = json!({ "schema": { "type": "string" } });
            operation["responses"]["200"] =
                json!({ "description": "Response of Envoy's admin interface", "content": content });
        }
    }
    operation
}

fn parameters(route: &Route) -> Vec<Value> {
    let in_path = route.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = in_path
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    let query = |name: &str, kind: &str, text: &str| json!({ "name": name, "in": "query", "description": text, "schema": { "type": kind } });
    if matches!(route.content, Content::List(_) | Content::Names) {
        parameters.push(query("size", "integer", "Items on a page: 1 to 1000, 100 by default"));
        parameters.push(query("offset", "integer", "Number of items to skip"));
        parameters.push(query("name", "string", "Substring of the name"));
    }
    match route.content {
        Content::List(kind) => {
            parameters.push(query("filter[labels.KEY]", "string", "Required value of label KEY"));
            if kind.name == "Dataplane" {
                parameters.push(query("tag", "string", "key:value; can be repeated"));
                parameters.push(query("gateway", "string", "true, false, builtin or delegated"));
            }
        }
        Content::Written(kind) => {
            parameters.push(query("dryRun", "boolean", "Validate without storing"));
            if kind.language.destination {
                let keep = "keep: an administrator imports the virtual address in the status, if it is free";
                parameters.push(query("vip", "string", keep));
            }
        }
        Content::EnvoyOutput => parameters.push(query("format", "string", "json or text; text by default")),
        Content::Resource(_)
        | Content::Names
        | Content::Deleted
        | Content::Token
        | Content::Object
        | Content::Lines => (),
    }
    match route.path.rsplit('/').next() {
        Some("_config") => {
            parameters.push(query("shadow", "boolean", "Include shadow policies"));
            parameters.push(query("include", "string", "diff: add the difference to the current configuration"));
        }
        Some("_diff") => parameters.push(query("full", "boolean", "Include the changes of each Envoy resource")),
        Some("xds") => parameters.push(query("include_eds", "boolean", "Include endpoints")),
        Some("stats") => parameters.push(query("usedonly", "boolean", "Only updated stats; true by default")),
        _ => (),
    }
    parameters
}

/// Schema of a kind: the envelope around the schema of its spec.
fn add_kind(kind: &Kind, schemas: &mut Map<String, Value>) {
    let mut spec = (kind.language.schema)().to_value();
    rename_references(&mut spec, kind.name);
    let mut definitions = Map::new();
    if let Some(object) = spec.as_object_mut() {
        object.remove("$schema");
        object.remove("title");
        if let Some(Value::Object(found)) = object.remove("$defs") {
            definitions = found;
        }
    }
    for (name, definition) in definitions {
        schemas.insert(format!("{}.{name}", kind.name), definition);
    }
    let mut required = vec!["type", "name"];
    let mut properties = json!({ "type": { "const": kind.name }, "name": { "type": "string", "maxLength": 253 } });
    if kind.scope == Scope::Mesh {
        required.push("mesh");
        properties["mesh"] = json!({ "type": "string" });
    }
    properties["labels"] = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    match kind.shape {
        Shape::Plugin => {
            required.push("spec");
            properties["spec"] = spec;
            if (kind.language.empty_status)().is_some() {
                properties["status"] = json!({ "type": "object", "readOnly": true });
            }
        }
        Shape::Legacy => {
            if let (Some(own), Some(fields)) = (properties.as_object_mut(), spec["properties"].as_object()) {
                own.extend(fields.clone());
            }
            if kind.name == "Dataplane" {
                properties["status"] = json!({ "type": "object", "readOnly": true });
            }
        }
    }
    let schema = json!({ "type": "object", "required": required, "properties": properties });
    schemas.insert(kind.name.to_owned(), schema);
}

/// `#/$defs/Conf` of a kind becomes `#/components/schemas/<Kind>.Conf`.
fn rename_references(schema: &mut Value, kind: &str) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get_mut("$ref")
                && let Some(name) = reference.strip_prefix("#/$defs/")
            {
                *reference = format!("#/components/schemas/{kind}.{name}");
            }
            map.values_mut().for_each(|value| rename_references(value, kind));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| rename_references(value, kind)),
        _ => (),
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn media(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

fn answer(description: &str, schema: &Value) -> Value {
    json!({ "description": description, "content": media(schema) })
}

fn error_schema() -> Value {
    let problem = |text: &str| {
        json!({ "type": "array", "items": {
            "type": "object", "properties": { "field": { "type": "string" }, text: { "type": "string" } }
        } })
    };
    json!({
        "type": "object",
        "required": ["type", "status", "title", "detail"],
        "properties": {
            "type": { "type": "string" },
            "status": { "type": "integer" },
            "title": { "type": "string" },
            "detail": { "type": "string" },
            "invalid_parameters": problem("reason"),
            "details": { "type": "string", "deprecated": true },
            "causes": problem("message"),
        },
    })
}

fn written_schema() -> Value {
    json!({ "type": "object", "properties": { "warnings": { "type": "array", "items": { "type": "string" } } } })
}

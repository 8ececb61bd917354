//! Schema of a spec in the form that [`conform`](crate::conform) walks. Generated from the types; never written by
//! hand.

use schemars::Schema;
use serde_json::{Map, Value};

/// Schema of one value.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// Not validated here: only a plugin or Envoy reads it.
    Any,
    Boolean,
    Number(Bounds),
    Integer(Bounds),
    Text(TextRules),
    IntOrString,
    List {
        items: Box<Node>,
        min: Option<u64>,
        max: Option<u64>,
    },
    /// User-defined keys.
    Map(Box<Node>),
    Object(Vec<Property>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Property {
    pub name: String,
    pub required: bool,
    pub node: Node,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bounds {
    pub min: Option<f64>,
    pub max: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct TextRules {
    pub words: Vec<String>,
    pub pattern: Option<String>,
    pub format: Option<String>,
    pub min: Option<u64>,
    pub max: Option<u64>,
}

impl Node {
    pub fn compile(schema: &Schema) -> Self {
        let root = schema.as_value();
        node(root, root.get("$defs").and_then(Value::as_object))
    }
}

fn node(schema: &Value, defs: Option<&Map<String, Value>>) -> Node {
    let Some(schema) = schema.as_object() else { return Node::Any };
    if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
        return defs.and_then(|defs| defs.get(name)).map_or(Node::Any, |target| node(target, defs));
    }
    if schema.contains_key("x-kubernetes-int-or-string") {
        return Node::IntOrString;
    }
    if let Some(options) = schema.get("anyOf").and_then(Value::as_array) {
        // `Option<T>` becomes `anyOf` of a schema and null.
        let some = options.iter().find(|option| option.get("type").and_then(Value::as_str) != Some("null"));
        return some.map_or(Node::Any, |some| node(some, defs));
    }
    match type_of(schema) {
        Some("boolean") => Node::Boolean,
        Some("number") => Node::Number(bounds(schema)),
        Some("integer") => Node::Integer(bounds(schema)),
        Some("string") => Node::Text(text_rules(schema)),
        Some("array") => Node::List {
            items: Box::new(schema.get("items").map_or(Node::Any, |items| node(items, defs))),
            min: number(schema, "minItems"),
            max: number(schema, "maxItems"),
        },
        Some("object") => object(schema, defs),
        _ => Node::Any,
    }
}

fn type_of(schema: &Map<String, Value>) -> Option<&str> {
    match schema.get("type")? {
        Value::String(name) => Some(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        _ => None,
    }
}

fn object(schema: &Map<String, Value>, defs: Option<&Map<String, Value>>) -> Node {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return match schema.get("additionalProperties") {
            Some(values) if values.is_object() => Node::Map(Box::new(node(values, defs))),
            Some(_) => Node::Any,
            // A struct without fields.
            None => Node::Object(Vec::new()),
        };
    };
    let required: Vec<&str> = match schema.get("required").and_then(Value::as_array) {
        Some(names) => names.iter().filter_map(Value::as_str).collect(),
        None => Vec::new(),
    };
    let property = |(name, schema): (&String, &Value)| Property {
        name: name.clone(),
        required: required.contains(&name.as_str()),
        node: node(schema, defs),
    };
    Node::Object(properties.iter().map(property).collect())
}

fn bounds(schema: &Map<String, Value>) -> Bounds {
    let limit = |key| schema.get(key).and_then(Value::as_f64);
    // Rust integer types have limits that the JSON schema omits.
    let widest = match schema.get("format").and_then(Value::as_str) {
        Some("uint32") => Some(f64::from(u32::MAX)),
        Some("int32") => Some(f64::from(i32::MAX)),
        _ => None,
    };
    Bounds { min: limit("minimum"), max: limit("maximum").or(widest) }
}

fn text_rules(schema: &Map<String, Value>) -> TextRules {
    let text = |key| schema.get(key).and_then(Value::as_str).map(str::to_owned);
    let words = schema.get("enum").and_then(Value::as_array);
    TextRules {
        words: words.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
        pattern: text("pattern"),
        format: text("format"),
        min: number(schema, "minLength"),
        max: number(schema, "maxLength"),
    }
}

fn number(schema: &Map<String, Value>, key: &str) -> Option<u64> {
    schema.get(key).and_then(Value::as_u64)
}

//! Validates untyped JSON against a schema: reports every mismatch and every unknown field, and normalizes the
//! spellings that legacy kinds accept into the one that the types deserialize.

use std::{collections::BTreeMap, fmt};

use regex_lite::Regex;
use serde_json::{Map, Value};

use crate::{
    FieldPath, GoDuration, Problems, Shape,
    duration::ProtoDuration,
    schema::{Bounds, Node, Property, TextRules},
};

/// Result of validating a document against its schema.
#[derive(Debug, Default)]
pub struct Findings {
    pub problems: Problems,
    pub unknown: Vec<UnknownField>,
}

/// A field that the schema does not have. Its `Display` text is the warning for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField {
    pub path: String,
    /// Known field with the most similar name.
    near: Option<String>,
}

impl UnknownField {
    /// Known field with the most similar name.
    pub fn near(&self) -> Option<&str> {
        self.near.as_deref()
    }
}

impl fmt::Display for UnknownField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown field {} is ignored", self.path)?;
        match &self.near {
            Some(near) => write!(f, "; did you mean {near}?"),
            None => Ok(()),
        }
    }
}

/// Validates `value` against `node`, and removes unknown fields and nulls from it.
pub fn conform(value: &mut Value, node: &Node, shape: Shape, at: &FieldPath<'_>) -> Findings {
    let mut walk = Walk { shape, findings: Findings::default() };
    walk.value(value, node, at);
    walk.findings
}

struct Walk {
    shape: Shape,
    findings: Findings,
}

impl Walk {
    fn value(&mut self, value: &mut Value, node: &Node, at: &FieldPath<'_>) {
        if self.shape == Shape::Legacy {
            accept_proto_spelling(value, node);
        }
        match (node, &mut *value) {
            (Node::Any, _) | (Node::Boolean, Value::Bool(_)) | (Node::IntOrString, Value::String(_)) => (),
            (Node::IntOrString, Value::Number(number)) if number.is_i64() => (),
            (Node::Integer(bounds), Value::Number(number)) if !number.is_f64() => self.bounds(number, *bounds, at),
            (Node::Number(bounds), Value::Number(number)) => self.bounds(number, *bounds, at),
            (Node::Text(rules), Value::String(text)) => self.text(text, rules, at),
            (Node::List { items, min, max }, Value::Array(list)) => {
                self.count(list.len(), *min, *max, "items", at);
                for (n, item) in list.iter_mut().enumerate() {
                    self.value(item, items, &at.index(n));
                }
            }
            (Node::Map(values), Value::Object(map)) => {
                map.retain(|_, value| !value.is_null());
                for (key, value) in map.iter_mut() {
                    self.value(value, values, &at.key(key));
                }
            }
            (Node::Object(properties), Value::Object(map)) => self.object(map, properties, at),
            (expected, found) => {
                let message = format!("in body must be of type {}: {:?}", type_name(expected), found_name(found));
                self.findings.problems.add(at, message);
            }
        }
    }

    fn object(&mut self, map: &mut Map<String, Value>, properties: &[Property], at: &FieldPath<'_>) {
        if self.shape == Shape::Legacy {
            accept_snake_case(map, properties);
        }
        map.retain(|name, value| {
            let known = properties.iter().any(|property| property.name == *name);
            if !known {
                self.findings.unknown.push(unknown_field(name, properties, at));
            }
            known && !value.is_null()
        });
        for property in properties {
            match map.get_mut(&property.name) {
                Some(value) => self.value(value, &property.node, &at.field(&property.name)),
                None if property.required => {
                    self.findings.problems.add(&at.field(&property.name), "in body is required");
                }
                None => (),
            }
        }
    }

    fn bounds(&mut self, number: &serde_json::Number, bounds: Bounds, at: &FieldPath<'_>) {
        let Some(value) = number.as_f64() else { return };
        match bounds {
            Bounds { min: Some(min), .. } if value < min => {
                self.findings.problems.add(at, format!("in body should be greater than or equal to {min}"));
            }
            Bounds { max: Some(max), .. } if value > max => {
                self.findings.problems.add(at, format!("in body should be less than or equal to {max}"));
            }
            Bounds { .. } => (),
        }
    }

    fn text(&mut self, text: &str, rules: &TextRules, at: &FieldPath<'_>) {
        let TextRules { words, pattern, format, min, max } = rules;
        if !words.is_empty() && !words.iter().any(|word| word == text) {
            self.findings.problems.add(at, format!("in body should be one of [{}]", words.join(" ")));
        }
        self.count(text.chars().count(), *min, *max, "chars long", at);
        if let Some(pattern) = pattern
            && !Regex::new(pattern).is_ok_and(|regex| regex.is_match(text))
        {
            self.findings.problems.add(at, format!("in body should match '{pattern}'"));
        }
        let misformed = match format.as_deref() {
            Some("go-duration") => GoDuration::parse(text).err(),
            Some("proto-duration") => ProtoDuration::parse(text).err(),
            _ => None,
        };
        if let Some(error) = misformed {
            self.findings.problems.add(at, format!("in body {error}"));
        }
    }

    fn count(&mut self, count: usize, min: Option<u64>, max: Option<u64>, what: &str, at: &FieldPath<'_>) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let verb = if what == "items" { "have" } else { "be" };
        if let Some(min) = min.filter(|min| count < *min) {
            self.findings.problems.add(at, format!("in body should {verb} at least {min} {what}"));
        }
        if let Some(max) = max.filter(|max| count > *max) {
            self.findings.problems.add(at, format!("in body should {verb} at most {max} {what}"));
        }
    }
}

/// Legacy kinds accept enums by number, and numbers as strings.
fn accept_proto_spelling(value: &mut Value, node: &Node) {
    match (node, &*value) {
        (Node::Text(rules), Value::Number(number)) if !rules.words.is_empty() => {
            let word = number.as_u64().and_then(|n| rules.words.get(usize::try_from(n).ok()?));
            if let Some(word) = word {
                *value = Value::String(word.clone());
            }
        }
        (Node::Integer(_), Value::String(text)) => {
            if let Ok(number) = text.parse::<i64>() {
                *value = number.into();
            }
        }
        (Node::Integer(_), Value::Number(number)) => {
            // `80.0` is 80, as in the JSON form of protobuf.
            let whole = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15);
            if let Some(whole) = whole {
                #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
                let whole = whole as i64;
                *value = whole.into();
            }
        }
        _ => (),
    }
}

/// Legacy kinds accept `advertised_address` for `advertisedAddress`.
fn accept_snake_case(map: &mut Map<String, Value>, properties: &[Property]) {
    let snake: BTreeMap<String, &str> = properties
        .iter()
        .filter(|property| property.name.contains(|c: char| c.is_ascii_uppercase()))
        .map(|property| (to_snake_case(&property.name), property.name.as_str()))
        .collect();
    let renamed: Vec<_> = map
        .keys()
        .filter_map(|key| snake.get(key).map(|name| (key.clone(), (*name).to_owned())))
        .filter(|(_, name)| !map.contains_key(name))
        .collect();
    for (key, name) in renamed {
        if let Some(value) = map.remove(&key) {
            map.insert(name, value);
        }
    }
}

fn to_snake_case(camel: &str) -> String {
    let mut snake = String::with_capacity(camel.len() + 2);
    for c in camel.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

fn unknown_field(name: &str, properties: &[Property], at: &FieldPath<'_>) -> UnknownField {
    let near = properties
        .iter()
        .map(|property| (edit_distance(name, &property.name), property.name.as_str()))
        .filter(|(distance, _)| *distance <= 2)
        .min();
    UnknownField { path: at.field(name).to_string(), near: near.map(|(_, near)| near.to_owned()) }
}

/// Levenshtein distance. Long names are not compared.
fn edit_distance(a: &str, b: &str) -> usize {
    const LONGEST: usize = 64;
    if a.len() > LONGEST || b.len() > LONGEST {
        return usize::MAX;
    }
    let b: Vec<char> = b.chars().map(|c| c.to_ascii_lowercase()).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().map(|c| c.to_ascii_lowercase()).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

fn type_name(node: &Node) -> &'static str {
    match node {
        Node::Any => "any",
        Node::Boolean => "boolean",
        Node::Number(_) => "number",
        Node::Integer(_) => "integer",
        Node::Text(_) => "string",
        Node::IntOrString => "integer or string",
        Node::List { .. } => "array",
        Node::Map(_) | Node::Object(_) => "object",
    }
}

fn found_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

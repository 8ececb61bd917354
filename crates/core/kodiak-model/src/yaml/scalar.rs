//! Resolves plain scalars by the core schema of YAML 1.2, in which `no` and `on` are strings, not booleans.

use serde_json::{Number, Value};

pub(super) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number),
    }
}

/// Whether the unquoted text is parsed as this string.
pub(super) fn is_plain_string(text: &str) -> bool {
    matches!(resolve(text), Value::String(_))
}

fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok().map(Number::from);
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return u64::from_str_radix(octal, 8).ok().map(Number::from);
    }
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        let plain = text.strip_prefix('+').unwrap_or(text);
        return plain.parse::<i64>().map(Number::from).or_else(|_| plain.parse::<u64>().map(Number::from)).ok();
    }
    let float_like = digits.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b))
        && digits.bytes().any(|b| b.is_ascii_digit());
    if !float_like {
        return None;
    }
    text.parse::<f64>().ok().and_then(Number::from_f64)
}

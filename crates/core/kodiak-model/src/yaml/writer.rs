//! Writes JSON values as YAML text: block style, unquoted strings where that is safe.

use serde_json::Value;

use super::scalar::is_plain_string;

pub fn to_string(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => write_map(value, 0, &mut out),
        Value::Array(list) if !list.is_empty() => write_list(value, 0, &mut out),
        _ => {
            write_scalar(value, 0, &mut out);
            out.push('\n');
        }
    }
    out
}

fn write_map(value: &Value, indent: usize, out: &mut String) {
    let Value::Object(map) = value else { return };
    for (n, (key, value)) in map.iter().enumerate() {
        if n > 0 {
            push_indent(indent, out);
        }
        write_text(key, out);
        out.push(':');
        write_value(value, indent, out);
    }
}

/// Writes the value after a key: on the same line, or indented below it.
fn write_value(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            push_indent(indent + 2, out);
            write_map(value, indent + 2, out);
        }
        Value::Array(list) if !list.is_empty() => {
            out.push('\n');
            push_indent(indent, out);
            write_list(value, indent, out);
        }
        _ => {
            out.push(' ');
            write_scalar(value, indent, out);
            out.push('\n');
        }
    }
}

fn write_list(value: &Value, indent: usize, out: &mut String) {
    let Value::Array(list) = value else { return };
    for (n, value) in list.iter().enumerate() {
        if n > 0 {
            push_indent(indent, out);
        }
        out.push_str("- ");
        match value {
            Value::Object(map) if !map.is_empty() => write_map(value, indent + 2, out),
            Value::Array(list) if !list.is_empty() => write_list(value, indent + 2, out),
            _ => {
                write_scalar(value, indent, out);
                out.push('\n');
            }
        }
    }
}

fn write_scalar(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
        Value::String(text) if is_block(text) => write_block(text, indent + 2, out),
        Value::String(text) => write_text(text, out),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

/// Certificates and templates are more readable as blocks.
fn is_block(text: &str) -> bool {
    let inside = text.strip_suffix('\n').unwrap_or_default();
    inside.contains('\n')
        && !text.starts_with([' ', '\n', '\t'])
        && !inside.ends_with([' ', '\n', '\t'])
        && text.chars().all(|c| c == '\n' || (!c.is_control() && !is_line_break(c)))
}

fn write_block(text: &str, indent: usize, out: &mut String) {
    out.push('|');
    for line in text.lines() {
        out.push('\n');
        if !line.is_empty() {
            push_indent(indent, out);
            out.push_str(line);
        }
    }
}

fn write_text(text: &str, out: &mut String) {
    if is_safe_plain(text) {
        out.push_str(text);
    } else {
        out.push_str(&Value::String(text.to_owned()).to_string());
    }
}

fn is_safe_plain(text: &str) -> bool {
    let first = text.chars().next();
    let starts_well = first.is_some_and(|c| c.is_alphanumeric() || "/_.(".contains(c));
    starts_well
        && is_plain_string(text)
        && is_word_in_older_yaml(text)
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && text.chars().all(|c| !c.is_control() && !is_line_break(c) && c != '\u{feff}' && !"[]{}\"'`,".contains(c))
}

/// YAML 1.1 tools still parse `yes`, `off` and similar words as booleans.
fn is_word_in_older_yaml(text: &str) -> bool {
    !["y", "n", "yes", "no", "on", "off"].iter().any(|word| word.eq_ignore_ascii_case(text))
}

fn is_line_break(c: char) -> bool {
    matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn push_indent(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

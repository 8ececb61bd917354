//! What is refused, held against what a real Envoy said of the same expressions.

use serde_json::json;

use super::{check, invalid_in};

/// kodiak-testkit asks Envoy about the same table.
const TABLE: &str = include_str!("table.txt");

#[test]
fn expressions_are_refused_when_envoy_refuses_them() {
    let mut wrong = Vec::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let (verdict, expression) = line.split_once(' ').unwrap();
        let found = check(expression);
        if found.is_ok() != (verdict == "accept") {
            wrong.push(format!("{line}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn reasons_name_what_is_wrong() {
    for (expression, reason) in [
        ("(?=a)", "look-ahead (?= is not supported"),
        ("(a)\\1", "back-reference \\1 is not supported"),
        ("a{2000}", "bad repetition: at most 1000 are possible"),
        ("[z-a]", "invalid character class: the range ends before it begins"),
        ("a**", "bad repetition operator: * after another one"),
    ] {
        assert_eq!(check(expression), Err(reason.to_owned()));
    }
}

/// Without an end, these would be searched again and again.
#[test]
fn long_expressions_are_read_once() {
    for part in ["[:", "(", "{1", "\\Q", "[[:", "(?P<"] {
        let _ = check(&part.repeat(100_000));
    }
}

#[test]
fn stored_expressions_are_found_wherever_they_are() {
    let of = |value: &str| json!({ "type": "RegularExpression", "value": value });
    let rules =
        json!([{ "matches": [{ "path": of("/a.*"), "headers": [of("("), { "type": "Exact", "value": "(" }] }] }]);
    let invalid = invalid_in(&json!({ "to": [{ "rules": rules }] }));
    assert_eq!(
        invalid,
        [("spec.to[0].rules[0].matches[0].headers[0].value".to_owned(), "missing closing )".to_owned())]
    );
}

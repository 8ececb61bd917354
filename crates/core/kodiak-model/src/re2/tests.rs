//! Accepted and rejected expressions, compared with a real Envoy's answers.

use serde_json::json;

use super::{check, invalid_in};

/// kodiak-testkit loads the same table into Envoy.
const TABLE: &str = include_str!("table.txt");

#[test]
fn rejects_the_expressions_that_envoy_rejects() {
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
fn errors_name_the_violation() {
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

/// An expression without a closing bracket could be searched repeatedly.
#[test]
fn long_expressions_are_read_once() {
    for part in ["[:", "(", "{1", "\\Q", "[[:", "(?P<"] {
        let _ = check(&part.repeat(100_000));
    }
}

#[test]
fn finds_invalid_expressions_in_stored_specs() {
    let of = |value: &str| json!({ "type": "RegularExpression", "value": value });
    let rules =
        json!([{ "matches": [{ "path": of("/a.*"), "headers": [of("("), { "type": "Exact", "value": "(" }] }] }]);
    let invalid = invalid_in(&json!({ "to": [{ "rules": rules }] }));
    assert_eq!(
        invalid,
        [("spec.to[0].rules[0].matches[0].headers[0].value".to_owned(), "missing closing )".to_owned())]
    );
}

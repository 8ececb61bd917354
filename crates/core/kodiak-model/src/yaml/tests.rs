//! Parsing, rejection and round trips.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{parse, to_string};

fn value(text: &str) -> Value {
    let mut documents = parse(text).unwrap();
    assert_eq!(documents.len(), 1, "{text}");
    documents.remove(0).value
}

#[track_caller]
fn refuses(text: &str, message: &str) {
    let error = parse(text).unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
}

#[test]
fn yaml_1_1_booleans_are_strings() {
    assert_eq!(
        value("a: no\nb: on\nc: true\nd: 012\ne: 0x1f\nf: 1e3\ng: ~\nh: 1.2.3.4\ni: \"5\""),
        json!({
            "a": "no", "b": "on", "c": true, "d": 12, "e": 31, "f": 1000.0, "g": null, "h": "1.2.3.4", "i": "5"
        })
    );
}

#[test]
fn fields_have_positions() {
    let text = "type: Mesh\n---\ntype: X\nspec:\n  to:\n  - tags:\n      kuma.io/service: a\n    weight: 5\n";
    let documents = parse(text).unwrap();
    assert_eq!(documents.len(), 2);
    let places = &documents[1].places;
    let at = |path: &str| places.find(path).map(|found| (found.mark.line, found.mark.column, found.exact));
    assert_eq!(at("spec.to[0].weight"), Some((8, 13, true)));
    assert_eq!(at(r#"spec.to[0].tags["kuma.io/service"]"#), Some((7, 24, true)));
    assert_eq!(at("spec.to[0].tags"), Some((6, 5, true)));
    assert_eq!(at("spec.to[3].tags"), Some((5, 3, false)));
    assert_eq!(at("nowhere"), Some((3, 1, false)));
}

#[test]
fn rejects_duplicate_keys_and_deep_nesting() {
    refuses("a: 1\na: 2", "\"a\" is written twice at line 2 column 1");
    refuses("? [a]\n: b", "a key must be plain text");
    refuses(&"[".repeat(100), "nested deeper");
    refuses("a: [", "line");
}

#[test]
fn alias_expansion_is_bounded() {
    let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for n in 1..9 {
        let _ = writeln!(text, "a{n}: &a{n} [{}]", vec![format!("*a{}", n - 1); 10].join(","));
    }
    refuses(&text, "YAML aliases expand to more than 1048576 bytes at line");
}

/// 131 KB of such text expanded to 2.85 GB.
#[test]
fn long_text_behind_aliases_is_counted_by_its_bytes() {
    let aliases = vec!["*a"; 30_000].join(",");
    refuses(
        &format!("a: &a {}\nb: [{aliases}]\n", "x".repeat(40_000)),
        "YAML aliases expand to more than 1048576 bytes at line 2",
    );
    refuses(
        &format!("a: &a {{{}: 1}}\nb: [{aliases}]\n", "k".repeat(40_000)),
        "YAML aliases expand to more than 1048576 bytes at line 2",
    );
}

#[test]
fn copies_for_nested_anchors_are_counted() {
    let opened = (0..60).fold(String::new(), |text, n| text + &format!("&a{n} ["));
    let text = format!("{opened}{}{}", "x".repeat(60_000), "]".repeat(60));
    refuses(&text, "YAML aliases expand to more than");
}

#[test]
fn documents_of_a_text_share_the_alias_budget() {
    let document = format!("a: &a {}\nb: [*a, *a]\n---\n", "x".repeat(30_000));
    assert_eq!(parse(&document.repeat(10)).unwrap().len(), 10, "four copies for each byte of a long text");
    let document = format!("a: &a {}\nb: [{}]\n---\n", "x".repeat(30_000), ["*a"; 6].join(","));
    refuses(&document.repeat(10), "YAML aliases expand to more than");
}

#[test]
fn nesting_through_aliases_counts_as_depth() {
    let (open, close) = ("[".repeat(20), "]".repeat(20));
    let mut text = format!("a0: &a0 {open}x{close}\n");
    for n in 1..3 {
        let _ = writeln!(text, "a{n}: &a{n} {open}*a{}{close}", n - 1);
    }
    assert!(parse(&text).is_ok(), "61 levels");
    refuses(&format!("{text}a3: {open}*a2{close}\n"), "nested deeper than 64 levels");
    let (open, close) = ("{x: ".repeat(40), "}".repeat(40));
    refuses(&format!("a: &a {open}1{close}\nb: {open}{{<<: *a}}{close}"), "nested deeper than 64 levels");
}

#[test]
fn a_long_key_is_not_copied_for_every_value_below_it() {
    let key = "k".repeat(1000);
    let text = format!("? {key}\n: [{}]\n", vec!["x"; 1000].join(","));
    let document = parse(&text).unwrap().remove(0);
    assert_eq!(document.places.find(&format!("{key}[999]")).map(|found| found.exact), Some(true));
    assert_eq!(document.places.text_bytes(), 1000);
}

#[test]
fn written_keys_override_merged_ones() {
    assert_eq!(value("base: &b {x: 1, y: 2}\nover:\n  <<: *b\n  y: 3")["over"], json!({ "x": 1, "y": 3 }));
}

#[test]
fn output_round_trips() {
    let all = json!({
        "plain": "demo-app_kuma-demo_svc_5000", "number": "5", "empty": "", "no": "no", "colon": "a: b", "hash": "a #b",
        "block": "-----BEGIN-----\nabc\n-----END-----\n", "quote": "it's \"x\"", "list": [1, "a", [], {}, [[1], {"a": null}]],
        "kuma.io/service": { "deep": { "er": [ { "a": 1, "b": [true] }, "x" ] } }, "template": "{{ .Name }}.mesh", "star": "*",
        "odd": "\u{2028}\t\u{1}", "trail": "a\n\n", "lead": " x"
    });
    assert_eq!(value(&to_string(&all)), all, "{}", to_string(&all));
}

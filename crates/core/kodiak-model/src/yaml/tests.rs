//! What is read, what is refused, and what comes back after writing.

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
fn words_of_older_yaml_are_strings() {
    assert_eq!(
        value("a: no\nb: on\nc: true\nd: 012\ne: 0x1f\nf: 1e3\ng: ~\nh: 1.2.3.4\ni: \"5\""),
        json!({
            "a": "no", "b": "on", "c": true, "d": 12, "e": 31, "f": 1000.0, "g": null, "h": "1.2.3.4", "i": "5"
        })
    );
}

#[test]
fn documents_know_their_places() {
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
fn what_cannot_be_meant_is_refused() {
    refuses("a: 1\na: 2", "\"a\" is written twice at line 2 column 1");
    refuses("? [a]\n: b", "a key must be plain text");
    refuses(&"[".repeat(100), "nested deeper");
    refuses("a: [", "line");
}

#[test]
fn aliases_do_not_explode() {
    let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for n in 1..9 {
        let _ = writeln!(text, "a{n}: &a{n} [{}]", vec![format!("*a{}", n - 1); 10].join(","));
    }
    refuses(&text, "aliases stand for more than");
}

#[test]
fn merged_maps_keep_what_is_written() {
    assert_eq!(value("base: &b {x: 1, y: 2}\nover:\n  <<: *b\n  y: 3")["over"], json!({ "x": 1, "y": 3 }));
}

#[test]
fn what_is_written_reads_back() {
    let all = json!({
        "plain": "demo-app_kuma-demo_svc_5000", "number": "5", "empty": "", "no": "no", "colon": "a: b", "hash": "a #b",
        "block": "-----BEGIN-----\nabc\n-----END-----\n", "quote": "it's \"x\"", "list": [1, "a", [], {}, [[1], {"a": null}]],
        "kuma.io/service": { "deep": { "er": [ { "a": 1, "b": [true] }, "x" ] } }, "template": "{{ .Name }}.mesh", "star": "*",
        "odd": "\u{2028}\t\u{1}", "trail": "a\n\n", "lead": " x"
    });
    assert_eq!(value(&to_string(&all)), all, "{}", to_string(&all));
}

//! Templates, compared with Go's output.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{LONGEST, Template, label_of, quote};

fn rendered(text: &str) -> Result<String, String> {
    let template = Template::parse(text, &["label"]).map_err(|error| error.to_string())?;
    let fields = BTreeMap::from([("Mesh", "default".to_owned()), ("Zone", "east".to_owned())]);
    let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
    template.render(&fields, &label_of(&labels)).map_err(|error| error.to_string())
}

#[track_caller]
fn check(cases: &[(&str, Result<&str, &str>)]) {
    for (text, expected) in cases {
        assert_eq!(rendered(text).as_deref().map_err(String::as_str), *expected, "{text}");
    }
}

#[test]
fn renders_fields_labels_and_text() {
    check(&[
        ("", Ok("")),
        ("plain { } text", Ok("plain { } text")),
        ("{{ .Mesh }}.{{.Zone}}.mesh.local", Ok("default.east.mesh.local")),
        ("{{ label \"app\" }}", Ok("web")),
        ("{{ label `app` }}", Ok("web")),
        ("{{ \"app\" | label }}", Ok("web")),
        ("{{ label \"\\x61\\u0070p\" }}", Ok("web")),
        ("{{ \"a\" }}{{ 1 }}{{ 2.5 }}{{ true }}", Ok("a12.5true")),
        ("{{ .Mesh | }}", Ok("default")),
    ]);
}

#[test]
fn trim_markers_and_comments_produce_no_text() {
    check(&[
        ("a \n {{- .Mesh -}} \n b", Ok("adefaultb")),
        ("a {{- .Mesh }} b", Ok("adefault b")),
        ("a{{/* says nothing */}}b", Ok("ab")),
        ("a {{- /* says nothing */ -}} b", Ok("ab")),
        ("{{ -3 }}", Ok("-3")),
        ("{{-3}}", Ok("-3")),
    ]);
}

#[test]
fn parse_errors_match_go() {
    check(&[
        ("{{ .Mesh|1 }}", Err("template: :1: non executable command in pipeline stage 2")),
        ("{{ .Mesh|invalid }}", Err("template: :1: function \"invalid\" not defined")),
        ("{{}}", Err("template: :1: missing value for command")),
        ("{{ .Mesh", Err("template: :1: unclosed action")),
        ("x\n{{ .Mesh\n", Err("template: :3: unclosed action started at :2")),
        ("{{\nlabel\n\"x }}", Err("template: :3: unterminated quoted string in action started at :1")),
        ("{{/* x", Err("template: :1: unclosed comment")),
        ("{{/* x */ }}", Err("template: :1: comment ends before closing delimiter")),
        ("{{ .Mesh = 1 }}", Err("template: :1: unexpected \"=\" in operand")),
        ("{{ .Mesh || label }}", Err("template: :1: unexpected \"|\" in command")),
        ("{{ .Mesh | if }}", Err("template: :1: unexpected <if> in command")),
        ("{{ .Mesh! }}", Err("template: :1: bad character U+0021 '!'")),
        ("{{ é! }}", Err("template: :1: bad character U+0021 '!'")),
        ("{{ .Mesh ) }}", Err("template: :1: unexpected right paren")),
        ("{{ € }}", Err("template: :1: unrecognized character in action: U+20AC '€'")),
        ("{{ label \"\\q\" }}", Err("template: :1: invalid syntax")),
        ("{{ \"a\".B }}", Err("template: :1: unexpected . after term \"\\\"a\\\"\"")),
        ("{{ 1x }}", Err("template: :1: bad number syntax: \"1x\"")),
        ("{{ + }}", Err("template: :1: illegal number syntax: \"+\"")),
        ("{{ 99999999999999999999 }}", Err("template: :1: integer overflow: \"99999999999999999999\"")),
        ("{{ end }}", Err("template: :1: unexpected {{end}}")),
    ]);
}

#[test]
fn unsupported_syntax_is_rejected_by_name() {
    check(&[
        ("{{ if .Mesh }}a{{ end }}", Err("template: :1: {{if}} is not supported")),
        ("{{ $x := .Mesh }}", Err("template: :1: variable $x is not supported")),
        ("{{ (label \"app\") }}", Err("template: :1: parentheses are not supported")),
        ("{{ printf \"%s\" .Mesh }}", Err("template: :1: function \"printf\" is not supported")),
        ("{{ 0x10 }}", Err("template: :1: number 0x10 is not supported; write it as a whole or a decimal number")),
    ]);
}

#[test]
fn render_errors_name_the_part() {
    let at =
        |place: &str, part: &str, message: &str| format!("template: :{place}: executing \"\" at <{part}>: {message}");
    for (text, expected) in [
        ("x\n {{ .Foo }}", at("2:4", ".Foo", "can't evaluate field Foo; fields are .Mesh, .Zone")),
        ("{{ .Mesh.B }}", at("1:8", ".Mesh.B", "can't evaluate field B in type string")),
        ("{{ .Mesh 1 }}", at("1:3", ".Mesh", "Mesh has arguments but cannot be invoked as function")),
        ("{{ label }}", at("1:3", "label", "wrong number of args for label: want 1 got 0")),
        ("{{ label \"x\" }}", at("1:3", "label \"x\"", "error calling label: label x not found")),
        ("{{ 1 | label }}", at("1:7", "label", "wrong type for value; expected string; got int")),
        ("{{ label 1 }}", at("1:9", "1", "expected string; found 1")),
        ("{{ \"a\" \"b\" }}", at("1:3", "\"a\"", "can't give argument to non-function \"a\"")),
        ("{{ nil }}", at("1:3", "nil", "nil is not a command")),
    ] {
        assert_eq!(rendered(text), Err(expected), "{text}");
    }
}

#[test]
fn rejects_long_templates() {
    assert!(Template::parse(&"x".repeat(LONGEST), &[]).is_ok());
    let error = Template::parse(&"x".repeat(LONGEST + 1), &[]).unwrap_err();
    assert_eq!(error.to_string(), "template: :1: longer than 4096 bytes");
}

#[test]
fn strings_are_quoted_like_go() {
    assert_eq!(quote("a\"\n\u{0}\u{7f}é\u{ad}"), r#""a\"\n\x00\x7fé\u00ad""#);
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = rendered(&text);
    }

    #[test]
    fn no_mixture_of_parts_panics(parts in prop::collection::vec(prop::sample::select(PARTS), 0..24)) {
        let _ = rendered(&parts.concat());
    }

    #[test]
    fn text_without_actions_is_kept(text in "[^{]{0,200}") {
        prop_assert_eq!(rendered(&text), Ok(text));
    }
}

const PARTS: &[&str] = &[
    "{{", "}}", "{{-", "-}}", "{{- ", " -}}", "/*", "*/", " ", "\n", ".", ".Mesh", "label", "\"app\"", "\"", "`", "'",
    "\\", "|", "(", ")", "$", ":=", "=", ",", "1", "1.5", "0x", "e9", "+", "-", "i", "nil", "true", "if", "end", "é",
    "\u{0}", "x",
];

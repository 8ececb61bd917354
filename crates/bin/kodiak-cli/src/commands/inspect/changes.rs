//! What policies that are only tried out would change, as people read changes.

use std::fmt::Write as _;

use serde_json::Value;

/// A block for each path: what goes, and what comes.
pub(super) fn text(config: &Value) -> String {
    let operations = config["diff"].as_array().map_or(&[][..], Vec::as_slice);
    let (mut text, mut last) = (String::new(), "");
    for operation in operations {
        let path = operation["path"].as_str().unwrap_or_default();
        let signs: &[(char, &Value)] = match operation["op"].as_str() {
            Some("add") => &[('+', &operation["value"])],
            Some("remove") => &[('-', &operation["value"])],
            // Those that only make sure that all is as it was.
            _ => &[],
        };
        for (sign, value) in signs {
            if path != last {
                let _ = writeln!(text, "{}{path}", if text.is_empty() { "" } else { "\n" });
                last = path;
            }
            let value = serde_json::to_string_pretty(value).unwrap_or_default();
            for line in value.lines() {
                let _ = writeln!(text, "{sign} {line}");
            }
        }
    }
    if text.is_empty() { "Nothing would change.".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_goes_and_what_comes_stand_together() {
        let config = json!({ "xds": {}, "diff": [
            { "op": "test", "path": "/cds/web", "value": { "timeout": "5s" } },
            { "op": "remove", "path": "/cds/web", "value": { "timeout": "5s" } },
            { "op": "add", "path": "/cds/web", "value": { "timeout": "9s" } },
            { "op": "add", "path": "/lds/new", "value": 1 },
        ] });
        expect![[r#"
            /cds/web
            - {
            -   "timeout": "5s"
            - }
            + {
            +   "timeout": "9s"
            + }

            /lds/new
            + 1
        "#]]
        .assert_eq(&text(&config));
        assert_eq!(text(&json!({ "xds": {}, "diff": [] })), "Nothing would change.");
    }
}

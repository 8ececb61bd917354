//! Table of the resolved references of a Dataplane.

use serde_json::Value;

use kodiak_terminal::Table;

/// Names to show on a line.
const MOST_NAMES: usize = 3;

pub(super) fn text(found: &Value) -> String {
    let references = list(&found["references"]);
    if references.is_empty() {
        return "No reachableServices, no reachableBackends and no outbound with a backendRef.".to_owned();
    }
    let mut table = Table::new(["PATH", "MEANS", "TROUBLE"]);
    for reference in references {
        table.row([string(&reference["path"]), means(reference), trouble(reference)]);
    }
    table.show()
}

/// Hint for the summary. Empty if all references resolve.
pub(super) fn hint(references: &Value) -> String {
    let all = list(references);
    match all.iter().filter(|reference| reference["trouble"].is_object()).count() {
        0 => String::new(),
        troubled => format!(
            "\nOf {} references, {troubled} mean nothing or make no difference: see --type references\n",
            all.len()
        ),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn means(reference: &Value) -> String {
    let names: Vec<&str> = list(&reference["means"]).iter().filter_map(Value::as_str).collect();
    let shown = names.get(..MOST_NAMES).unwrap_or(&names).join(", ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 if names.is_empty() => "-".to_owned(),
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn trouble(reference: &Value) -> String {
    match reference.get("trouble") {
        Some(trouble) => format!("{} ({})", string(&trouble["message"]), string(&trouble["reason"])),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn shows_one_line_per_reference() {
        let found = json!({ "references": [
            { "path": "refs[0]", "means": ["a", "b", "c", "d", "e"] },
            { "path": "refs[1]", "means": [], "trouble": { "reason": "Unresolved", "message": "there is no x" } },
            { "path": "outbound[0]", "means": ["a", "b"], "trouble": { "reason": "Ambiguous", "message": "two" } },
        ] });
        expect![[r#"
            PATH          MEANS                TROUBLE
            refs[0]       a, b, c and 2 more   -
            refs[1]       -                    there is no x (Unresolved)
            outbound[0]   a, b                 two (Ambiguous)"#]]
        .assert_eq(&text(&found));
        let hinted = hint(&found["references"]);
        assert_eq!(hinted, "\nOf 3 references, 2 mean nothing or make no difference: see --type references\n");
    }

    #[test]
    fn gives_no_hint_if_all_references_resolve() {
        assert_eq!(hint(&Value::Null), "");
        assert_eq!(hint(&json!([{ "path": "refs[0]", "means": ["a"] }])), "");
        let none = "No reachableServices, no reachableBackends and no outbound with a backendRef.";
        assert_eq!(text(&json!({ "references": [] })), none);
    }
}

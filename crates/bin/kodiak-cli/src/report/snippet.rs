//! Findings as a compiler shows them: file, line, column, the source line, and the problem.

use std::fmt::Write as _;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use kodiak_model::yaml::Mark;

use crate::documents::{Finding, Severity, SourceFile};

/// Findings to show per file.
const SHOWN_PER_FILE: usize = 20;

/// Findings by file: the first ones of each file, and the number of further ones.
pub(crate) fn findings(files: &[SourceFile], findings: &[Finding], color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut text = String::new();
    for (n, file) in files.iter().enumerate() {
        let mut of_file: Vec<_> = findings.iter().filter(|finding| finding.file == n).collect();
        of_file.sort_by_key(|finding| finding.spot.mark.line);
        for finding in of_file.iter().take(SHOWN_PER_FILE) {
            text.push_str(&render(&renderer, file, finding));
            text.push_str("\n\n");
        }
        if let Some(more) = of_file.len().checked_sub(SHOWN_PER_FILE).filter(|more| *more > 0) {
            writeln!(text, "… and {more} more in {}\n", file.name).expect("writing to a String does not fail");
        }
    }
    text.truncate(text.trim_end().len());
    text
}

fn render(renderer: &Renderer, file: &SourceFile, finding: &Finding) -> String {
    let Finding { file: _, spot, subject, path, message, severity } = finding;
    let title = if path.is_empty() { subject.clone() } else { format!("{subject}: {path}") };
    let message = in_own_words(message);
    let label = if spot.exact { message } else { format!("in here: {}{message}", missing(path)) };
    let (line, span) = place(&file.text, spot.mark);
    let snippet = Snippet::source(line)
        .line_start(spot.mark.line)
        .path(file.name.as_str())
        .annotation(AnnotationKind::Primary.span(span).label(label.as_str()));
    let level = match severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    renderer.render(&[level.primary_title(title.as_str()).element(snippet)])
}

/// Shortens messages of the API, which are a contract with its clients: the snippet shows the location already.
fn in_own_words(message: &str) -> String {
    if let Some(found) = message.strip_prefix("json: cannot unmarshal ")
        && let Some((found, _)) = found.split_once(" into Go struct field ")
        && message.ends_with("of type string")
    {
        return format!("must be text, not a {found}; put it in quotes");
    }
    if let Some((wanted, found)) =
        message.strip_prefix("in body must be of type ").and_then(|types| types.split_once(": "))
    {
        return format!("must be of type {wanted}, not {}", found.trim_matches('"'));
    }
    message.strip_prefix("in body ").map_or_else(|| message.replacen(" in body ", " ", 1), str::to_owned)
}

/// Name of the missing field, as a prefix of the message.
fn missing(path: &str) -> String {
    let last = path.rsplit('.').next().unwrap_or_default();
    if last.is_empty() { String::new() } else { format!("{last} ") }
}

/// Line of a mark, and its range of bytes in the line, both clamped to the text.
fn place(text: &str, mark: Mark) -> (&str, std::ops::Range<usize>) {
    let line = text.lines().nth(mark.line.saturating_sub(1)).unwrap_or_default();
    let byte = |column: usize| line.char_indices().nth(column).map_or(line.len(), |(byte, _)| byte);
    let start = byte(mark.column.saturating_sub(1));
    let end = byte(mark.column.saturating_sub(1) + mark.length);
    (line, start..end)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use kodiak_model::Place;

    use super::*;
    use crate::documents::{Names, check as check_documents};

    #[track_caller]
    fn check(text: &str, expected: &Expect) {
        let files = [SourceFile { name: "a.yaml".to_owned(), text: text.to_owned() }];
        let found = check_documents(&files, &Names { mesh: "default" }, &Place::Global).findings;
        expected.assert_eq(&findings(&files, &found, false));
    }

    #[test]
    fn points_at_the_field() {
        check(
            "type: MeshTimeout\nname: slow\nspec:\n  to:\n  - targetRef: {kind: Mesh}\n    default:\n      idleTimeout: -5s # né\n",
            &expect![[r#"
                error: MeshTimeout "slow": spec.to[0].default.idleTimeout
                 --> a.yaml:7:20
                  |
                7 |       idleTimeout: -5s # né
                  |                    ^^^ must not be negative when defined"#]],
        );
    }

    #[test]
    fn points_at_the_parent_of_a_missing_field() {
        check(
            "type: MeshTimeout\nname: slow\nspec:\n  to:\n  - targetRef: {}\n    default: {idleTimeout: 5s}\n",
            &expect![[r#"
                error: MeshTimeout "slow": spec.to[0].targetRef.kind
                 --> a.yaml:5:5
                  |
                5 |   - targetRef: {}
                  |     ^^^^^^^^^ in here: kind is required"#]],
        );
    }

    #[test]
    fn shortens_messages_of_the_api() {
        check(
            "type: MeshTimeout\nname: 5\n---\ntype: MeshTimeout\nname: a\nspec: {to: [{targetRef: {kind: Mash, name: 5}}]}\n---\ntype: MeshTimeout\nname: b\n",
            &expect![[r#"
                error: document 1: name
                 --> a.yaml:2:7
                  |
                2 | name: 5
                  |       ^ must be text, not a number; put it in quotes

                error: MeshTimeout "a": spec.to[0].targetRef.kind
                 --> a.yaml:6:32
                  |
                6 | spec: {to: [{targetRef: {kind: Mash, name: 5}}]}
                  |                                ^^^^ should be one of [Mesh MeshSubset MeshGateway MeshService MeshExternalService MeshMultiZoneService MeshServiceSubset MeshHTTPRoute Dataplane]

                error: MeshTimeout "a": spec.to[0].targetRef.name
                 --> a.yaml:6:44
                  |
                6 | spec: {to: [{targetRef: {kind: Mash, name: 5}}]}
                  |                                            ^ must be of type string, not number

                error: MeshTimeout "b"
                 --> a.yaml:8:1
                  |
                8 | type: MeshTimeout
                  | ^ spec is required"#]],
        );
    }

    #[test]
    fn points_at_invalid_yaml() {
        check(
            "a: 1\nb: [1, 2\n",
            &expect![[r#"
            error: cannot be read as YAML
             --> a.yaml:3:1
              |
            3 |
              | ^ while parsing a flow sequence, expected ',' or ']'"#]],
        );
        check(
            "a: 1\na: 2",
            &expect![[r#"
            error: cannot be read as YAML
             --> a.yaml:2:1
              |
            2 | a: 2
              | ^ "a" is written twice"#]],
        );
    }

    #[test]
    fn limits_findings_per_file() {
        let items = "  - targetRef: {kind: Mesh}\n    default: {idleTimeout: -1s}\n".repeat(23);
        let text = format!("type: MeshTimeout\nname: slow\nspec:\n  to:\n{items}");
        let files = [SourceFile { name: "a.yaml".to_owned(), text }];
        let found = check_documents(&files, &Names { mesh: "default" }, &Place::Global).findings;
        let shown = findings(&files, &found, false);
        assert_eq!(shown.matches("error:").count(), SHOWN_PER_FILE);
        assert!(shown.ends_with("… and 3 more in a.yaml"), "{shown}");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_shown(text in r#"(type: |MeshTimeout|name: |spec: |\n|  |- |\{|\}|\[|---\n|"|\t|\r|é|\u{202e}|\PC){0,30}"#) {
            let files = [SourceFile { name: "a.yaml".to_owned(), text }];
            let found = check_documents(&files, &Names { mesh: "default" }, &Place::Global).findings;
            findings(&files, &found, true);
        }

        #[test]
        fn any_place_is_shown(text in "[a-zé\t\r\n]{0,20}", line in 0_usize..5, column in 0_usize..30, length in 0_usize..30) {
            let spot = crate::documents::Spot::at(Mark { line, column, length });
            let finding = Finding { file: 0, spot, subject: "s".to_owned(), path: "p".to_owned(), message: "m".to_owned(), severity: Severity::Error };
            findings(&[SourceFile { name: "a.yaml".to_owned(), text }], &[finding], false);
        }
    }

    #[test]
    fn clamps_marks_beyond_the_text() {
        for (line, column, length) in [(0, 0, 0), (9, 1, 1), (1, 99, 5), (1, 2, usize::MAX / 2)] {
            let (found, span) = place("aé\n", Mark { line, column, length });
            assert!(found.get(span).is_some());
        }
    }
}

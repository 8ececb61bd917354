//! PEM parser that finds blocks without decoding their contents.

use base64::{Engine, prelude::BASE64_STANDARD};

/// Labels of the blocks, such as `CERTIFICATE`. Incomplete blocks are skipped.
pub(super) fn labels(text: &str) -> Vec<&str> {
    let mut labels = Vec::new();
    let mut open: Option<(&str, Vec<&str>)> = None;
    for line in text.lines().map(str::trim_end) {
        if let Some(label) = between(line, "-----BEGIN ") {
            open = Some((label, Vec::new()));
        } else if let Some(label) = between(line, "-----END ") {
            labels.extend(open.take().filter(|(begun, body)| *begun == label && is_base64(body)).map(|_| label));
        } else if let Some((_, body)) = &mut open {
            body.push(line);
        }
    }
    labels
}

fn between<'a>(line: &'a str, start: &str) -> Option<&'a str> {
    line.strip_prefix(start)?.strip_suffix("-----")
}

/// Skips headers such as `Proc-Type: 4,ENCRYPTED`.
fn is_base64(body: &[&str]) -> bool {
    let lines = body.iter().skip_while(|line| line.contains(':'));
    let text: String = lines.flat_map(|line| line.chars()).filter(|c| !c.is_whitespace()).collect();
    BASE64_STANDARD.decode(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::labels;

    #[test]
    fn finds_complete_blocks() {
        for (text, expected) in [
            ("", vec![]),
            ("adfadfafadf", vec![]),
            ("-----BEGIN A-----\nAAAA\n-----END A-----", vec!["A"]),
            ("before\n-----BEGIN A-----\r\nAA\r\nAA\r\n-----END A-----\r\nafter\n", vec!["A"]),
            ("-----BEGIN A-----\nAAAA\n-----END A-----\n-----BEGIN B-----\nAAAA\n-----END B-----\n", vec!["A", "B"]),
            ("-----BEGIN A-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END A-----\n", vec!["A"]),
            ("-----BEGIN A-----\nAAAA\n-----END B-----\n", vec![]),
            ("-----BEGIN A-----\nnot base64\n-----END A-----\n", vec![]),
            ("-----BEGIN A-----\n-----BEGIN B-----\nAAAA\n-----END B-----\n", vec!["B"]),
        ] {
            assert_eq!(labels(text), expected, "{text}");
        }
    }
}

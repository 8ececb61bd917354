//! Trailing white space, tabs, carriage returns and missing final newlines.

use super::Repository;
use super::finding::Findings;

/// Files in the format of other programs, each with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[];

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    for file in repository.tree.files() {
        if EXCEPTIONS.iter().any(|(path, _)| *path == file.path) {
            continue;
        }
        for (number, line) in file.text.split('\n').enumerate() {
            if line.ends_with('\r') {
                findings.fault(file.path, number + 1, "ends with a carriage return; use Unix line endings");
            } else if line.ends_with([' ', '\t']) {
                findings.fault(file.path, number + 1, "has trailing white space; delete it");
            }
            if line.trim_end().contains('\t') {
                findings.fault(file.path, number + 1, "has a tab; use spaces, or `\\t` in a string");
            }
        }
        if !file.text.is_empty() && !file.text.ends_with('\n') {
            findings.fault(file.path, file.text.lines().count(), "has no newline at the end of the file; add it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing;

    #[test]
    fn reports_trailing_white_space_tabs_and_missing_newlines() {
        let files = [
            ("a.md", "one \ntwo\n"),
            ("b.rs", "fn x() {\n\tlet a = 1;\n}\n"),
            ("c.yaml", "a: 1\nb: 2"),
            ("d.toml", "a = 1\r\n"),
            ("e.txt", ""),
            ("f.txt", "good\n"),
        ];
        assert_eq!(
            testing::findings(check, &files),
            [
                "a.md:1: has trailing white space; delete it",
                "b.rs:2: has a tab; use spaces, or `\\t` in a string",
                "c.yaml:2: has no newline at the end of the file; add it",
                "d.toml:1: ends with a carriage return; use Unix line endings",
            ]
        );
    }
}

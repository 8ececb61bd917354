//! Tests that would never run: ignored ones, and ones that skip themselves where CI cannot see it.

use super::Repository;
use super::finding::Findings;

/// The one place that skips a test; it fails in CI.
const SKIP: &str = "crates/dev/kodiak-testkit/src/skip.rs";
/// This file names both.
const THIS: &str = "xtask/src/tidy/skips.rs";

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    let files = repository.tree.with_extension("rs");
    for file in files.filter(|file| ![SKIP, THIS].contains(&file.path)) {
        for (number, line) in file.lines() {
            if line.contains("#[ignore") {
                findings.fault(file.path, number, "ignores a test; fix the test, or delete it".to_owned());
            }
            if line.contains("NOT TESTED") {
                let text = "skips a test by itself; use `kodiak_testkit::skip`, which fails in CI";
                findings.fault(file.path, number, text.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing;

    #[test]
    fn tests_that_never_run_are_found() {
        let files = [
            ("crates/a/src/lib.rs", "#[ignore = \"slow\"]\n"),
            ("crates/a/tests/it.rs", "eprintln!(\"NOT TESTED: no Envoy\");\n"),
            (SKIP, "\"SKIPPED, NOT TESTED\"\n"),
        ];
        assert_eq!(
            testing::findings(check, &files),
            [
                "crates/a/src/lib.rs:1: ignores a test; fix the test, or delete it",
                "crates/a/tests/it.rs:1: skips a test by itself; use `kodiak_testkit::skip`, which fails in CI",
            ]
        );
    }
}

//! Limits the length of files: one file, one thought.

use super::Repository;
use super::finding::Findings;

/// Above this length a file should be split.
const LONG: usize = 500;
const TOO_LONG: usize = 800;

/// Hand-written code. Data and documents may be long.
const SOURCES: &[&str] = &["rs", "ts", "tsx", "js", "svelte", "css", "sh", "py"];

/// Paths, or path prefixes, that may be longer, each with the reason. Only generated code and tables belong here.
const EXCEPTIONS: &[(&str, &str)] =
    &[("crates/core/kodiak-envoy/src/generated/", "prost-build writes one file for each protobuf package")];

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    for file in repository.tree.files().filter(|file| SOURCES.contains(&file.extension())) {
        let lines = file.text.lines().count();
        if EXCEPTIONS.iter().any(|(path, _)| file.path.starts_with(path)) {
            continue;
        }
        if lines > TOO_LONG {
            let text = format!("has {lines} lines, more than {TOO_LONG}; split it by topic");
            findings.fault(file.path, TOO_LONG + 1, text);
        } else if lines > LONG {
            findings.warning(
                file.path,
                LONG + 1,
                format!("has {lines} lines, more than {LONG}; consider splitting it"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing;

    #[test]
    fn long_files_warn_and_too_long_ones_fail() {
        let lines = |count: usize| "x\n".repeat(count);
        let files = [("a.rs", lines(500)), ("b.rs", lines(501)), ("c.rs", lines(801)), ("d.json", lines(2000))];
        let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        assert_eq!(
            testing::findings(check, &files),
            [
                "b.rs:501: warning: has 501 lines, more than 500; consider splitting it",
                "c.rs:801: has 801 lines, more than 800; split it by topic",
            ]
        );
    }
}

//! Every Rust file says at its top what it is about.

use super::Repository;
use super::finding::Findings;

/// Starts of paths, each with the reason. Only generated code belongs here.
const EXCEPTIONS: &[(&str, &str)] = &[(
    "crates/core/kodiak-envoy/src/generated/",
    "prost-build includes one file in another, where `//!` is not allowed; the doc of the crate speaks for them",
)];

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    for file in repository.tree.with_extension("rs") {
        if EXCEPTIONS.iter().any(|(path, _)| file.path.starts_with(path)) {
            continue;
        }
        let first = file.text.lines().next().unwrap_or_default();
        let says_something = first.strip_prefix("//!").is_some_and(|text| !text.trim().is_empty());
        if !says_something {
            findings.fault(file.path, 1, "does not open with `//!`; say in one sentence what the file is about");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing;

    #[test]
    fn rust_files_open_with_what_they_are_about() {
        let files = [
            ("a.rs", "//! Names of resources.\n"),
            ("b.rs", "use std::fs;\n//! Too late.\n"),
            ("c.rs", "//!\n"),
            ("d.rs", ""),
            ("e.md", "text\n"),
        ];
        let text = "does not open with `//!`; say in one sentence what the file is about";
        let expected = [format!("b.rs:1: {text}"), format!("c.rs:1: {text}"), format!("d.rs:1: {text}")];
        assert_eq!(testing::findings(check, &files), expected);
    }
}

//! Every Rust file starts with a module doc.

use super::Repository;
use super::finding::Findings;

/// Path prefixes, each with the reason. Only generated code belongs here.
const EXCEPTIONS: &[(&str, &str)] = &[(
    "crates/core/kodiak-envoy/src/generated/",
    "prost-build includes one file in another, where `//!` is not allowed; the doc of the crate covers them",
)];

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    for file in repository.tree.with_extension("rs") {
        if EXCEPTIONS.iter().any(|(path, _)| file.path.starts_with(path)) {
            continue;
        }
        let first = file.text.lines().next().unwrap_or_default();
        let says_something = first.strip_prefix("//!").is_some_and(|text| !text.trim().is_empty());
        if !says_something {
            findings.fault(file.path, 1, "has no module doc; start it with `//!` and one sentence about its content");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing;

    #[test]
    fn rust_files_need_a_module_doc() {
        let files = [
            ("a.rs", "//! Names of resources.\n"),
            ("b.rs", "use std::fs;\n//! Too late.\n"),
            ("c.rs", "//!\n"),
            ("d.rs", ""),
            ("e.md", "text\n"),
        ];
        let text = "has no module doc; start it with `//!` and one sentence about its content";
        let expected = [format!("b.rs:1: {text}"), format!("c.rs:1: {text}"), format!("d.rs:1: {text}")];
        assert_eq!(testing::findings(check, &files), expected);
    }
}

//! The map of the repository names files that exist.
//!
//! In `ARCHITECTURE.md`, a path in backticks that starts with a folder of the repository is a path from its root. In the
//! section of a crate, a path that ends with `.rs` is the end of the path of one of its files.

use std::path::Path;

use super::Repository;
use super::finding::Findings;
use super::tree::Tree;

const MAP: &str = "ARCHITECTURE.md";
/// Start of the heading of a crate's section: `### core/kodiak-model`.
const SECTION: &str = "### ";

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    let tree = &repository.tree;
    let Some(file) = tree.files().find(|file| file.path == MAP) else { return };
    let (mut section, mut in_code) = (None, false);
    for (number, line) in file.lines() {
        if line.starts_with("```") {
            in_code = !in_code;
        }
        if line.starts_with('#') && !in_code {
            let named = line.strip_prefix(SECTION).map(|name| format!("crates/{}", name.trim()));
            section = named.filter(|folder| tree.has_folder(folder));
        }
        if in_code {
            continue;
        }
        // Every second part is between backticks.
        for path in line.split('`').skip(1).step_by(2).filter(|path| is_path(path)) {
            if !exists(tree, section.as_deref(), path) {
                findings.fault(MAP, number, format!("`{path}` does not exist; name the file or folder that is meant"));
            }
        }
    }
}

/// Patterns and placeholders are not paths.
fn is_path(text: &str) -> bool {
    let is_char = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    (text.contains('/') || is_rust(text)) && text.chars().all(is_char) && !text.starts_with('/')
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

/// A path that is neither of the repository nor of the crate of the section is something else, such as a URL.
fn exists(tree: &Tree, section: Option<&str>, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    let top = path.split('/').next().unwrap_or_default();
    if path.contains('/') && tree.has_folder(top) {
        return tree.has_file(path) || tree.has_folder(path);
    }
    match section {
        Some(folder) if is_rust(path) => {
            tree.below(folder).any(|file| file.strip_suffix(path).is_some_and(|rest| rest.ends_with('/')))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing;

    fn findings(text: &str) -> Vec<String> {
        let files = [
            ("crates/core/kodiak-a/src/lib.rs", ""),
            ("crates/core/kodiak-a/src/mesh/permissions.rs", ""),
            ("docs/a.md", ""),
            (MAP, text),
        ];
        testing::findings(check, &files)
    }

    #[test]
    fn accepts_files_and_folders_of_the_repository_and_of_the_crate() {
        let text = "\
Start at `crates/core/kodiak-a/src/lib.rs` and `docs/`; `GET /meshes/{mesh}` and `etc/hosts` are something else.
```text
crates/gone
```
### core/kodiak-a
See `lib.rs`, `src/lib.rs`, `mesh/permissions.rs` and `spec.identities`.
### Another heading
`graph.rs` is of no crate.
";
        assert_eq!(findings(text), [""; 0]);
    }

    #[test]
    fn reports_what_does_not_exist() {
        let text = "\
`crates/core/kodiak-a/src/book`
### core/kodiak-a
`docs/gone.md`, `permission.rs` and `rs/permissions.rs`
";
        let gone = |line: usize, path: &str| {
            format!("ARCHITECTURE.md:{line}: `{path}` does not exist; name the file or folder that is meant")
        };
        let expected = [
            gone(1, "crates/core/kodiak-a/src/book"),
            gone(3, "docs/gone.md"),
            gone(3, "permission.rs"),
            gone(3, "rs/permissions.rs"),
        ];
        assert_eq!(findings(text), expected);
    }
}

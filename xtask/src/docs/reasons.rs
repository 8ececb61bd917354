//! The troubleshooting page explains every reason and every error title that users can see.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The page with the tables.
pub(super) const PAGE: &str = "troubleshooting.md";

/// A variant of each enum whose variants are shown to users as reasons. The enum is found by it, wherever it is.
const ENUMS: &[&str] = &["NotSupportedYet", "HidesObjects"];
/// Code with the enums, and with the titles of errors.
const CODE: &[&str] = &["crates/core", "crates/edge"];
const TITLES: &str = "ApiError::new(StatusCode::";

/// Fails for the first reason or title in the code that the page does not have.
pub(super) fn check(root: &Path, page: &str) -> Result<()> {
    let mut found = Found::default();
    for folder in CODE {
        found.read(&root.join(folder))?;
    }
    if found.enums != ENUMS.len() {
        bail!("{} of the enums with {ENUMS:?} were found: adapt xtask/src/docs/reasons.rs", found.enums);
    }
    match found.words.iter().find(|word| !page.contains(&format!("`{word}`"))) {
        Some(word) => bail!("docs/{PAGE} does not explain `{word}`: add it to a table, with its cause and what to do"),
        None => Ok(()),
    }
}

#[derive(Default)]
struct Found {
    enums: usize,
    words: BTreeSet<String>,
}

impl Found {
    fn read(&mut self, folder: &Path) -> Result<()> {
        for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            let named = |word: &str| path.file_stem().is_some_and(|stem| stem == word);
            if path.is_dir() && !named("tests") && !named("generated") {
                self.read(&path)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let code = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
                self.add(&code);
            }
        }
        Ok(())
    }

    fn add(&mut self, code: &str) {
        for marker in ENUMS {
            if let Some((before, after)) = code.split_once(&format!("    {marker},\n")) {
                let start = before.rfind("enum ").unwrap_or_default();
                let rest = after.split("\n}").next().unwrap_or_default();
                let body = [&before[start..], rest].join("\n");
                let names = body.lines().filter_map(|line| line.trim().strip_suffix(','));
                self.words.extend(names.filter(|name| name.chars().all(char::is_alphanumeric)).map(str::to_owned));
                self.words.insert((*marker).to_owned());
                self.enums += 1;
            }
        }
        for (start, _) in code.match_indices(TITLES) {
            // `BAD_REQUEST, "Title", detail`; a title in a variable is not seen.
            let title = code[start..].split_once(", ").and_then(|(_, rest)| rest.strip_prefix('"')?.split('"').next());
            self.words.extend(title.map(str::to_owned));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_and_titles_are_read_from_code() {
        let mut found = Found::default();
        found.add(
            "enum Other {\n    A,\n}\npub enum Why {\n    /// Later.\n    NotSupportedYet,\n    /// Nothing.\n    NoMatch,\n}\n\
             fn f() { ApiError::new(StatusCode::CONFLICT, \"Conflict\", detail); ApiError::new(StatusCode::GONE, title, x) }",
        );
        assert_eq!(found.enums, 1);
        assert_eq!(
            found.words.iter().map(String::as_str).collect::<Vec<_>>(),
            ["Conflict", "NoMatch", "NotSupportedYet"]
        );
    }

    #[test]
    fn a_reason_that_the_page_lacks_is_an_error() {
        let scratch = tempfile::tempdir().unwrap();
        for folder in CODE {
            fs::create_dir_all(scratch.path().join(folder)).unwrap();
        }
        let code = "enum A {\n    NotSupportedYet,\n}\nenum B {\n    HidesObjects,\n    NoEffect,\n}\n";
        fs::write(scratch.path().join("crates/core/a.rs"), code).unwrap();
        let error = check(scratch.path(), "`NotSupportedYet` `HidesObjects`").unwrap_err().to_string();
        assert!(error.starts_with("docs/troubleshooting.md does not explain `NoEffect`"), "{error}");
        check(scratch.path(), "`NotSupportedYet` `HidesObjects` `NoEffect`").unwrap();
    }
}

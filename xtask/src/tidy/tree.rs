//! Files of the repository, read once for all rules.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::workspace::relative;

/// Ignored folders, at any depth.
const FOREIGN: &[&str] = &[".git", "target", "node_modules"];
/// Folders of binary test input, or that tools fill, relative to the root.
const NOT_WRITTEN: &[&str] = &["fuzz/artifacts", "fuzz/corpus", "fuzz/coverage", "fuzz/seeds"];

/// Paths are relative to the root, with `/` as separator, and sorted.
#[derive(Default)]
pub(super) struct Tree {
    /// `None` for files that are not text.
    files: BTreeMap<String, Option<String>>,
}

/// A text file.
#[derive(Clone, Copy)]
pub(super) struct File<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
}

impl Tree {
    pub(super) fn load(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.add_folder(root, root)?;
        Ok(tree)
    }

    fn add_folder(&mut self, root: &Path, folder: &Path) -> Result<()> {
        for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry?;
            let path = entry.path();
            let shown = relative(root, &path);
            let foreign = entry.file_name().to_str().is_some_and(|name| FOREIGN.contains(&name));
            if foreign || NOT_WRITTEN.contains(&shown.as_str()) {
                continue;
            }
            // A link is listed but not followed: it may point outside the repository, or be circular.
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.add_folder(root, &path)?;
            } else if kind.is_file() {
                let bytes = fs::read(&path).with_context(|| format!("cannot read {shown}"))?;
                self.files.insert(shown, text(bytes));
            } else {
                self.files.insert(shown, None);
            }
        }
        Ok(())
    }

    pub(super) fn files(&self) -> impl Iterator<Item = File<'_>> {
        self.files.iter().filter_map(|(path, text)| Some(File { path, text: text.as_deref()? }))
    }

    pub(super) fn with_extension(&self, extension: &str) -> impl Iterator<Item = File<'_>> {
        self.files().filter(move |file| file.extension() == extension)
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    pub(super) fn has_file(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    pub(super) fn has_folder(&self, path: &str) -> bool {
        path.is_empty() || self.below(path).next().is_some()
    }

    /// Paths of all files below a folder.
    pub(super) fn below(&self, folder: &str) -> impl Iterator<Item = &str> {
        let prefix = format!("{folder}/");
        let start = prefix.clone();
        self.files.range(start..).map(|(path, _)| path.as_str()).take_while(move |path| path.starts_with(&prefix))
    }

    /// Names of the direct subfolders of a folder.
    pub(super) fn folders_in(&self, folder: &str) -> Vec<&str> {
        let mut names: Vec<_> =
            self.below(folder).filter_map(|path| Some(path.get(folder.len() + 1..)?.split_once('/')?.0)).collect();
        names.dedup();
        names
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        Self { files: files.iter().map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned()))).collect() }
    }
}

impl<'a> File<'a> {
    pub(super) fn extension(&self) -> &'a str {
        Path::new(self.path).extension().and_then(|extension| extension.to_str()).unwrap_or_default()
    }

    /// Lines with their numbers, from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &'a str)> {
        self.text.lines().enumerate().map(|(n, line)| (n + 1, line))
    }
}

/// `None` for bytes that are not text.
fn text(bytes: Vec<u8>) -> Option<String> {
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_folders_are_not_read() {
        let root = tempfile::tempdir().unwrap();
        for (path, bytes) in [
            ("src/lib.rs", &b"//! Lib.\n"[..]),
            ("src/logo.png", b"\x89PNG\0"),
            ("target/debug/out.rs", b""),
            ("gui/node_modules/x/index.js", b""),
            ("fuzz/artifacts/kri/crash-1", b""),
            ("fuzz/Cargo.toml", b"[package]\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let tree = Tree::load(root.path()).unwrap();
        let paths: Vec<_> = tree.files().map(|file| file.path).collect();
        assert_eq!(paths, ["fuzz/Cargo.toml", "src/lib.rs"]);
        assert!(tree.has_file("src/logo.png") && tree.text("src/logo.png").is_none());
        assert!(tree.has_folder("src") && !tree.has_folder("target"));
    }

    #[test]
    fn folders_are_derived_from_files() {
        let tree = Tree::of(&[("a/b/x.md", ""), ("a/b/y.md", ""), ("a/c/d/z.md", ""), ("a/file", ""), ("ab/n", "")]);
        assert_eq!(tree.folders_in("a"), ["b", "c"]);
        assert_eq!(tree.below("a/b").collect::<Vec<_>>(), ["a/b/x.md", "a/b/y.md"]);
    }
}

//! Pages of the book before mdBook renders them: where each comes from, and what it is called in the book.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::rewrite;
use crate::workspace::relative;

/// The table of contents.
const SUMMARY: &str = "SUMMARY.md";

/// A generated page, and the file that it was made from where there is one.
pub(super) struct Generated {
    /// Path in the book.
    pub(super) path: String,
    pub(super) title: String,
    /// File of the repository that links of the page are relative to.
    pub(super) origin: Option<String>,
    pub(super) text: String,
}

#[derive(Default)]
pub(super) struct Pages {
    /// By their path in the book.
    by_name: BTreeMap<String, Page>,
    /// Files that are copied as they are, by their path in the book.
    assets: BTreeMap<String, Vec<u8>>,
    /// Other paths of the repository that a page stands for.
    aliases: BTreeMap<String, String>,
    /// Entries of the table of contents below the entry of a generated list.
    listed: Vec<(String, String)>,
}

struct Page {
    /// File of the repository that links of the page are relative to.
    origin: String,
    text: String,
}

impl Pages {
    /// Adds all files of a folder of the repository.
    pub(super) fn add_folder(&mut self, root: &Path, folder: &str) -> Result<()> {
        for entry in fs::read_dir(root.join(folder)).with_context(|| format!("cannot read {folder}"))? {
            let path = entry?.path();
            let origin = relative(root, &path);
            if path.is_dir() {
                self.add_folder(root, &origin)?;
                continue;
            }
            let name = origin.strip_prefix("docs/").unwrap_or(&origin).to_owned();
            let bytes = fs::read(&path).with_context(|| format!("cannot read {origin}"))?;
            match String::from_utf8(bytes) {
                Ok(text) if path.extension().is_some_and(|extension| extension == "md") => {
                    self.add(&name, &origin, text);
                }
                Ok(text) => drop(self.assets.insert(name, text.into_bytes())),
                Err(error) => drop(self.assets.insert(name, error.into_bytes())),
            }
        }
        Ok(())
    }

    pub(super) fn add(&mut self, name: &str, origin: &str, text: String) {
        self.by_name.insert(name.to_owned(), Page { origin: origin.to_owned(), text });
    }

    /// Adds a page that is listed in the table of contents below the page `list`, or that has its own entry.
    pub(super) fn add_generated(&mut self, list: &str, page: Generated) {
        if !list.is_empty() && list != page.path {
            self.listed.push((list.to_owned(), format!("[{}]({})", page.title, page.path)));
        }
        let origin = page.origin.unwrap_or_else(|| format!("docs/{}", page.path));
        self.add(&page.path, &origin, page.text);
    }

    /// Lets links to a path of the repository lead to a page.
    pub(super) fn add_alias(&mut self, path: &str, page: &str) {
        self.aliases.insert(path.to_owned(), page.to_owned());
    }

    /// Lists all pages of a folder of the book in the table of contents and at the end of its first page.
    pub(super) fn list_folder(&mut self, folder: &str, first: &str) {
        let mut list = String::new();
        for (name, page) in &self.by_name {
            if name == first || name.rsplit_once('/').is_none_or(|(parent, _)| parent != folder) {
                continue;
            }
            let number = name.trim_start_matches(folder).trim_start_matches('/').split('-').next().unwrap_or_default();
            let title = page.text.lines().next().unwrap_or_default().trim_start_matches("# ");
            let title = title.trim_start_matches(number).trim_start_matches([':', ' ']);
            let _ = writeln!(list, "- [{number} {title}]({})", name.trim_start_matches(&format!("{folder}/")));
            self.listed.push((first.to_owned(), format!("[{number} {title}]({name})")));
        }
        if let Some(page) = self.by_name.get_mut(first) {
            page.text = format!("{}\n\n{list}", page.text.trim_end());
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.by_name.get(name).map(|page| page.text.as_str())
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len() - 1
    }

    /// Completes the table of contents, and turns links between files of the repository into links between pages.
    pub(super) fn link(&mut self) -> Result<()> {
        let summary = self.by_name.get_mut(SUMMARY).context("docs/SUMMARY.md is missing")?;
        summary.text = with_lists(&summary.text, &self.listed);
        let mut names = self.aliases.clone();
        for (name, page) in &self.by_name {
            names.insert(page.origin.clone(), name.clone());
            // A folder stands for its first page.
            let first = ["/README.md", "/index.md"];
            if let Some(folder) = first.iter().find_map(|first| page.origin.strip_suffix(first)) {
                names.insert(folder.to_owned(), name.clone());
            }
            // Written pages link generated ones by their place in the book.
            names.insert(format!("docs/{name}"), name.clone());
        }
        names.extend(self.assets.keys().map(|name| (format!("docs/{name}"), name.clone())));
        for (name, page) in &mut self.by_name {
            page.text = rewrite::links(&page.text, name, &page.origin, &names);
        }
        let contents = &self.by_name[SUMMARY].text;
        match self.by_name.keys().find(|name| *name != SUMMARY && !contents.contains(&format!("({name})"))) {
            Some(name) => bail!("docs/SUMMARY.md does not list {name}: add it, so that readers find it"),
            None => Ok(()),
        }
    }

    /// Writes what mdBook reads.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let pages = self.by_name.iter().map(|(name, page)| (name, page.text.as_bytes()));
        let assets = self.assets.iter().map(|(name, bytes)| (name, bytes.as_slice()));
        for (name, bytes) in pages.chain(assets) {
            let path = folder.join(name);
            let parent = path.parent().unwrap_or(folder);
            fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
            fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

/// The table of contents with an entry for each generated page, below the entry of its list.
fn with_lists(summary: &str, listed: &[(String, String)]) -> String {
    let mut text = String::new();
    for line in summary.lines() {
        text.push_str(line);
        text.push('\n');
        let indent = line.len() - line.trim_start().len() + 2;
        for (_, entry) in listed.iter().filter(|(list, _)| line.ends_with(&format!("({list})"))) {
            let _ = writeln!(text, "{:indent$}- {entry}", "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_pages_are_listed_below_their_entry() {
        let summary =
            "# Summary\n\n- [Reference](reference.md)\n  - [Policies](reference/policies.md)\n- [End](end.md)\n";
        let listed = [("reference/policies.md".to_owned(), "[MeshRetry](reference/policies/MeshRetry.md)".to_owned())];
        let expected = "# Summary\n\n- [Reference](reference.md)\n  - [Policies](reference/policies.md)\n    \
                        - [MeshRetry](reference/policies/MeshRetry.md)\n- [End](end.md)\n";
        assert_eq!(with_lists(summary, &listed), expected);
    }

    #[test]
    fn files_become_pages_and_links_follow() {
        let mut pages = Pages::default();
        pages.add(SUMMARY, "docs/SUMMARY.md", "- [Policies](reference/policies.md)\n".to_owned());
        pages.add("guide.md", "docs/guide.md", "[a](../crates/retry/README.md) [b](../ARCHITECTURE.md#map)".to_owned());
        pages.add("architecture.md", "ARCHITECTURE.md", "[guide](docs/guide.md)".to_owned());
        let retry = Generated {
            path: "reference/policies/MeshRetry.md".to_owned(),
            title: "MeshRetry".to_owned(),
            origin: Some("crates/retry/README.md".to_owned()),
            text: "[up](../../docs/guide.md)".to_owned(),
        };
        pages.add_generated("reference/policies.md", retry);
        let summary = "- [Policies](reference/policies.md)\n- [G](guide.md)\n- [A](../ARCHITECTURE.md)\n";
        pages.add(SUMMARY, "docs/SUMMARY.md", summary.to_owned());
        pages.link().unwrap();
        assert_eq!(pages.by_name["guide.md"].text, "[a](reference/policies/MeshRetry.md) [b](architecture.md#map)");
        assert_eq!(pages.by_name["architecture.md"].text, "[guide](guide.md)");
        assert_eq!(pages.by_name["reference/policies/MeshRetry.md"].text, "[up](../../guide.md)");
    }

    #[test]
    fn a_page_that_is_not_listed_is_an_error() {
        let mut pages = Pages::default();
        pages.add(SUMMARY, "docs/SUMMARY.md", "- [A](a.md)\n".to_owned());
        pages.add("a.md", "docs/a.md", String::new());
        pages.add("b.md", "docs/b.md", String::new());
        let error = pages.link().unwrap_err().to_string();
        assert_eq!(error, "docs/SUMMARY.md does not list b.md: add it, so that readers find it");
    }
}

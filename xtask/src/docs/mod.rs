//! `cargo xtask docs`: builds the book and checks its links.
//!
//! Written pages are in `docs/`. Pages about commands, settings and kinds are generated from the code on every build and
//! are not committed: a change of a help text is one line in a diff, branches do not conflict in generated text, and a
//! page cannot be out of date.

mod commands;
mod kinds;
mod links;
mod messages;
mod pages;
mod reasons;
mod rewrite;
mod schema;
mod settings;
mod settings_source;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::tools::MDBOOK;
use crate::workspace::Workspace;
use pages::Pages;

/// Builds the book under docs/ and checks its links.
///
/// The first run installs mdBook into the user's cache folder. External links are not fetched.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Written pages, and the settings of the book.
const FOLDER: &str = "docs";
/// Pages of the repository's root that are part of the book, and their names there.
const ROOT_PAGES: &[(&str, &str)] = &[
    ("README.md", "introduction.md"),
    ("ARCHITECTURE.md", "architecture.md"),
    ("CONTRIBUTING.md", "contributing.md"),
    ("SECURITY.md", "security.md"),
    ("CHANGELOG.md", "changelog.md"),
];

pub(crate) fn run(workspace: &Workspace, _: &Args) -> Result<()> {
    println!("{}", check(workspace)?);
    Ok(())
}

/// Builds the book and fails for links that do not resolve. Returns the number of pages and where the book is.
pub(crate) fn check(workspace: &Workspace) -> Result<String> {
    let mdbook = MDBOOK.find_or_install()?;
    let target = workspace.metadata("Cargo.toml")?.target_dir;
    let (source, html) = (target.join("book/source"), target.join("book/html"));
    let pages = collect(workspace, &kodiak(workspace, &target)?)?;
    reasons::check(&workspace.root, pages.text(reasons::PAGE).unwrap_or_default())?;
    for folder in [&source, &html] {
        if folder.is_dir() {
            fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
    }
    pages.write(&source)?;
    let mut build = Command::new(mdbook);
    build.arg("build").arg(&source).arg("--dest-dir").arg(&html).env("MDBOOK_LOG", "warn");
    process::run(&mut build)?;
    let broken = links::broken(&html)?;
    if !broken.is_empty() {
        bail!("links of the book do not resolve:\n  {}", broken.join("\n  "));
    }
    Ok(format!("{} pages: {}", pages.len(), html.join("index.html").display()))
}

/// The program that pages are generated from.
fn kodiak(workspace: &Workspace, target: &Path) -> Result<PathBuf> {
    process::run(process::cargo(workspace).args(["build", "--quiet", "--package", "kodiak"]))?;
    Ok(target.join("debug/kodiak"))
}

/// All pages, with links that fit the book.
fn collect(workspace: &Workspace, kodiak: &Path) -> Result<Pages> {
    let mut pages = Pages::default();
    pages.add_folder(&workspace.root, FOLDER)?;
    for (path, name) in ROOT_PAGES {
        let text = fs::read_to_string(workspace.root.join(path)).with_context(|| format!("cannot read {path}"))?;
        pages.add(name, path, text);
    }
    for page in commands::pages(kodiak)? {
        pages.add_generated("reference/commands.md", page);
    }
    pages.add_generated("", settings::page(&workspace.root, kodiak)?);
    pages.add_generated("", messages::page(&workspace.root)?);
    for (list, page) in kinds::pages(&workspace.root)? {
        pages.add_generated(list, page);
    }
    for (folder, list) in kinds::lists() {
        pages.add_alias(folder, list);
    }
    pages.list_folder("adr", "adr/index.md");
    pages.link()?;
    Ok(pages)
}

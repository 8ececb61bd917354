//! Test helpers for rules: files in, findings out.

use std::path::Path;

use super::closure::Closure;
use super::finding::Findings;
use super::tree::Tree;
use super::{Repository, Rule};
use crate::workspace::{Dependency, Package, Usage};

/// Findings of one rule for some files.
pub(super) fn findings(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
    check(rule, &repository(files))
}

pub(super) fn check(rule: Rule, repository: &Repository) -> Vec<String> {
    let mut findings = Findings::default();
    rule(repository, &mut findings);
    findings.sorted().iter().map(ToString::to_string).collect()
}

pub(super) fn repository(files: &[(&str, &str)]) -> Repository {
    Repository { tree: Tree::of(files), packages: Vec::new(), fuzz: Vec::new(), closure: Closure::default() }
}

/// A crate in `folder`, with its dependencies.
pub(super) fn package(folder: &str, uses: &[(&str, Usage)]) -> Package {
    let name = folder.rsplit('/').next().unwrap_or(folder).to_owned();
    let dependencies = uses.iter().map(|(name, usage)| Dependency { name: (*name).to_owned(), usage: *usage });
    Package {
        name,
        manifest: format!("{folder}/Cargo.toml"),
        dependencies: dependencies.collect(),
        roots: vec![format!("{folder}/src/lib.rs")],
    }
}

pub(crate) fn package_at(folder: &str) -> Package {
    package(folder, &[])
}

/// Findings of all rules for the files in a folder, some of which are crates.
pub(crate) fn findings_in(root: &Path, packages: &[Package]) -> Vec<String> {
    let tree = Tree::load(root).unwrap();
    let repository = Repository { tree, packages: packages.to_vec(), ..repository(&[]) };
    repository.findings().iter().map(ToString::to_string).collect()
}

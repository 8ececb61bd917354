//! `cargo xtask tidy`: rules of this repository that the compiler does not check.
//!
//! Each rule is a file here and a row in [`RULES`]; its allow and deny lists are a table at its top.

mod apart;
mod closure;
mod edges;
mod expects;
mod finding;
mod folders;
mod length;
mod links;
mod mapped;
mod opening;
mod orphans;
mod skips;
mod spawns;
mod specs;
#[cfg(test)]
pub(crate) mod testing;
mod tree;
mod whitespace;

use anyhow::{Result, bail};

use crate::fuzz;
use crate::workspace::{Package, Workspace};
use closure::Closure;
use finding::{Finding, Findings};
use tree::Tree;

/// Check the rules of the repository that the compiler does not check.
///
/// Dependencies between crates, purity of the core, unsupervised tasks, decoding of specs, unconditional writes, file length, module docs, files that are not
/// compiled, white space, tests that never run, links in Markdown, paths in ARCHITECTURE.md, and complete folders of policies and kinds.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Inputs of the rules.
struct Repository {
    tree: Tree,
    /// The crates of the workspace.
    packages: Vec<Package>,
    /// The fuzz crate, which is a separate workspace.
    fuzz: Vec<Package>,
    closure: Closure,
}

type Rule = fn(&Repository, &mut Findings);

const RULES: &[Rule] = &[
    edges::check,
    apart::check,
    closure::check,
    length::check,
    opening::check,
    orphans::check,
    whitespace::check,
    skips::check,
    spawns::check,
    specs::check,
    expects::check,
    links::check,
    mapped::check,
    folders::check,
];

pub(crate) fn run(workspace: &Workspace, _: &Args) -> Result<()> {
    println!("{}", check(workspace)?);
    Ok(())
}

/// Prints the findings, fails on errors, and otherwise returns a summary.
pub(crate) fn check(workspace: &Workspace) -> Result<String> {
    let repository = Repository::load(workspace)?;
    let findings = repository.findings();
    for finding in &findings {
        println!("{finding}");
    }
    let faults = findings.iter().filter(|finding| finding.is_fault()).count();
    if faults > 0 {
        bail!("{faults} {} of the repository's rules", if faults == 1 { "violation" } else { "violations" });
    }
    Ok(format!("{} files", repository.tree.files().count()))
}

impl Repository {
    fn load(workspace: &Workspace) -> Result<Self> {
        let packages = workspace.metadata("Cargo.toml")?.packages;
        let fuzz = workspace.metadata(fuzz::MANIFEST)?.packages;
        let closure = Closure::load(workspace, &packages)?;
        Ok(Self { tree: Tree::load(&workspace.root)?, packages, fuzz, closure })
    }

    /// In the order of files and lines, over all rules.
    fn findings(&self) -> Vec<Finding> {
        let mut findings = Findings::default();
        for rule in RULES {
            rule(self, &mut findings);
        }
        findings.sorted()
    }
}

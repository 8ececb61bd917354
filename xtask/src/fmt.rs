//! `cargo xtask fmt`: formats everything, including folders that `cargo fmt` does not find.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::families::{self, Family, Listing};
use crate::workspace::Workspace;
use crate::{fuzz, process};

/// Format the code: the workspace, the fuzz targets, and folders that `cargo fmt` does not find.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail when something is not formatted.
    #[arg(long)]
    check: bool,
}

/// The edition of the workspace, for rustfmt without cargo.
pub(crate) const EDITION: [&str; 2] = ["--edition", "2024"];

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    format(workspace, args.check)
}

pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    format(workspace, true)
}

fn format(workspace: &Workspace, check: bool) -> Result<()> {
    let check: &[&str] = if check { &["--check"] } else { &[] };
    process::run(process::cargo(workspace).args(["fmt", "--all"]).args(check))?;
    process::run(process::cargo(workspace).args(["fmt", "--manifest-path", fuzz::MANIFEST]).args(check))?;
    let roots = hidden_roots(workspace)?;
    process::run(Command::new("rustfmt").current_dir(&workspace.root).args(EDITION).args(check).args(roots))
}

/// Files whose `mod` line is in a macro: rustfmt does not expand macros, so it does not find them from the crate.
fn hidden_roots(workspace: &Workspace) -> Result<Vec<String>> {
    let mut roots = Vec::new();
    for Family { folder, list, listing } in families::ALL {
        if *listing == Listing::Register {
            let text = fs::read_to_string(workspace.root.join(list)).with_context(|| format!("cannot read {list}"))?;
            roots.extend(families::registered(&text).into_iter().map(|name| format!("{folder}/{name}/mod.rs")));
        }
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_formatted() {
        let workspace = Workspace::find().unwrap();
        let roots = hidden_roots(&workspace).unwrap();
        assert!(!roots.is_empty());
        for root in roots {
            assert!(workspace.root.join(&root).is_file(), "{root}");
        }
    }

    #[test]
    fn edition_is_that_of_the_workspace() {
        let manifest = include_str!("../../Cargo.toml");
        assert!(manifest.contains(&format!("\nedition = \"{}\"\n", EDITION[1])));
    }
}

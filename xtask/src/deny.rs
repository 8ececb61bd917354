//! `cargo xtask deny`: licences, sources and bans of dependencies, by cargo-deny and `deny.toml`.
//!
//! Advisories are left out by default: their database is a Git repository that not every machine reaches, and a check
//! that fails without it would be switched off. `--advisories` adds them.

use std::process::Command;

use anyhow::Result;

use crate::process;
use crate::tools::CARGO_DENY;
use crate::workspace::Workspace;

/// Checks licences, sources and bans of dependencies against deny.toml.
///
/// The first run installs cargo-deny into the user's cache folder. Security advisories are not checked unless
/// `--advisories` is given, because that fetches a database from the network.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Check security advisories and yanked versions too; fetches the advisory database.
    #[arg(long)]
    advisories: bool,
}

/// Checks that need the manifest, the lock file and the registry's sources, and nothing from the network.
const OFFLINE: &[&str] = &["licenses", "bans", "sources"];

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    deny(workspace, args.advisories)
}

/// Checks everything that can be checked without a network, and says what was left out.
pub(crate) fn check(workspace: &Workspace) -> Result<String> {
    deny(workspace, false)?;
    Ok("advisories left out: `cargo xtask deny --advisories`".to_owned())
}

fn deny(workspace: &Workspace, advisories: bool) -> Result<()> {
    // cargo-deny looks at dependencies for all systems; a build fetches those of this one.
    process::run(process::cargo(workspace).args(["fetch", "--quiet", "--locked"]))?;
    let mut command = Command::new(CARGO_DENY.find_or_install()?);
    command.current_dir(&workspace.root).args(arguments(advisories));
    process::run(&mut command)
}

fn arguments(advisories: bool) -> Vec<&'static str> {
    // Duplicate versions are shown by `cargo tree --duplicates`; as warnings they would bury what is refused.
    let mut arguments = vec!["--log-level", "error", "--locked"];
    if !advisories {
        arguments.push("--offline");
    }
    arguments.push("check");
    arguments.extend(OFFLINE);
    if advisories {
        arguments.push("advisories");
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advisories_are_fetched_only_on_request() {
        assert_eq!(arguments(false).join(" "), "--log-level error --locked --offline check licenses bans sources");
        let with = arguments(true);
        assert!(with.contains(&"advisories") && !with.contains(&"--offline"), "{with:?}");
    }
}

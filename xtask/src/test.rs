//! `cargo xtask test`: the tests of the workspace, with their requirements.

use std::process::Command;

use anyhow::Result;

use crate::envoy::Envoy;
use crate::postgres::Postgres;
use crate::process;
use crate::programs;
use crate::spire::Spire;
use crate::workspace::Workspace;

/// Run the tests of the whole workspace.
///
/// Finds PostgreSQL where it is installed but not on PATH. Without it, the tests that need it are skipped; `cargo xtask
/// ci` installs it instead. The same goes for SPIRE. Tests that need Envoy find or install it themselves.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Passed on to `cargo test`: `-- -p kodiak-store`, or `-- watch` for tests with that word in their name
    #[arg(last = true)]
    args: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let postgres = Postgres::find();
    if postgres.is_none() {
        println!("PostgreSQL is not installed: its tests are skipped.");
    }
    let spire = Spire::find(workspace)?;
    if spire.is_none() {
        println!("SPIRE is not built: its tests are skipped. `cargo xtask ci --only setup` builds it.");
    }
    let mut command = cargo_test(workspace, &args.args);
    if let Some(postgres) = postgres {
        postgres.prepare(&mut command)?;
    }
    if let Some(spire) = spire {
        spire.prepare(&mut command);
    }
    process::run(&mut command)
}

/// Runs all tests; none may be skipped. One run shows all failures.
pub(crate) fn everything(workspace: &Workspace) -> Result<()> {
    let mut command = cargo_test(workspace, &["--no-fail-fast".to_owned()]);
    Postgres::installed()?.prepare(&mut command)?;
    Envoy::find_or_install(workspace)?.prepare(&mut command);
    Spire::find_or_build(workspace)?.prepare(&mut command);
    programs::require(&mut command);
    process::run(&mut command)
}

/// All tests when `args` names no crate.
fn cargo_test(workspace: &Workspace, args: &[String]) -> Command {
    let mut command = process::cargo(workspace);
    command.arg("test");
    if !names_a_crate(args) {
        command.arg("--workspace");
    }
    command.args(args);
    command
}

/// `--workspace` would override a named crate.
fn names_a_crate(args: &[String]) -> bool {
    let own = args.iter().take_while(|arg| *arg != "--");
    own.into_iter()
        .any(|arg| arg.starts_with("-p") || arg.starts_with("--package") || arg.starts_with("--manifest-path"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_crate_replaces_the_workspace() {
        let args = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(names_a_crate(&args("-p kodiak-store")));
        assert!(names_a_crate(&args("--package=kodiak-store --lib")));
        assert!(!names_a_crate(&args("watch -- -p")));
        assert!(!names_a_crate(&[]));
    }
}

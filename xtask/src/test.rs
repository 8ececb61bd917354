//! `cargo xtask test`: the tests of the workspace, with what they need prepared.

use anyhow::Result;

use crate::envoy::Envoy;
use crate::postgres::Postgres;
use crate::process;
use crate::workspace::Workspace;

/// Runs the tests of the whole workspace.
///
/// Finds PostgreSQL where it is installed but not on PATH. Without one, the tests that need it are skipped; `cargo xtask
/// ci` installs it instead. Tests that need Envoy look for it, and install it, themselves.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Passed on to `cargo test`: `-- -p kodiak-store`, or `-- watch` for tests with that word in their name.
    #[arg(last = true)]
    args: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let postgres = Postgres::find();
    if postgres.is_none() {
        println!("PostgreSQL is not installed: its tests are skipped.");
    }
    cargo_test(workspace, postgres.as_ref(), None, &args.args)
}

/// All tests when `args` names no crate.
pub(crate) fn cargo_test(
    workspace: &Workspace,
    postgres: Option<&Postgres>,
    envoy: Option<&Envoy>,
    args: &[String],
) -> Result<()> {
    let mut command = process::cargo(workspace);
    command.arg("test");
    if !names_a_crate(args) {
        command.arg("--workspace");
    }
    command.args(args);
    if let Some(postgres) = postgres {
        postgres.prepare(&mut command)?;
    }
    if let Some(envoy) = envoy {
        envoy.prepare(&mut command);
    }
    process::run(&mut command)
}

/// `--workspace` would win over a crate that is named.
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

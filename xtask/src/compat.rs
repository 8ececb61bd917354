//! `cargo xtask compat`: Kodiak against the recorded behaviour of Kuma 2.14.3, as REST clients and kumactl see it.

use std::path::PathBuf;

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// Compares the REST API and the command line with records of kuma-cp and kumactl 2.14.3
#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Only calls and commands whose name contains this text
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Print intended differences with their reasons, without running anything
    #[arg(long)]
    list_differences: bool,
    /// Folder with the programs kuma-cp and kumactl: checks the records against kuma-cp, and runs kumactl against Kodiak
    #[arg(long, value_name = "DIR")]
    live: Option<PathBuf>,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let mut build = process::cargo(workspace);
    process::run(build.args(["build", "--quiet", "--package", "kodiak"]))?;
    let mut command = process::cargo(workspace);
    command.args(["run", "--quiet", "--package", "kodiak-compat", "--", "--kodiak"]);
    command.arg(workspace.metadata("Cargo.toml")?.target_dir.join("debug/kodiak"));
    if let Some(filter) = &args.filter {
        command.arg("--filter").arg(filter);
    }
    if args.list_differences {
        command.arg("--list-differences");
    }
    if let Some(programs) = &args.live {
        command.arg("--live").arg(std::path::absolute(programs)?);
    }
    process::run(&mut command)
}

pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    run(workspace, &Args::default())
}

//! `cargo xtask meshes`: random meshes, and what control planes answer about them.
//!
//! A folder has a folder for each mesh: `mesh.yaml` has its documents, `<control plane>.answers.json` the answers of
//! one control plane. The format is described in `crates/dev/kodiak-testkit/tests/it/recorded/answers.rs`.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

const SUITE: &str = "recorded::";
const GENERATE: &str = "generated_meshes_are_written_and_read_back";
const COMPARE: &str = "answers_are_as_recorded";
const FOLDER: &str = "KODIAK_MESHES";

/// Generate random valid meshes, and record or compare answers about them
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Write random meshes with all kinds in force, to DIR/mesh-SEED/mesh.yaml
    Generate {
        /// Seed of the first mesh; the next one has the next number
        #[arg(long, default_value_t = 1)]
        seed: u64,
        #[arg(long, default_value_t = 10)]
        count: u64,
        dir: PathBuf,
    },
    /// Write our answers, to DIR/*/kodiak.answers.json
    Record { dir: PathBuf },
    /// Compare our answers with those of a control plane, in DIR/*/NAME.answers.json
    Compare {
        /// The control plane that gave the answers
        #[arg(long, value_name = "NAME", default_value = "kodiak")]
        by: String,
        dir: PathBuf,
    },
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let mut command = process::cargo(workspace);
    command.args(["test", "-p", "kodiak-testkit", "--test", "it", "--", "--exact"]);
    match &args.command {
        Command::Generate { seed, count, dir } => {
            command.arg(format!("{SUITE}{GENERATE}")).env(FOLDER, absolute(dir)?);
            command.env("KODIAK_MESHES_SEED", seed.to_string()).env("KODIAK_MESHES_COUNT", count.to_string());
        }
        Command::Record { dir } => {
            command.arg(format!("{SUITE}{COMPARE}")).env(FOLDER, absolute(dir)?).env("UPDATE", "1");
        }
        Command::Compare { by, dir } => {
            command.arg(format!("{SUITE}{COMPARE}")).env(FOLDER, absolute(dir)?).env("KODIAK_MESHES_BY", by);
        }
    }
    process::run(&mut command)
}

/// Tests run in the folder of their crate.
fn absolute(dir: &Path) -> Result<PathBuf> {
    Ok(env::current_dir().context("cannot find the current folder")?.join(dir))
}

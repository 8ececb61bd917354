//! `cargo xtask soak`: real control planes and Envoys under load, with random faults.

use anyhow::Result;

use crate::envoy::Envoy;
use crate::fuzz::duration;
use crate::postgres::Postgres;
use crate::workspace::Workspace;
use crate::{process, programs};

const TEST: &str = "soak::faults_at_random";

/// Inject random faults into two control planes over PostgreSQL and six Envoys under constant load.
///
/// No request may fail, no packet between proxies may be plain text, every change must arrive after every fault, and at the
/// end each proxy must have the configuration of a control plane that saw no fault. Needs root, like `cargo xtask ci`. A failure prints the seed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long: 90s, 10m, 2h
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse, default_value = "1h")]
    duration: u64,
    /// The same seed gives the same faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only these faults, as a run prints them: `--fault LeaderIsPaused,CaExpires`
    #[arg(long = "fault", value_name = "NAME", value_delimiter = ',')]
    faults: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    programs::install_missing()?;
    let mut command = process::cargo(workspace);
    command.args(["test", "-p", "kodiak", "--test", "e2e", "--", "--exact", TEST, "--nocapture"]);
    Postgres::installed()?.prepare(&mut command)?;
    Envoy::find_or_install(workspace)?.prepare(&mut command);
    programs::require(&mut command);
    command.env("KODIAK_SOAK", args.duration.to_string()).env("KODIAK_SOAK_SEED", args.seed.to_string());
    command.env("KODIAK_SOAK_FAULTS", args.faults.join(","));
    process::run(&mut command)
}

//! `kodiak dp`: the sidecar.

mod dataplane;
mod install_envoy;
mod kuma_dp;
mod run;
mod transparent_proxy_config;

use kodiak_terminal::Exit;

use crate::session::Session;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: DpCommand,
}

#[derive(clap::Subcommand)]
enum DpCommand {
    /// Run Envoy as a sidecar, configured by the control plane
    Run(Box<run::Args>),
    /// Install the Envoy version that Kodiak is tested with, and print its path
    InstallEnvoy(install_envoy::Args),
}

impl Args {
    /// Whether it is a long-running command, which logs.
    pub fn is_long_running(&self) -> bool {
        matches!(self.command, DpCommand::Run(_))
    }
}

pub async fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    match args.command {
        DpCommand::Run(args) => run::run(*args, session).await,
        DpCommand::InstallEnvoy(args) => install_envoy::run(args, session).await,
    }
}

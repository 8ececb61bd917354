//! `kodiak install` and `kodiak uninstall`: set up this machine for a proxy.

mod transparent_proxy;

use kodiak_terminal::Exit;

use crate::session::Session;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: InstallCommand,
}

#[derive(clap::Subcommand)]
enum InstallCommand {
    /// Redirect the traffic of this machine to its proxy
    TransparentProxy(transparent_proxy::Args),
}

#[derive(clap::Args)]
pub struct UninstallArgs {
    #[command(subcommand)]
    command: UninstallCommand,
}

#[derive(clap::Subcommand)]
enum UninstallCommand {
    /// Remove the redirection of traffic to the proxy
    TransparentProxy(transparent_proxy::UninstallArgs),
}

pub fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    match args.command {
        InstallCommand::TransparentProxy(args) => transparent_proxy::run(args, session),
    }
}

pub fn undo(args: UninstallArgs, session: &Session) -> anyhow::Result<Exit> {
    match args.command {
        UninstallCommand::TransparentProxy(args) => transparent_proxy::undo(&args, session),
    }
}

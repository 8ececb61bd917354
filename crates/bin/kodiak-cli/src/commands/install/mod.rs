//! `kodiak install` and `kodiak uninstall`: set up this machine for a proxy.

mod transparent_proxy;

use kodiak_terminal::Exit;

use crate::commands::elsewhere::{self, Elsewhere};
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
    /// Print how to start a control plane
    ControlPlane(elsewhere::Args),
    /// Print how to store resources
    Crds(elsewhere::Args),
    /// Print how to run the demo
    Demo(elsewhere::Args),
    /// Print how to monitor a mesh
    #[command(aliases = ["metrics", "logging", "tracing"])]
    Observability(elsewhere::Args),
    /// Print how to check the redirection
    TransparentProxyValidator(elsewhere::Args),
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
        InstallCommand::ControlPlane(_) => Err(Elsewhere::ControlPlane.into()),
        InstallCommand::Crds(_) => Err(Elsewhere::Crds.into()),
        InstallCommand::Demo(_) => Err(Elsewhere::Demo.into()),
        InstallCommand::Observability(_) => Err(Elsewhere::Observability.into()),
        InstallCommand::TransparentProxyValidator(_) => Err(Elsewhere::Validator.into()),
    }
}

pub fn undo(args: UninstallArgs, session: &Session) -> anyhow::Result<Exit> {
    match args.command {
        UninstallCommand::TransparentProxy(args) => transparent_proxy::undo(&args, session),
    }
}

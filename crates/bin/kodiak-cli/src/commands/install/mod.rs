//! `kodiak install` and `kodiak uninstall`: changes to this machine that a proxy needs.

mod transparent_proxy;

use kodiak_terminal::Exit;

use crate::session::Session;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Send the traffic of this machine through its proxy
    TransparentProxy(transparent_proxy::Args),
}

#[derive(clap::Args)]
pub struct UninstallArgs {
    #[command(subcommand)]
    what: UninstallWhat,
}

#[derive(clap::Subcommand)]
enum UninstallWhat {
    /// Send the traffic of this machine where it was meant to go
    TransparentProxy(transparent_proxy::UninstallArgs),
}

pub fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    match args.what {
        What::TransparentProxy(args) => transparent_proxy::run(args, session),
    }
}

pub fn undo(args: UninstallArgs, session: &Session) -> anyhow::Result<Exit> {
    match args.what {
        UninstallWhat::TransparentProxy(args) => transparent_proxy::undo(&args, session),
    }
}

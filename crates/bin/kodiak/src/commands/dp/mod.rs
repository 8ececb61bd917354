//! `kodiak dp`: the proxy beside an application.

mod install_envoy;

use crate::exit::Exit;
use crate::session::Session;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Get the Envoy that Kodiak is tested with, and print its path
    InstallEnvoy(install_envoy::Args),
}

pub(crate) async fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    match args.what {
        What::InstallEnvoy(args) => install_envoy::run(args, session).await,
    }
}

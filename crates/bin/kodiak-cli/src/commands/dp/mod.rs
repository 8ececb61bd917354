//! `kodiak dp`: the proxy beside an application.

mod dataplane;
mod install_envoy;
mod run;

use kodiak_terminal::Exit;

use crate::session::Session;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Run an Envoy beside an application, as the control plane says
    Run(Box<run::Args>),
    /// Get the Envoy that Kodiak is tested with, and print its path
    InstallEnvoy(install_envoy::Args),
}

impl Args {
    /// Whether it goes on for a long time, so that people look at what it logs.
    pub fn stays(&self) -> bool {
        matches!(self.what, What::Run(_))
    }
}

pub async fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    match args.what {
        What::Run(args) => run::run(*args, session).await,
        What::InstallEnvoy(args) => install_envoy::run(args, session).await,
    }
}

//! `kodiak inspect`: configuration and status of a proxy or a policy.

mod changes;
mod dataplane;
mod policy;
mod references;
mod rules;
mod summary;

use kodiak_terminal::Exit;

use crate::session::Session;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: InspectCommand,
}

#[derive(clap::Subcommand)]
enum InspectCommand {
    /// Show the status, configuration, policies or statistics of a proxy
    #[command(visible_alias = "dp")]
    Dataplane(dataplane::Args),
    /// Show which proxies a policy affects, and why it does not affect others
    Policy(policy::Args),
}

pub async fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    match args.command {
        InspectCommand::Dataplane(args) => dataplane::run(&args, session).await,
        InspectCommand::Policy(args) => policy::run(&args, session).await,
    }
}

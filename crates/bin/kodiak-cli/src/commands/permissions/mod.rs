//! `kodiak permissions`: MeshTrafficPermissions and the traffic that they must allow.

mod draft;
mod permission;
mod traffic;

use kodiak_terminal::Exit;

use crate::session::Session;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: PermissionsCommand,
}

#[derive(clap::Subcommand)]
enum PermissionsCommand {
    /// Draft MeshTrafficPermissions that allow the observed traffic
    Draft(draft::Args),
}

pub async fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    match args.command {
        PermissionsCommand::Draft(args) => draft::run(&args, session).await,
    }
}

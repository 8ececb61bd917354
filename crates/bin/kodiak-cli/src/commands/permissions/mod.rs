//! `kodiak permissions`: MeshTrafficPermissions and the traffic that they must allow.

mod check;
mod draft;
mod observed;
mod permission;
mod plaintext;
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
    /// Show which clients called which destinations, and who calls servers without mTLS
    Observed(observed::Args),
    /// Draft MeshTrafficPermissions that allow the observed traffic
    Draft(draft::Args),
    /// Check which callers lose access by a change of permissions, and how often they called
    Check(check::Args),
}

pub async fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    match args.command {
        PermissionsCommand::Observed(args) => observed::run(&args, session).await,
        PermissionsCommand::Draft(args) => draft::run(&args, session).await,
        PermissionsCommand::Check(args) => check::run(&args, session).await,
    }
}

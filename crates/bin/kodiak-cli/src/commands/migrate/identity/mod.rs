//! `kodiak migrate identity`: from certificates of the mesh CA to those of a MeshIdentity.

mod convert;
mod converted;

use kodiak_terminal::Exit;

use crate::session::Session;

#[derive(clap::Args)]
pub(super) struct IdentityArgs {
    #[command(subcommand)]
    command: Identity,
}

#[derive(clap::Subcommand)]
enum Identity {
    /// Convert MeshTrafficPermissions from tags to SPIFFE IDs, verifying that nobody gains or loses access
    Convert(convert::Args),
}

pub(super) async fn run(args: &IdentityArgs, session: &Session) -> anyhow::Result<Exit> {
    match &args.command {
        Identity::Convert(args) => convert::run(args, session).await,
    }
}

//! `kodiak migrate identity`: from a backend of the Mesh (mesh CA) to a MeshIdentity.

mod convert;
mod converted;
mod plan;
mod status;

use kodiak_terminal::Exit;

use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Migrates the certificates of a mesh from a backend of the Mesh (mesh CA) to a MeshIdentity in reversible steps:

  1  plan                 the next step, and why
  2  Exclusive            MeshIdentity requires meshServices.mode Exclusive: kodiak migrate services
  3  convert              permissions by SPIFFE ID (rules) instead of tags (from)
  4  labels and tokens    labels that SPIFFE IDs are made of, bound by the token of the proxy
  5  MeshIdentity         apply it; the control plane then changes all proxies in acknowledged steps:
                          trust both CAs, expect both SPIFFE IDs, present the new certificate, remove the old CA
  6  status --watch       which proxies are missing, and why
  7  enabledBackend       remove it from the Mesh when every proxy has a certificate of a MeshIdentity

A step begins when every connected proxy has acknowledged the one before. To go back, delete the MeshIdentity;
the same steps run in the other direction.")]
pub(super) struct IdentityArgs {
    #[command(subcommand)]
    command: IdentityCommand,
}

#[derive(clap::Subcommand)]
enum IdentityCommand {
    /// Show the progress of each proxy, and the proxies that the next step waits for
    Status(status::Args),
    /// Convert MeshTrafficPermissions from tags to SPIFFE IDs, verifying that nobody gains or loses access
    Convert(convert::Args),
    /// Show the next safe step, its reason, and the rollback
    Plan(plan::Args),
}

pub(super) async fn run(args: IdentityArgs, session: &Session) -> anyhow::Result<Exit> {
    match args.command {
        IdentityCommand::Status(args) => status::run(&args, session).await,
        IdentityCommand::Convert(args) => convert::run(&args, session).await,
        IdentityCommand::Plan(args) => plan::run(&args, session).await,
    }
}

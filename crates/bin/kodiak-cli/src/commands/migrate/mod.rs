//! `kodiak migrate`: guided, reversible migrations.

mod answers;
mod convert;
mod converted;
mod gather;
mod identity;
mod kuma;
mod plan;
mod proof;
mod status;
mod steps;
mod traffic;

use kodiak_client::{ClientError, Refusal};
use kodiak_terminal::Exit;

use crate::session::Session;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: MigrateCommand,
}

#[derive(clap::Subcommand)]
enum MigrateCommand {
    /// Import the meshes of a Kuma control plane
    Kuma(kuma::Args),
    /// Migrate from kuma.io/service tags to MeshService
    Services(ServicesArgs),
    /// Migrate from a backend of the Mesh (mesh CA) to a MeshIdentity
    Identity(identity::IdentityArgs),
}

#[derive(clap::Args)]
#[command(after_help = "\
Migrates a mesh from Disabled to Exclusive (meshServices.mode of the Mesh) in reversible steps:

  1  plan        the next step, and why
  2  Everywhere  adds MeshServices next to kuma.io/service: new hostnames and clusters, legacy ones unchanged
  3  convert     adds MeshService references to policies, next to the legacy ones
  4  status      which consumers still send traffic to legacy clusters
  5  Exclusive   when none does")]
struct ServicesArgs {
    #[command(subcommand)]
    command: Services,
}

#[derive(clap::Subcommand)]
enum Services {
    /// Show which consumers and policies still use kuma.io/service tags
    Status(status::Args),
    /// Add MeshService references to policies, verifying that no proxy changes
    Convert(convert::Args),
    /// Show the next safe step, its reasons, and the rollback
    Plan(plan::Args),
}

pub async fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    let command = match args.command {
        MigrateCommand::Services(ServicesArgs { command }) => command,
        MigrateCommand::Kuma(args) => return kuma::run(&args, session).await,
        MigrateCommand::Identity(args) => return identity::run(args, session).await,
    };
    match command {
        Services::Status(args) => status::run(&args, session).await,
        Services::Convert(args) => convert::run(&args, session).await,
        Services::Plan(args) => plan::run(&args, session).await,
    }
}

/// Error for a mesh that does not exist.
fn of_mesh(error: ClientError, mesh: &str) -> anyhow::Error {
    if error.refusal().is_some_and(Refusal::is_not_found) {
        return anyhow::anyhow!("no Mesh with name {mesh:?}; `kodiak get meshes` lists them");
    }
    error.into()
}

//! `kodiak migrate`: from one way of doing things to another, step by step and with a way back.

mod convert;
mod converted;
mod gather;
mod plan;
mod proof;
mod status;
mod traffic;

use clap::ValueEnum;
use kodiak_client::{ClientError, Refusal};
use kodiak_model::yaml;
use kodiak_terminal::Exit;
use serde::Serialize;

use crate::session::Session;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// From kuma.io/service tags to MeshService objects, consumer by consumer
    Services(ServicesArgs),
}

#[derive(clap::Args)]
#[command(after_help = "\
A mesh goes from Disabled to Exclusive (meshServices.mode of the Mesh) in steps that each can be undone:

  1  plan        what to do next, and why
  2  Everywhere  MeshServices beside the services of tags: new names and clusters, old ones untouched
  3  convert     references of policies, old and new side by side
  4  status      who still calls old clusters
  5  Exclusive   when nobody does")]
struct ServicesArgs {
    #[command(subcommand)]
    command: Services,
}

#[derive(clap::Subcommand)]
enum Services {
    /// Who calls what by tags and what by MeshServices, and which policies still use old names
    Status(status::Args),
    /// Add new references to policies, with the proof that no proxy changes
    Convert(convert::Args),
    /// The next safe step, why, and how to go back
    Plan(plan::Args),
}

pub async fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    let What::Services(ServicesArgs { command }) = args.what;
    match command {
        Services::Status(args) => status::run(&args, session).await,
        Services::Convert(args) => convert::run(&args, session).await,
        Services::Plan(args) => plan::run(&args, session).await,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Table,
    Yaml,
    Json,
}

impl Output {
    /// Without a newline at its end. `table` is asked for when people read it.
    fn show(self, document: &impl Serialize, table: impl FnOnce() -> String) -> anyhow::Result<String> {
        let document = serde_json::to_value(document)?;
        Ok(match self {
            Self::Table => table().trim_end().to_owned(),
            Self::Yaml => yaml::to_string(&document).trim_end().to_owned(),
            Self::Json => serde_json::to_string_pretty(&document)?,
        })
    }
}

fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

/// A mesh that is not there is said as such.
fn of_mesh(error: ClientError, mesh: &str) -> anyhow::Error {
    if error.refusal().is_some_and(Refusal::is_not_found) {
        return anyhow::anyhow!("no Mesh with name {mesh:?}; `kodiak get meshes` lists them");
    }
    error.into()
}

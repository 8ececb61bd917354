//! `kodiak inspect meshgateway`: proxies that serve a MeshGateway.

use clap::builder::NonEmptyStringValueParser;
use kodiak_client::{Refusal, ResourceId};
use kodiak_kinds::kinds;
use kodiak_terminal::Exit;

use crate::commands::get::absent;
use crate::report::Output;
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak inspect meshgateway edge
  kodiak inspect meshgateway edge -m demo -o json")]
pub(super) struct Args {
    /// Name of the MeshGateway
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,

    /// Mesh [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(super) async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let mesh = session.mesh(args.mesh.as_deref())?;
    let kind = kinds().by_name("MeshGateway").expect("there are gateways");
    let target = ResourceId { kind, mesh: &mesh, name: &args.name };
    let found = match session.client()?.inspect(target, "dataplanes").await {
        Err(error) if error.refusal().is_some_and(Refusal::is_not_found) => anyhow::bail!("{}", absent(target)),
        other => other?,
    };
    let items = found["items"].as_array().into_iter().flatten();
    let names: Vec<&str> = items.filter_map(|item| item["dataplane"]["name"].as_str()).collect();
    if names.is_empty() && args.output == Output::Table {
        session.terminal.remark(&format!("no proxies serve MeshGateway {:?}", args.name));
        return Ok(Exit::Fine);
    }
    session.terminal.data(&args.output.show(&found, || names.join("\n"))?)?;
    Ok(Exit::Fine)
}

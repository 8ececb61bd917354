//! `kodiak graph`: who may call whom, and by which policy.

mod drawing;
#[cfg(test)]
mod tests;

use clap::ValueEnum;
use kodiak_inspection::calls::{CallGraph, Calls, Edge, EdgeReason, Names};
use kodiak_model::{Cancellation, yaml};
use kodiak_rules::Shadow;
use kodiak_terminal::{Exit, Table};

use crate::documents::FileArgs;
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak graph
  kodiak graph --client web                          destinations that web may call
  kodiak graph --destination backend -o json         callers of backend
  kodiak graph -o dot | dot -Tsvg > graph.svg
  kodiak graph -f mesh/ -o mermaid                   from files, without a control plane

Clients are grouped by service: the value of kuma.io/service, else the label kuma.io/workload, else the name of the
Dataplane. A service of which only some Dataplanes may call is shown as service/dataplane.

  REASON   policy that allows the calls, at one inbound of the destination at least; open: no permission is enforced
           there; unknown: nothing speaks against it")]
pub struct Args {
    #[command(flatten)]
    files: FileArgs,

    /// Mesh [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// Zone of the control plane, with -f
    #[arg(long, default_value = "default")]
    zone: String,

    /// Show only calls of this service or Dataplane
    #[arg(long, value_name = "NAME")]
    client: Option<String>,

    /// Show only calls to this kuma.io/service, or to this resource (name or KRI)
    #[arg(long, value_name = "NAME")]
    destination: Option<String>,

    /// Include shadow policies
    #[arg(long)]
    shadow: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Human-readable
    Table,
    Yaml,
    Json,
    /// Graphviz
    Dot,
    /// Mermaid flowchart
    Mermaid,
}

pub async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let (client, destination) = (args.client.as_deref(), args.destination.as_deref());
    let graph: CallGraph = if args.files.is_empty() {
        let mesh = session.mesh(args.mesh.as_deref())?;
        let mut query: Vec<(&str, &str)> = Vec::new();
        query.extend(client.map(|client| ("client", client)));
        query.extend(destination.map(|destination| ("destination", destination)));
        query.extend(args.shadow.then_some(("shadow", "true")));
        session.client()?.calls(&mesh, "_graph", &query).await?
    } else {
        let mesh = args.mesh.as_deref().unwrap_or("default");
        let Some(world) = args.files.world(mesh, &args.zone, session.terminal)? else { return Ok(Exit::Refused) };
        let never = Cancellation::never();
        let shadow = if args.shadow { Shadow::Included } else { Shadow::Ignored };
        let made = CallGraph::of(&Calls::of(&world, mesh, shadow, &never)?, client, destination, &never);
        made.map_err(|error| anyhow::anyhow!("{error}"))?
    };
    let text = match args.output {
        Output::Table => table(&graph),
        Output::Yaml => yaml::to_string(&serde_json::to_value(&graph)?).trim_end().to_owned(),
        Output::Json => serde_json::to_string_pretty(&graph)?,
        Output::Dot => drawing::dot(&graph),
        Output::Mermaid => drawing::mermaid(&graph),
    };
    session.terminal.data(text.trim_end())?;
    Ok(Exit::Fine)
}

fn table(graph: &CallGraph) -> String {
    let CallGraph { mesh, clients, destinations, edges } = graph;
    let summary = format!("Mesh {mesh}: {clients} clients by service, {destinations} destinations");
    if edges.is_empty() {
        return format!("No call is allowed\n\n{summary}");
    }
    let mut table = Table::new(["CLIENTS", "DESTINATIONS", "REASON"]);
    for Edge { clients, destinations, reason } in edges {
        table.row([names(clients), names(destinations), reason_text(reason)]);
    }
    format!("{}\n\n{summary}", table.show())
}

/// Names of a set to show on a line.
const MOST_NAMES: usize = 5;

pub(crate) fn names(names: &Names) -> String {
    match names {
        Names::All => "all".to_owned(),
        Names::AllExcept(some) => format!("all except {}", list(some)),
        Names::Only(some) => list(some),
    }
}

fn list(names: &[String]) -> String {
    let shown = names.get(..MOST_NAMES).unwrap_or(names).join(", ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn reason_text(reason: &EdgeReason) -> String {
    match reason {
        EdgeReason::Allowed { policy } => policy.clone(),
        EdgeReason::Open => "open".to_owned(),
        EdgeReason::Unknown => "unknown".to_owned(),
    }
}

//! `kodiak inspect dataplane`.

use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use kodiak_client::{Client, ClientError, Target};
use kodiak_kinds::kinds;
use kodiak_model::yaml;
use kodiak_terminal::{Exit, usage};
use serde_json::{Value, json};

use super::{changes, references, rules, summary};
use crate::commands::get::absent;
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak inspect dataplane web-1                            is it well, and if not, why
  kodiak inspect dataplane web-1 --type config              what the control plane has for it
  kodiak inspect dataplane web-1 --type config-dump         what its Envoy runs on
  kodiak inspect dataplane web-1 --type policies -m demo    what is in force there, and who says so
  kodiak inspect dataplane web-1 --type references          what its reachable lists and outbounds mean
  kodiak inspect dataplane web-1 --type config --shadow --include diff
                                                            what policies that are only tried out would change
  kodiak inspect dataplane web-1 --type stats | grep rbac")]
pub(crate) struct Args {
    /// The name of the Dataplane
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,

    /// The mesh to look in [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// What to look at; how it stands when missing
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    what: Option<What>,

    /// With policies that are only tried out
    #[arg(long)]
    shadow: bool,

    /// What else to show of the configuration
    #[arg(long, value_enum, value_name = "WHAT")]
    include: Option<Include>,

    /// With endpoints
    #[arg(long)]
    include_eds: bool,

    /// How to print it [default: yaml for configuration, table for changes and all else]
    #[arg(short, long, value_enum)]
    output: Option<Output>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// What the control plane has for it
    Config,
    /// What its Envoy runs on, as Envoy tells it
    ConfigDump,
    /// Where its Envoy sends calls, as Envoy tells it
    Clusters,
    /// What its Envoy counts, as Envoy tells it
    Stats,
    /// What policies say in the end: to its callers, about its destinations and to itself
    Policies,
    /// What its reachable lists and outbounds mean now, and what is wrong with them
    References,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Include {
    /// What is different with policies that are only tried out
    Diff,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Table,
    Yaml,
    Json,
}

pub(crate) async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    if args.shadow && args.what != Some(What::Config) {
        return Err(usage("--shadow goes with --type config"));
    }
    if args.include.is_some() && !args.shadow {
        return Err(usage("--include diff goes with --type config --shadow"));
    }
    if args.include_eds && args.what != Some(What::ConfigDump) {
        return Err(usage("--include-eds goes with --type config-dump"));
    }
    let client = session.client()?;
    let mesh = session.mesh(args.mesh.as_deref())?;
    let kind = kinds().by_name("Dataplane").expect("proxies have Dataplanes");
    let target = Target { kind, mesh: &mesh, name: &args.name };
    let text = match args.what {
        None => standing(&client, target, args.output).await?,
        Some(What::Policies) => {
            let found = client.inspect(target, "_rules").await.map_err(|error| not_there(error, target))?;
            match args.output {
                None | Some(Output::Table) => rules::text(&found),
                Some(output) => document(output, &found)?,
            }
        }
        Some(What::References) => {
            let found = client.inspect(target, "_references").await.map_err(|error| not_there(error, target))?;
            match args.output {
                None | Some(Output::Table) => references::text(&found),
                Some(output) => document(output, &found)?,
            }
        }
        Some(What::Config) if args.include == Some(Include::Diff) => {
            let path = "_config?shadow=true&include=diff";
            let found = client.inspect(target, path).await.map_err(|error| not_there(error, target))?;
            match args.output {
                None | Some(Output::Table) => changes::text(&found),
                Some(output) => document(output, &found)?,
            }
        }
        Some(What::Config) => {
            let path = if args.shadow { "_config?shadow=true" } else { "_config" };
            configuration(&client, target, path, args.output).await?
        }
        Some(What::ConfigDump) => {
            let path = if args.include_eds { "xds?include_eds=true" } else { "xds" };
            configuration(&client, target, path, args.output).await?
        }
        Some(What::Clusters) => told(&client, target, "clusters", args.output).await?,
        Some(What::Stats) => told(&client, target, "stats", args.output).await?,
    };
    session.terminal.data(text.trim_end())?;
    Ok(Exit::Fine)
}

async fn standing(client: &Client, target: Target<'_>, output: Option<Output>) -> anyhow::Result<String> {
    let overview = client.get_overview(target).await?;
    let overview = overview.ok_or_else(|| anyhow::anyhow!("{}", absent(target)))?;
    // Counters are in the overview; without more the rest is still worth showing.
    let (status, why_not) = match client.inspect(target, "_status").await {
        Ok(status) => (Some(status), None),
        Err(ClientError::Refused(refusal)) => (None, Some(refusal.detail)),
        Err(error) => return Err(error.into()),
    };
    let references = match client.inspect(target, "_references").await {
        Ok(found) => found["references"].clone(),
        // Other control planes have none.
        Err(ClientError::Refused(_)) => Value::Null,
        Err(error) => return Err(error.into()),
    };
    match output {
        None | Some(Output::Table) => {
            let mut text = summary::text(&overview, status.as_ref(), why_not.as_deref());
            text.push_str(&references::hint(&references));
            Ok(text)
        }
        Some(output) => document(output, &json!({ "overview": overview, "status": status, "references": references })),
    }
}

async fn configuration(
    client: &Client,
    target: Target<'_>,
    path: &str,
    output: Option<Output>,
) -> anyhow::Result<String> {
    let output = output.unwrap_or(Output::Yaml);
    if output == Output::Table {
        return Err(usage("configuration is no table; print it with -o yaml or -o json"));
    }
    let found = client.inspect(target, path).await.map_err(|error| not_there(error, target))?;
    document(output, &found)
}

/// As Envoy writes it, or made from its JSON.
async fn told(client: &Client, target: Target<'_>, what: &str, output: Option<Output>) -> anyhow::Result<String> {
    let not_there = |error| not_there(error, target);
    match output {
        None | Some(Output::Table) => client.inspect_text(target, what).await.map_err(not_there),
        Some(output) => {
            let found = client.inspect(target, &format!("{what}?format=json")).await.map_err(not_there)?;
            document(output, &found)
        }
    }
}

/// A proxy that never came is told apart from a Dataplane that is not there.
fn not_there(error: ClientError, target: Target<'_>) -> anyhow::Error {
    match error.refusal().filter(|refusal| refusal.is_not_found()) {
        Some(refusal) if refusal.title.contains("DataplaneInsight") => {
            anyhow::anyhow!("the proxy {:?} was never connected; start it with `kodiak dp run`", target.name)
        }
        Some(_) => anyhow::anyhow!("{}", absent(target)),
        None => error.into(),
    }
}

fn document(output: Output, value: &Value) -> anyhow::Result<String> {
    match output {
        Output::Json => Ok(serde_json::to_string_pretty(value)?),
        Output::Yaml | Output::Table => Ok(yaml::to_string(value)),
    }
}

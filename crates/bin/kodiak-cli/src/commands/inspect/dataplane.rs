//! `kodiak inspect dataplane`.

use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use kodiak_client::{Client, ClientError, ResourceId};
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
  kodiak inspect dataplane web-1                            status, and the reasons if it is not ready
  kodiak inspect dataplane web-1 --type config              generated Envoy configuration
  kodiak inspect dataplane web-1 --type config-dump         Envoy's config dump
  kodiak inspect dataplane web-1 --type policies -m demo    merged configuration, and the policies it comes from
  kodiak inspect dataplane web-1 --type references          resolved reachableServices, reachableBackends and outbounds
  kodiak inspect dataplane web-1 --type config --shadow --include diff
                                                            changes that shadow policies would make
  kodiak inspect dataplane web-1 --type stats | grep rbac   requests that permissions allowed and denied

Envoy applies permissions to new connections: counters such as rbac.shadow_denied show nothing for callers that keep
connections from before a change.")]
pub(crate) struct Args {
    /// Name of the Dataplane
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,

    /// Mesh [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// View to show [default: a summary of the status]
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    view: Option<View>,

    /// Include shadow policies
    #[arg(long)]
    shadow: bool,

    /// Additional output for --type config
    #[arg(long, value_enum, value_name = "WHAT")]
    include: Option<Include>,

    /// Include endpoints
    #[arg(long)]
    include_eds: bool,

    /// Output format [default: yaml for configuration, else table]
    #[arg(short, long, value_enum)]
    output: Option<Output>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum View {
    /// Envoy configuration that the control plane generated
    Config,
    /// Config dump of its Envoy
    ConfigDump,
    /// Clusters and endpoints of its Envoy
    Clusters,
    /// Statistics of its Envoy
    Stats,
    /// Merged policy configuration: inbound, outbound and for the proxy itself
    Policies,
    /// Resolved reachableServices, reachableBackends and outbounds, with their problems
    References,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Include {
    /// Difference that shadow policies would make
    Diff,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Human-readable
    Table,
    Yaml,
    Json,
}

pub(crate) async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    if args.shadow && args.view != Some(View::Config) {
        return Err(usage("--shadow requires --type config"));
    }
    if args.include.is_some() && !args.shadow {
        return Err(usage("--include diff requires --type config --shadow"));
    }
    if args.include_eds && args.view != Some(View::ConfigDump) {
        return Err(usage("--include-eds requires --type config-dump"));
    }
    let client = session.client()?;
    let mesh = session.mesh(args.mesh.as_deref())?;
    let kind = kinds().by_name("Dataplane").expect("proxies have Dataplanes");
    let target = ResourceId { kind, mesh: &mesh, name: &args.name };
    let text = match args.view {
        None => standing(&client, target, args.output).await?,
        Some(View::Policies) => {
            let found = client.inspect(target, "_rules").await.map_err(|error| not_there(error, target))?;
            match args.output {
                None | Some(Output::Table) => rules::text(&found),
                Some(output) => document(output, &found)?,
            }
        }
        Some(View::References) => {
            let found = client.inspect(target, "_references").await.map_err(|error| not_there(error, target))?;
            match args.output {
                None | Some(Output::Table) => references::text(&found),
                Some(output) => document(output, &found)?,
            }
        }
        Some(View::Config) if args.include == Some(Include::Diff) => {
            let path = "_config?shadow=true&include=diff";
            let found = client.inspect(target, path).await.map_err(|error| not_there(error, target))?;
            match args.output {
                None | Some(Output::Table) => changes::text(&found),
                Some(output) => document(output, &found)?,
            }
        }
        Some(View::Config) => {
            let path = if args.shadow { "_config?shadow=true" } else { "_config" };
            configuration(&client, target, path, args.output).await?
        }
        Some(View::ConfigDump) => {
            let path = if args.include_eds { "xds?include_eds=true" } else { "xds" };
            configuration(&client, target, path, args.output).await?
        }
        Some(View::Clusters) => told(&client, target, "clusters", args.output).await?,
        Some(View::Stats) => told(&client, target, "stats", args.output).await?,
    };
    session.terminal.data(text.trim_end())?;
    Ok(Exit::Fine)
}

async fn standing(client: &Client, target: ResourceId<'_>, output: Option<Output>) -> anyhow::Result<String> {
    let overview = client.get_overview(target).await?;
    let overview = overview.ok_or_else(|| anyhow::anyhow!("{}", absent(target)))?;
    // Without the status, the counters of the overview are still shown.
    let (status, why_not) = match client.inspect(target, "_status").await {
        Ok(status) => (Some(status), None),
        Err(ClientError::Refused(refusal)) => (None, Some(refusal.detail)),
        Err(error) => return Err(error.into()),
    };
    let references = match client.inspect(target, "_references").await {
        Ok(found) => found["references"].clone(),
        // Kuma has none.
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
    target: ResourceId<'_>,
    path: &str,
    output: Option<Output>,
) -> anyhow::Result<String> {
    let output = output.unwrap_or(Output::Yaml);
    if output == Output::Table {
        return Err(usage("-o table is not available for configuration; use -o yaml or -o json"));
    }
    let found = client.inspect(target, path).await.map_err(|error| not_there(error, target))?;
    document(output, &found)
}

/// Text of Envoy, or YAML of its JSON.
async fn told(client: &Client, target: ResourceId<'_>, what: &str, output: Option<Output>) -> anyhow::Result<String> {
    let not_there = |error| not_there(error, target);
    match output {
        None | Some(Output::Table) => client.inspect_text(target, what).await.map_err(not_there),
        Some(output) => {
            let found = client.inspect(target, &format!("{what}?format=json")).await.map_err(not_there)?;
            document(output, &found)
        }
    }
}

/// Tells a proxy that never connected from a Dataplane that does not exist.
fn not_there(error: ClientError, target: ResourceId<'_>) -> anyhow::Error {
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

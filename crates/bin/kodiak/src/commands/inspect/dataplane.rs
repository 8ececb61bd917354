//! `kodiak inspect dataplane`.

use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use kodiak_kinds::kinds;
use kodiak_model::yaml;
use serde_json::{Value, json};

use super::summary;
use crate::client::{Client, ClientError, Target};
use crate::commands::get::absent;
use crate::exit::{Exit, usage};
use crate::report::Table;
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak inspect dataplane web-1                            is it well, and if not, why
  kodiak inspect dataplane web-1 --type config              what the control plane has for it
  kodiak inspect dataplane web-1 --type config-dump         what its Envoy runs on
  kodiak inspect dataplane web-1 --type policies -m demo    who may call it, and who says so
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

    /// With endpoints
    #[arg(long)]
    include_eds: bool,

    /// How to print it [default: yaml for configuration, table for all else]
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
    /// The policies in force at each of its inbounds, weakest first
    Policies,
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
            let found = client.inspect(target, "_matches").await.map_err(|error| not_there(error, target))?;
            match args.output {
                None | Some(Output::Table) => policies(&found),
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
    match output {
        None | Some(Output::Table) => Ok(summary::text(&overview, status.as_ref(), why_not.as_deref())),
        Some(output) => document(output, &json!({ "overview": overview, "status": status })),
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

/// A row for each policy, weakest first.
fn policies(found: &Value) -> String {
    let list = |value: &Value, field: &str| value.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut table = Table::new(["INBOUND", "PORT", "ORDER", "KIND", "NAME", "TARGET"]);
    for one in list(found, "inbounds") {
        let inbound = [text(&one["inbound"]["name"]), one["inbound"]["port"].to_string()];
        let policies = list(&one, "policies");
        if policies.is_empty() {
            table.row(inbound.iter().cloned().chain(["-"; 4].map(str::to_owned)));
        }
        for policy in policies {
            for (order, origin) in list(&policy, "origins").iter().enumerate() {
                let target = origin.pointer("/targetRef/kind").map_or_else(|| "Mesh".to_owned(), text);
                let rest = [(order + 1).to_string(), text(&policy["kind"]), text(&origin["name"]), target];
                table.row(inbound.iter().cloned().chain(rest));
            }
        }
    }
    table.show()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn policies_are_rows_in_the_order_in_which_they_count() {
        let origin = |name: &str, target: Value| json!({ "kri": "k", "name": name, "targetRef": target });
        let origins = json!([origin("all", Value::Null), origin("web", json!({ "kind": "Dataplane" }))]);
        let found = json!({ "inbounds": [
            { "inbound": { "name": "8080", "port": 8080, "tags": {} },
              "policies": [{ "kind": "MeshTrafficPermission", "origins": origins }] },
            { "inbound": { "name": "metrics", "port": 9090, "tags": {} }, "policies": [] },
        ] });
        expect![[r#"
            INBOUND   PORT   ORDER   KIND                    NAME   TARGET
            8080      8080   1       MeshTrafficPermission   all    Mesh
            8080      8080   2       MeshTrafficPermission   web    Dataplane
            metrics   9090   -       -                       -      -"#]]
        .assert_eq(&policies(&found));
    }
}

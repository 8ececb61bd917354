//! `kodiak get`: resources as tables, or as YAML and JSON of the API.

mod identities;
mod policies;

use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use jiff::Timestamp;
use kodiak_client::{Client, ListQuery, Page, PageRange, Refusal, ResourceId};
use kodiak_kinds::{Kind, kinds};
use kodiak_model::{Scope, yaml};
use kodiak_terminal::{Exit, Table, Terminal, usage};
use serde_json::{Value, json};

use crate::documents::unknown_kind;
use crate::report::{Layout, TableOpts};
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak get meshes
  kodiak get dataplanes -A -o wide
  kodiak get meshtimeout slow -m demo -o yaml
  kodiak get mtp --filter kuma.io/origin=zone --name payments
  kodiak get policies                            status of all policies: which proxies each affects
  kodiak get identities                          certificates of all proxies: issuer, SPIFFE ID, expiry
  kodiak get kinds                               all kinds, with path and short name")]
pub struct Args {
    /// Kind in any spelling (meshtimeout, MeshTimeouts, mt), `policies` for the status of all policies,
    /// `identities` for the certificates of all proxies, or `kinds` for the list of kinds
    kind: String,

    /// Name of one resource
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,

    /// Mesh [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// All meshes
    #[arg(short = 'A', long, conflicts_with_all = ["mesh", "name"])]
    all_meshes: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,

    /// Maximum number of resources
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "name")]
    size: Option<u32>,

    /// Number of resources to skip
    #[arg(long, conflicts_with = "name")]
    offset: Option<u64>,

    /// Only resources with this label. May be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = kodiak_terminal::key_value, conflicts_with = "name")]
    filter: Vec<(String, String)>,

    /// Only resources with this text in their name
    #[arg(long = "name", value_name = "PART", conflicts_with = "name")]
    name_part: Option<String>,
}

impl Args {
    /// Arguments of `kodiak get policies`.
    pub(crate) fn of_policies(mesh: Option<String>, output: Output) -> Self {
        Self {
            kind: "policies".to_owned(),
            name: None,
            mesh,
            all_meshes: false,
            output,
            size: None,
            offset: None,
            filter: Vec::new(),
            name_part: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    /// Table with labels, versions and KRIs
    Wide,
    Yaml,
    Json,
}

pub async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    if args.kind.eq_ignore_ascii_case("kinds") {
        print_kinds(args.output, session.terminal)?;
        return Ok(Exit::Fine);
    }
    if args.kind.eq_ignore_ascii_case("policies") {
        return policies::run(args, session).await;
    }
    if args.kind.eq_ignore_ascii_case("identities") {
        return identities::run(args, session).await;
    }
    let kind = kinds().by_arg(&args.kind).ok_or_else(|| usage(unknown_kind(&args.kind)))?;
    if args.all_meshes && kind.scope == Scope::Global {
        session.terminal.remark(&format!("Warning: {} has global scope; -A has no effect", kind.name));
    }
    let client = session.client()?;
    let mesh = session.mesh(args.mesh.as_deref())?;
    match &args.name {
        Some(name) => get_one(args, session, &client, ResourceId { kind, mesh: &mesh, name }).await,
        None => get_list(args, session, &client, kind, &mesh).await,
    }
}

async fn get_one(args: &Args, session: &Session, client: &Client, target: ResourceId<'_>) -> anyhow::Result<Exit> {
    let found = if wants_overview(args.output, target.kind) {
        client.get_overview(target).await?
    } else {
        client.get(target).await?
    };
    match found {
        Some(item) => {
            print_one(args.output, target.kind, item, session.terminal)?;
            Ok(Exit::Fine)
        }
        None => anyhow::bail!("{}", absent(target)),
    }
}

/// `no MeshTimeout with name "x" in mesh "default"`
pub(crate) fn absent(target: ResourceId<'_>) -> String {
    let ResourceId { kind, mesh, name } = target;
    match kind.scope {
        Scope::Mesh => format!("no {} with name {name:?} in mesh {mesh:?}", kind.name),
        Scope::Global => format!("no {} with name {name:?}", kind.name),
    }
}

async fn get_list(
    args: &Args,
    session: &Session,
    client: &Client,
    kind: &'static Kind,
    mesh: &str,
) -> anyhow::Result<Exit> {
    let query = ListQuery {
        kind,
        mesh: (!args.all_meshes).then_some(mesh),
        overview: wants_overview(args.output, kind),
        name: args.name_part.as_deref(),
        labels: &args.filter,
    };
    let page = if args.size.is_some() || args.offset.is_some() {
        client.page(&query, PageRange { size: args.size, offset: args.offset.unwrap_or(0) }).await
    } else {
        client.list_all(&query, |_, _| ()).await.map(Page::whole)
    };
    let page = match page {
        Ok(page) => page,
        Err(error) if kind.scope == Scope::Mesh && error.refusal().is_some_and(Refusal::is_not_found) => {
            anyhow::bail!("no Mesh with name {mesh:?}; `kodiak get meshes` lists them")
        }
        Err(error) => return Err(error.into()),
    };
    let next = page.next;
    print_list(args.output, kind, page, &query, session.terminal)?;
    if let Some(next) = next {
        session.terminal.remark(&format!("Rerun command with --offset={next} argument to retrieve more resources"));
    }
    Ok(Exit::Fine)
}

/// Tables of proxies include insights; YAML and JSON can be applied again.
fn wants_overview(output: Output, kind: &Kind) -> bool {
    match output {
        Output::Table | Output::Wide => Layout::of(kind).needs_overview(),
        Output::Yaml | Output::Json => false,
    }
}

fn print_one(output: Output, kind: &Kind, item: Value, terminal: Terminal) -> anyhow::Result<()> {
    let text = match output {
        Output::Table | Output::Wide => return Ok(terminal.result(&table(output, kind, &[item]))?),
        Output::Yaml => yaml::to_string(&item).trim_end().to_owned(),
        Output::Json => serde_json::to_string_pretty(&item)?,
    };
    Ok(terminal.data(&text)?)
}

fn print_list(
    output: Output,
    kind: &Kind,
    page: Page,
    query: &ListQuery<'_>,
    terminal: Terminal,
) -> anyhow::Result<()> {
    let Page { total, items, next: _, next_url } = page;
    let text = match output {
        Output::Table | Output::Wide if items.is_empty() => {
            let place = match (kind.scope, query.mesh) {
                (Scope::Mesh, Some(mesh)) => format!(" in mesh {mesh:?}"),
                (Scope::Mesh, None) | (Scope::Global, _) => String::new(),
            };
            terminal.remark(&format!("no {} found{place}", kind.name));
            return Ok(());
        }
        Output::Table | Output::Wide => return Ok(terminal.result(&table(output, kind, &items))?),
        Output::Yaml if items.is_empty() => return Ok(()),
        Output::Yaml => {
            let documents: Vec<_> = items.iter().map(yaml::to_string).collect();
            documents.join("---\n").trim_end().to_owned()
        }
        Output::Json => serde_json::to_string_pretty(&json!({ "total": total, "items": items, "next": next_url }))?,
    };
    Ok(terminal.data(&text)?)
}

fn table(output: Output, kind: &Kind, items: &[Value]) -> String {
    let opts = TableOpts { wide: output == Output::Wide, now: Timestamp::now() };
    Layout::of(kind).table(items, opts)
}

fn print_kinds(output: Output, terminal: Terminal) -> anyhow::Result<()> {
    let rows = kinds().iter().map(|kind| {
        let scope = match kind.scope {
            Scope::Mesh => "Mesh",
            Scope::Global => "Global",
        };
        (kind.name, kind.path, kind.short.unwrap_or_default(), scope, kind.is_policy())
    });
    let text = match output {
        Output::Table | Output::Wide => {
            let mut table = Table::new(["NAME", "PATH", "SHORT", "SCOPE", "POLICY"]);
            for (name, path, short, scope, policy) in rows {
                table.row([name, path, short, scope, if policy { "yes" } else { "no" }].map(str::to_owned));
            }
            table.show()
        }
        Output::Yaml | Output::Json => {
            let all: Value = rows
                .map(|(name, path, short, scope, policy)| {
                    json!({ "name": name, "path": path, "short": short, "scope": scope, "policy": policy })
                })
                .collect();
            if output == Output::Yaml {
                yaml::to_string(&all).trim_end().to_owned()
            } else {
                serde_json::to_string_pretty(&all)?
            }
        }
    };
    Ok(terminal.result(&text)?)
}

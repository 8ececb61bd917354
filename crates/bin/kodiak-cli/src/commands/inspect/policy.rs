//! `kodiak inspect policy`.

use std::fmt::Write as _;

use clap::builder::NonEmptyStringValueParser;
use kodiak_client::{Client, Page, Refusal, ResourceId};
use kodiak_kinds::{Kind, kinds};
use kodiak_terminal::{Exit, printable, usage};
use serde_json::{Value, json};

use crate::commands::get::{self, absent};
use crate::documents::unknown_kind;
use crate::report::{Output, policy_reason, policy_state, policy_target};
use crate::session::Session;

/// Proxies to name; further ones are counted.
const MOST_PROXIES: usize = 20;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak inspect policy slow                         if the name is unique
  kodiak inspect policy meshtimeout/slow -m demo
  kodiak inspect policy slow --kind MeshTimeout -o json")]
pub(crate) struct Args {
    /// Name of the policy, or kind and name: meshtimeout/slow
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    policy: String,

    /// Kind in any spelling (meshtimeout, MeshTimeouts, mt)
    #[arg(long)]
    kind: Option<String>,

    /// Mesh [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// Arguments of `kodiak inspect meshtimeout`, for every kind of policies.
#[derive(clap::Args)]
pub(crate) struct KindArgs {
    /// Name of the policy
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,

    /// Mesh [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

impl KindArgs {
    pub(crate) fn of(self, kind: &'static Kind) -> Args {
        let Self { name, mesh, output } = self;
        Args { policy: name, kind: Some(kind.name.to_owned()), mesh, output }
    }
}

/// Arguments of `kodiak inspect policies`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak inspect policies
  kodiak inspect policies -m demo -o json")]
pub(crate) struct ListArgs {
    /// Mesh [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = get::Output::Table)]
    output: get::Output,
}

pub(crate) async fn list(args: ListArgs, session: &Session) -> anyhow::Result<Exit> {
    let ListArgs { mesh, output } = args;
    get::run(&get::Args::of_policies(mesh, output), session).await
}

pub(crate) async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let (kind, name) = match (args.policy.split_once('/'), args.kind.as_deref()) {
        (Some(_), Some(_)) => return Err(usage("the kind is given twice: before the name, and with --kind")),
        (Some((kind, name)), None) => (Some(policy_kind(kind)?), name),
        (None, kind) => (kind.map(policy_kind).transpose()?, args.policy.as_str()),
    };
    let client = session.client()?;
    let mesh = session.mesh(args.mesh.as_deref())?;
    let kind = match kind {
        Some(kind) => kind,
        None => only_kind(&client, &mesh, name).await?,
    };
    let target = ResourceId { kind, mesh: &mesh, name };
    let status = match client.inspect(target, "_status").await {
        Err(error) if error.refusal().is_some_and(Refusal::is_not_found) => anyhow::bail!("{}", absent(target)),
        other => other?,
    };
    let selected = client.inspect_page(target, &format!("_resources/dataplanes?size={MOST_PROXIES}")).await?;
    let shown = args.output.show(&document(&status, &selected), || text(&status, &selected))?;
    session.terminal.data(&shown)?;
    Ok(Exit::Fine)
}

fn policy_kind(typed: &str) -> anyhow::Result<&'static Kind> {
    let kind = kinds().by_arg(typed).ok_or_else(|| usage(unknown_kind(typed)))?;
    if kind.is_policy() { Ok(kind) } else { Err(usage(format!("{} is not a kind of policies", kind.name))) }
}

/// Kind of the only policy with this name.
async fn only_kind(client: &Client, mesh: &str, name: &str) -> anyhow::Result<&'static Kind> {
    let all = match client.policies(mesh, Some(name)).await {
        Err(error) if error.refusal().is_some_and(Refusal::is_not_found) => {
            anyhow::bail!("no Mesh with name {mesh:?}; `kodiak get meshes` lists them")
        }
        other => other?,
    };
    let named = all.iter().filter(|status| status["name"] == name);
    let candidates: Vec<&'static Kind> = named.filter_map(|status| kinds().by_name(status["type"].as_str()?)).collect();
    match candidates.as_slice() {
        [] => anyhow::bail!("no policy with name {name:?} in mesh {mesh:?}; `kodiak get policies` lists them"),
        [only] => Ok(only),
        several => {
            let mut text = format!("{} policies have the name {name:?}; pass the kind:", several.len());
            for kind in several {
                let _ = write!(text, "\n  kodiak inspect policy {}/{name}", kind.name.to_ascii_lowercase());
            }
            Err(usage(text))
        }
    }
}

fn names(selected: &Page) -> Vec<&str> {
    selected.items.iter().filter_map(|proxy| proxy["name"].as_str()).collect()
}

fn document(status: &Value, selected: &Page) -> Value {
    json!({ "status": status, "selected": { "total": selected.total, "first": names(selected) } })
}

fn text(status: &Value, selected: &Page) -> String {
    let field = |name: &str| status[name].as_str().unwrap_or_default();
    let lines = [
        ("Policy", format!("{} {} in mesh {}", field("type"), field("name"), field("mesh"))),
        ("KRI", field("kri").to_owned()),
        ("Target", policy_target(&status["targetRef"])),
        ("State", format!("{}, on {} of {} proxies", policy_state(status), status["proxies"], status["proxiesTotal"])),
    ];
    let mut text = String::new();
    for (name, value) in lines {
        let _ = writeln!(text, "{:<10}{}", format!("{name}:"), printable(&value).replace('\n', " "));
    }
    let reasons = status["reasons"].as_array().map_or(&[][..], Vec::as_slice);
    if !reasons.is_empty() {
        let _ = writeln!(text, "\nNot in force because:");
        for reason in reasons {
            let _ = writeln!(text, "  {}", printable(&policy_reason(reason)).replace('\n', " "));
        }
    }
    let names = names(selected);
    match usize::try_from(selected.total).unwrap_or(usize::MAX) {
        0 => text.push_str("\nIt selects no proxies.\n"),
        total => {
            let _ = writeln!(text, "\nIt selects {total} {}:", if total == 1 { "proxy" } else { "proxies" });
            for name in &names {
                let _ = writeln!(text, "  {}", printable(name));
            }
            if total > names.len() {
                let _ = writeln!(text, "  and {} more", total - names.len());
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn shows_affected_proxies_and_reasons() {
        let status = json!({
            "type": "MeshTimeout", "mesh": "default", "name": "slow", "kri": "kri_mt_default___slow_",
            "targetRef": { "kind": "Dataplane", "labels": { "app": "web" } },
            "state": "Partly", "proxies": 1, "proxiesTotal": 40,
            "reasons": [
                { "reason": "Overridden", "message": "on 1 of 2 proxies", "policies": ["kri_mt_default___fast_"] },
                { "reason": "Unresolved", "message": "there is no x", "path": "spec.to[0]" },
            ],
        });
        let mut selected = Page::whole(vec![json!({ "name": "web-1" }), json!({ "name": "web-2" })]);
        selected.total = 30;
        expect![[r#"
            Policy:   MeshTimeout slow in mesh default
            KRI:      kri_mt_default___slow_
            Target:   Dataplane app=web
            State:    partly, on 1 of 40 proxies

            Not in force because:
              on 1 of 2 proxies (Overridden) [kri_mt_default___fast_]
              spec.to[0]: there is no x (Unresolved)

            It selects 30 proxies:
              web-1
              web-2
              and 28 more
        "#]]
        .assert_eq(&text(&status, &selected));
    }

    #[test]
    fn rejects_kinds_that_are_no_policies() {
        assert_eq!(policy_kind("mt").unwrap().name, "MeshTimeout");
        assert!(policy_kind("dataplane").unwrap_err().to_string().contains("not a kind of policies"));
        assert!(policy_kind("meshtimout").unwrap_err().to_string().contains("did you mean MeshTimeout?"));
    }
}

//! `kodiak get policies`: status of all policies of all kinds.

use kodiak_client::{Client, ListQuery, Refusal};
use kodiak_kinds::kinds;
use kodiak_model::yaml;
use kodiak_terminal::{Exit, Table, usage};
use serde_json::{Value, json};

use super::{Args, Output};
use crate::report::{policy_reason, policy_state, policy_target, short_reason};
use crate::session::Session;

pub(super) async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    if let Some(name) = &args.name {
        return Err(usage(format!("`kodiak inspect policy {name}` shows the status of one policy")));
    }
    if args.size.is_some() || args.offset.is_some() || !args.filter.is_empty() {
        return Err(usage("`kodiak get policies` has no pages; filter with --name"));
    }
    let client = session.client()?;
    let meshes = if args.all_meshes { all_meshes(&client).await? } else { vec![session.mesh(args.mesh.as_deref())?] };
    let mut all = Vec::new();
    for mesh in &meshes {
        all.extend(of_mesh(&client, mesh, args.name_part.as_deref()).await?);
    }
    let text = match args.output {
        Output::Table | Output::Wide if all.is_empty() => {
            let place = if args.all_meshes { String::new() } else { format!(" in mesh {:?}", meshes.join(", ")) };
            session.terminal.remark(&format!("no policies found{place}"));
            return Ok(Exit::Fine);
        }
        Output::Table | Output::Wide => {
            session.terminal.result(&table(&all, args.all_meshes, args.output == Output::Wide))?;
            return Ok(Exit::Fine);
        }
        Output::Yaml => yaml::to_string(&Value::Array(all)).trim_end().to_owned(),
        Output::Json => serde_json::to_string_pretty(&json!({ "total": all.len(), "items": all }))?,
    };
    session.terminal.data(&text)?;
    Ok(Exit::Fine)
}

pub(super) async fn all_meshes(client: &Client) -> anyhow::Result<Vec<String>> {
    let kind = kinds().by_name("Mesh").expect("there are meshes");
    let meshes = client.list_all(&ListQuery::all_of(kind, None), |_, _| ()).await?;
    Ok(meshes.iter().filter_map(|mesh| mesh["name"].as_str()).map(str::to_owned).collect())
}

/// Status of the policies of a mesh.
async fn of_mesh(client: &Client, mesh: &str, part: Option<&str>) -> anyhow::Result<Vec<Value>> {
    client.policies(mesh, part).await.map_err(|error| {
        if error.refusal().is_some_and(Refusal::is_not_found) {
            return anyhow::anyhow!("no Mesh with name {mesh:?}; `kodiak get meshes` lists them");
        }
        error.into()
    })
}

fn table(all: &[Value], with_mesh: bool, wide: bool) -> String {
    let mut headers = vec!["KIND", "NAME", "TARGET", "STATE", "PROXIES", "REASON"];
    if with_mesh {
        headers.insert(0, "MESH");
    }
    if wide {
        headers.push("KRI");
    }
    let mut table = Table::new(headers);
    for status in all {
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        let reasons = status["reasons"].as_array().into_iter().flatten().map(policy_reason);
        let reason = match reasons.collect::<Vec<_>>() {
            reasons if wide && !reasons.is_empty() => reasons.join("; "),
            _ => short_reason(status),
        };
        let mut row = vec![
            text("type"),
            text("name"),
            policy_target(&status["targetRef"]),
            policy_state(status).to_owned(),
            format!("{}/{}", status["proxies"], status["proxiesTotal"]),
            reason,
        ];
        if with_mesh {
            row.insert(0, text("mesh"));
        }
        if wide {
            row.push(text("kri"));
        }
        table.row(row);
    }
    table.show()
}

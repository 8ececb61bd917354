//! Reads an export: from files, or from a running control plane.

use anyhow::Context as _;
use kodiak_client::{Client, ClientError, ListQuery, Refusal};
use kodiak_kinds::{kinds, legacy_kinds};
use kodiak_model::{Access, Scope, yaml};
use kodiak_terminal::usage;
use serde_json::Value;

use super::Args;
use crate::report;
use crate::session::Session;

pub(super) async fn read(args: &Args, session: &Session) -> anyhow::Result<Vec<Value>> {
    match &args.from {
        Some(url) => {
            let client = session.client_of(url, args.from_token.as_deref(), args.from_ca_cert_file.as_deref())?;
            fetch(&client, session).await.with_context(|| format!("cannot read from {url}"))
        }
        None if args.files.is_empty() => Err(usage(
            "pass an export with -f FILE, -f FOLDER or -f -, or the address of a control plane with --from URL",
        )),
        None => of_files(args, session),
    }
}

fn of_files(args: &Args, session: &Session) -> anyhow::Result<Vec<Value>> {
    let (files, faults) = args.files.read(session.terminal)?;
    if !faults.is_empty() {
        session.terminal.rendered(&report::findings(&files, &faults, session.terminal.color));
        return Err(usage("the placeholders of the files cannot be replaced"));
    }
    let mut documents = Vec::new();
    for file in &files {
        let parsed = yaml::parse(&file.text)
            .map_err(|error| usage(format!("{}:{}: {}", file.name, error.mark.line, error.message)))?;
        for document in parsed {
            match document.value {
                Value::Null => (),
                // A list, as `GET` answers.
                Value::Object(mut fields) if !fields.contains_key("type") && fields.contains_key("items") => {
                    let items = fields.remove("items").unwrap_or_default();
                    documents.extend(items.as_array().cloned().unwrap_or_default());
                }
                value => documents.push(value),
            }
        }
    }
    Ok(documents)
}

/// All resources that users write, with their status.
async fn fetch(client: &Client, session: &Session) -> anyhow::Result<Vec<Value>> {
    let mesh_kind = kinds().by_name("Mesh").expect("Mesh is in the table of kinds");
    let meshes = client.list_all(&ListQuery::all_of(mesh_kind, None), |_, _| ()).await?;
    let names: Vec<String> = meshes.iter().filter_map(|mesh| Some(mesh.get("name")?.as_str()?.to_owned())).collect();
    let mut all = meshes;
    let spinner = session.terminal.spinner();
    for kind in kinds().iter().filter(|kind| !kind.read_only() && kind.name != mesh_kind.name) {
        spinner.set_message(kind.name);
        spinner.tick();
        let places: Vec<Option<&str>> = match kind.scope {
            Scope::Mesh => names.iter().map(|mesh| Some(mesh.as_str())).collect(),
            Scope::Global => vec![None],
        };
        for mesh in places {
            let listed = client.list_all(&ListQuery::all_of(kind, mesh), |_, _| ()).await;
            let listed = if_served(listed).with_context(|| match kind.access {
                Access::Admin => format!("cannot list {}: use the token of an administrator (--from-token)", kind.name),
                Access::Everyone | Access::ReadOnly => format!("cannot list {}", kind.name),
            })?;
            all.extend(listed);
        }
    }
    for kind in legacy_kinds() {
        for mesh in &names {
            let listed = client.list_at(&format!("/meshes/{mesh}/{}", kind.path)).await;
            all.extend(if_served(listed).with_context(|| format!("cannot list {}", kind.name))?);
        }
    }
    spinner.finish_and_clear();
    Ok(all)
}

/// A control plane without a kind has no resources of it.
fn if_served(listed: Result<Vec<Value>, ClientError>) -> Result<Vec<Value>, ClientError> {
    match listed {
        Err(error) if error.refusal().is_some_and(Refusal::is_not_found) => Ok(Vec::new()),
        listed => listed,
    }
}

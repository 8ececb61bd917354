//! `kodiak migrate identity convert`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kodiak_client::Client;
use kodiak_terminal::Exit;
use serde_json::{Value, json};

use super::super::{convert, of_mesh, proof::Proof};
use super::converted::{ConvertedMesh, ConvertedPermissions};
use crate::documents::FileArgs;
use crate::report::Output;
use crate::session::Session;

const KIND: &str = "MeshTrafficPermission";

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak migrate identity convert                                preview the conversion of all stored permissions
  kodiak migrate identity convert -m demo --apply                convert them
  kodiak migrate identity convert -f policies.yaml --write policies.yaml

A certificate of a MeshIdentity has one SPIFFE ID and no tags, so items of `from` with tags do not match it. Each item
becomes matches of `rules`, with the SPIFFE IDs of all Dataplanes that it means, of the mesh CA and of all MeshIdentities:
  rules:
  - default:
      allow:
      - spiffeID: {type: Exact, value: spiffe://default/web}
      - spiffeID: {type: Exact, value: spiffe://default.east.mesh.local/workload/web}
Create the MeshIdentity without a provider first, so that its SPIFFE IDs are known and no certificate is issued yet.
The verdict on every caller at every inbound is compared before and after the conversion. Policies whose verdicts would
change are not converted, nor are others that select the same inbounds; the reason is shown. All policies are stored in
one transaction. Comments and formatting of files are lost.
Exit codes: 0 success; 1 when --apply was refused because configuration would fail validation.")]
pub(super) struct Args {
    #[command(flatten)]
    files: FileArgs,

    /// Mesh whose permissions are converted; with -f, the mesh of documents that name none [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// File for the converted permissions: all documents of -f, or the changed ones of the mesh; - for standard output
    #[arg(long, value_name = "FILE|-", conflicts_with = "apply")]
    write: Option<PathBuf>,

    /// Apply the converted permissions
    #[arg(long)]
    apply: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(super) async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let mesh = session.mesh(args.mesh.as_deref())?;
    let client = session.client()?;
    let mut documents = Vec::new();
    if !args.files.files.is_empty() {
        match convert::read(&args.files, session, &mesh)? {
            Ok(read) => documents = read,
            Err(exit) => return Ok(exit),
        }
    }
    let mut converted = Vec::new();
    for (mesh, places) in meshes(&mesh, &documents) {
        converted.push(of(session, &client, mesh, &mut documents, &places).await?);
    }
    let shown =
        args.output.show(&converted, || converted.iter().map(ConvertedMesh::text).collect::<Vec<_>>().join("\n"))?;
    if args.write.as_deref() == Some(Path::new("-")) {
        session.terminal.remark(&shown);
    } else {
        session.terminal.data(&shown)?;
    }
    if let Some(out) = &args.write {
        let changed = || converted.iter().flat_map(ConvertedMesh::changed).collect::<Vec<_>>();
        let all: Vec<&Value> = if documents.is_empty() { changed() } else { documents.iter().collect() };
        convert::write(session, out, &all)?;
        return Ok(Exit::Fine);
    }
    if args.apply {
        return apply(session, &client, &converted).await;
    }
    if converted.iter().any(|one| one.changed().next().is_some()) {
        session.terminal.remark("Nothing was written: use --apply to apply it, --write FILE to write a file");
    }
    Ok(Exit::Fine)
}

/// Meshes with the places of their permissions among the documents; without documents, the given mesh.
fn meshes(mesh: &str, documents: &[Value]) -> BTreeMap<String, Vec<usize>> {
    let mut meshes: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    if documents.is_empty() {
        meshes.insert(mesh.to_owned(), Vec::new());
    }
    for (n, document) in documents.iter().enumerate().filter(|(_, document)| document["type"] == KIND) {
        meshes.entry(document["mesh"].as_str().unwrap_or_default().to_owned()).or_default().push(n);
    }
    meshes
}

/// Converts the permissions of one mesh, and the documents at `places` in place.
async fn of(
    session: &Session,
    client: &Client,
    mesh: String,
    documents: &mut [Value],
    places: &[usize],
) -> anyhow::Result<ConvertedMesh> {
    let given: Vec<Value> = places.iter().map(|n| documents[*n].clone()).collect();
    let asked = if given.is_empty() { json!({}) } else { json!({ "resources": given }) };
    let answer: ConvertedPermissions =
        client.convert_permissions(&mesh, &asked).await.map_err(|error| of_mesh(error, &mesh))?;
    let after: Vec<&Value> = answer.changed().collect();
    let configuration = Proof::of(session, client, &mesh, &[], &after).await?;
    for (n, item) in places.iter().zip(&answer.items) {
        documents[*n] = item.document.clone();
    }
    Ok(ConvertedMesh { mesh, answer, configuration, asked })
}

/// The control plane converts again and stores the result: it may have changed since the preview, and is proven as well.
async fn apply(session: &Session, client: &Client, all: &[ConvertedMesh]) -> anyhow::Result<Exit> {
    let terminal = session.terminal;
    if all.iter().any(|converted| !converted.configuration.faulty.is_empty()) {
        terminal.error("Error: the configuration of proxies would fail validation, so nothing was written");
        return Ok(Exit::Refused);
    }
    for ConvertedMesh { mesh, asked, .. } in all.iter().filter(|converted| converted.changed().next().is_some()) {
        let mut asked = asked.clone();
        asked["apply"] = json!(true);
        let stored: ConvertedPermissions = client.convert_permissions(mesh, &asked).await?;
        for document in stored.changed() {
            let name = document["name"].as_str().unwrap_or_default();
            terminal.note(&format!("type={KIND:?} mesh={mesh:?} name={name:?} changed"));
        }
    }
    Ok(Exit::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_of_files_are_converted_mesh_by_mesh() {
        let permission = |mesh: &str| json!({ "type": KIND, "mesh": mesh });
        let documents = [permission("b"), json!({ "type": "Mesh", "name": "a" }), permission("a"), permission("b")];
        assert_eq!(
            meshes("default", &documents),
            BTreeMap::from([("a".to_owned(), vec![2]), ("b".to_owned(), vec![0, 3])])
        );
        assert_eq!(meshes("default", &[]), BTreeMap::from([("default".to_owned(), vec![])]));
        assert_eq!(meshes("default", &documents[1..2]), BTreeMap::new());
    }
}

//! `kodiak migrate services convert`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bytes::Bytes;
use kodiak_client::{Client, ResourceId};
use kodiak_kinds::kinds;
use kodiak_model::{Place, Scope, yaml};
use kodiak_terminal::{Exit, usage};
use serde_json::{Value, json};

use super::converted::{Converted, Item};
use super::of_mesh;
use super::proof::Proof;
use crate::documents::{Checkup, FileArgs, Names, check};
use crate::report;
use crate::report::{Output, count};
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak migrate services convert                                preview the conversion of all stored policies
  kodiak migrate services convert -m demo --apply                convert them, if no proxy changes
  kodiak migrate services convert -f policies.yaml --write policies.yaml
  kodiak migrate services convert --replace --apply              finally, drop the legacy references

An item of `to` for MeshService demo-app_kuma-demo_svc_5000 gets a second one next to it:
  targetRef:
    kind: MeshService
    labels: {kuma.io/display-name: demo-app, k8s.kuma.io/namespace: kuma-demo}
    sectionName: \"5000\"
so that it applies to both kinds of callers. Ambiguous references are not converted, and the reason is shown. Routes
are listed for review, and never changed. The configuration of every proxy is generated with the policies before and
after the conversion, and the difference is shown. Comments and formatting of files are lost.
Exit codes: 0 success; 1 when --apply was refused because proxies would change.")]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,

    /// Mesh whose policies are converted; with -f, the mesh of documents that name none [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// File for the converted policies: all documents of -f, or the changed ones of the mesh; - for standard output
    #[arg(long, value_name = "FILE|-", conflicts_with = "apply")]
    write: Option<PathBuf>,

    /// Apply the converted policies, if no proxy changes
    #[arg(long)]
    apply: bool,

    /// Drop legacy references that have a MeshService reference: when no consumer uses tags any more
    #[arg(long)]
    replace: bool,

    /// Apply them even if proxies change
    #[arg(long, requires = "apply")]
    accept_changes: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(super) async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let mesh = session.mesh(args.mesh.as_deref())?;
    let client = session.client()?;
    let mut documents = Vec::new();
    let converted = if args.files.files.is_empty() {
        vec![of_stored(session, &client, &mesh, args.replace).await?]
    } else {
        match read(&args.files, session, &mesh)? {
            Ok(read) => documents = read,
            Err(exit) => return Ok(exit),
        }
        of_files(session, &client, &mut documents, args.replace).await?
    };
    let to_stdout = args.write.as_deref() == Some(Path::new("-"));
    let shown =
        args.output.show(&converted, || converted.iter().map(Converted::text).collect::<Vec<_>>().join("\n"))?;
    if to_stdout {
        session.terminal.remark(&shown);
    } else {
        session.terminal.data(&shown)?;
    }
    if let Some(out) = &args.write {
        let changed = || converted.iter().flat_map(Converted::changed).collect::<Vec<_>>();
        let all: Vec<&Value> = if documents.is_empty() { changed() } else { documents.iter().collect() };
        write(session, out, &all)?;
        return Ok(Exit::Fine);
    }
    if args.apply {
        return apply(args, session, &client, &converted).await;
    }
    if converted.iter().any(|one| one.changed().next().is_some()) {
        session.terminal.remark("Nothing was written: use --apply to apply it, --write FILE to write a file");
    }
    Ok(Exit::Fine)
}

async fn of_stored(session: &Session, client: &Client, mesh: &str, replace: bool) -> anyhow::Result<Converted> {
    let asked = json!({ "replace": replace });
    let items: Vec<Item> = client.convert(mesh, &asked).await.map_err(|error| of_mesh(error, mesh))?;
    let after: Vec<&Value> = items.iter().filter(|item| item.changed).map(|item| &item.document).collect();
    let proof = Proof::of(session, client, mesh, &[], &after).await?;
    Ok(Converted { mesh: mesh.to_owned(), items, proof })
}

/// Resources of the files in their order, or the exit code if the files are invalid.
pub(super) fn read(files: &FileArgs, session: &Session, mesh: &str) -> anyhow::Result<Result<Vec<Value>, Exit>> {
    let terminal = session.terminal;
    let (files, mut wrong) = files.read(terminal)?;
    let Checkup { resources, findings } = check(&files, &Names { mesh }, &Place::Global);
    wrong.extend(findings);
    if !wrong.is_empty() {
        terminal.rendered(&report::findings(&files, &wrong, terminal.color));
        terminal.error(&format!("Error: {}; nothing was converted", count(wrong.len(), "problem", "problems")));
        return Ok(Err(Exit::Refused));
    }
    if resources.is_empty() {
        return Err(usage("there is nothing to convert: the files hold no resources"));
    }
    Ok(Ok(resources.iter().map(crate::documents::FileResource::document).collect()))
}

/// Converts the documents in place, mesh by mesh.
async fn of_files(
    session: &Session,
    client: &Client,
    documents: &mut [Value],
    replace: bool,
) -> anyhow::Result<Vec<Converted>> {
    let mut by_mesh: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (n, document) in documents.iter().enumerate() {
        let kind = document["type"].as_str().and_then(|kind| kinds().by_name(kind));
        if kind.is_some_and(|kind| kind.is_policy() && kind.scope == Scope::Mesh) {
            by_mesh.entry(document["mesh"].as_str().unwrap_or_default().to_owned()).or_default().push(n);
        }
    }
    let mut all = Vec::new();
    for (mesh, places) in by_mesh {
        let asked: Vec<&Value> = places.iter().map(|n| &documents[*n]).collect();
        let asked = json!({ "resources": asked, "replace": replace });
        let items: Vec<Item> = client.convert(&mesh, &asked).await.map_err(|error| of_mesh(error, &mesh))?;
        let changed = || places.iter().zip(&items).filter(|(_, item)| item.changed);
        let before: Vec<&Value> = changed().map(|(n, _)| &documents[*n]).collect();
        let after: Vec<&Value> = changed().map(|(_, item)| &item.document).collect();
        let proof = Proof::of(session, client, &mesh, &before, &after).await?;
        for (n, item) in places.iter().zip(&items) {
            documents[*n] = item.document.clone();
        }
        all.push(Converted { mesh, items, proof });
    }
    Ok(all)
}

pub(super) fn write(session: &Session, out: &Path, documents: &[&Value]) -> anyhow::Result<()> {
    let text = documents.iter().map(|document| yaml::to_string(document)).collect::<Vec<_>>().join("---\n");
    if out == Path::new("-") {
        session.terminal.data(text.trim_end())?;
        return Ok(());
    }
    std::fs::write(out, text).with_context(|| format!("cannot write {}", out.display()))?;
    let documents = count(documents.len(), "document", "documents");
    session.terminal.remark(&format!("{documents} written to {}", out.display()));
    Ok(())
}

async fn apply(args: &Args, session: &Session, client: &Client, all: &[Converted]) -> anyhow::Result<Exit> {
    let terminal = session.terminal;
    if !args.accept_changes && all.iter().any(|converted| !converted.proof.is_clean()) {
        terminal.error("Error: proxies would change, so nothing was written; use --accept-changes to write it anyway");
        return Ok(Exit::Refused);
    }
    for converted in all {
        for document in converted.changed() {
            let text = |field: &str| document[field].as_str().unwrap_or_default();
            let kind = kinds().by_name(text("type")).expect("the control plane converts kinds that there are");
            let target = ResourceId { kind, mesh: &converted.mesh, name: text("name") };
            client.put(target, Bytes::from(document.to_string())).await?;
            terminal.note(&format!("type={:?} mesh={:?} name={:?} changed", kind.name, target.mesh, target.name));
        }
    }
    Ok(Exit::Fine)
}

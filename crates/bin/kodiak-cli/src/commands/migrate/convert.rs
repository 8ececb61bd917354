//! `kodiak migrate services convert`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bytes::Bytes;
use kodiak_client::{Client, Target};
use kodiak_kinds::kinds;
use kodiak_model::{Place, Scope, yaml};
use kodiak_terminal::{Exit, usage};
use serde_json::{Value, json};

use super::converted::{Converted, Item};
use super::proof::Proof;
use super::{Output, count, of_mesh};
use crate::documents::{Checkup, FileArgs, Names, check};
use crate::report;
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak migrate services convert                                what would become of the policies that are stored
  kodiak migrate services convert -m demo --apply                and write them, if no proxy changes
  kodiak migrate services convert -f policies.yaml --write policies.yaml
  kodiak migrate services convert --replace --apply              in the end: drop the old references

An item of `to` for MeshService demo-app_kuma-demo_svc_5000 gets another one beside it:
  targetRef:
    kind: MeshService
    labels: {kuma.io/display-name: demo-app, k8s.kuma.io/namespace: kuma-demo}
    sectionName: \"5000\"
so that callers of both follow it. What is not clear stays as it is, with the reason. Routes are listed for you to
look at, and never changed. Every proxy is rendered with the policies as they are and as converted, and what differs
is shown. Comments and formatting of files are not kept.
Exit codes: 0 when all that was asked for was done; 1 when --apply was refused because proxies would change.")]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,

    /// Convert what is stored in this mesh; with -f, the mesh of documents that name none [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// Where to write the policies: all documents of -f, or those of the mesh that changed; - for standard output
    #[arg(long, value_name = "FILE|-", conflicts_with = "apply")]
    write: Option<PathBuf>,

    /// Store them, if no proxy changes
    #[arg(long)]
    apply: bool,

    /// Drop old references that have new ones: for when nobody calls by tags any more
    #[arg(long)]
    replace: bool,

    /// Store them also if proxies change
    #[arg(long, requires = "apply")]
    accept_changes: bool,

    /// How to print what was found
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
        match read(args, session, &mesh)? {
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
        session.terminal.remark("Nothing was written: --apply stores it, --write FILE keeps it in a file");
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

/// What the files hold, in their order; or how it ends when something is wrong with them.
fn read(args: &Args, session: &Session, mesh: &str) -> anyhow::Result<Result<Vec<Value>, Exit>> {
    let terminal = session.terminal;
    let (files, mut wrong) = args.files.read(terminal)?;
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
    Ok(Ok(resources.iter().map(crate::documents::Resource::document).collect()))
}

/// Each mesh is asked about for itself. The documents become what they are converted to.
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

fn write(session: &Session, out: &Path, documents: &[&Value]) -> anyhow::Result<()> {
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
        terminal.error("Error: proxies would change, so nothing was written; --accept-changes writes it all the same");
        return Ok(Exit::Refused);
    }
    for converted in all {
        for document in converted.changed() {
            let text = |field: &str| document[field].as_str().unwrap_or_default();
            let kind = kinds().by_name(text("type")).expect("the control plane converts kinds that there are");
            let target = Target { kind, mesh: &converted.mesh, name: text("name") };
            client.put(target, Bytes::from(document.to_string())).await?;
            terminal.note(&format!("type={:?} mesh={:?} name={:?} changed", kind.name, target.mesh, target.name));
        }
    }
    Ok(Exit::Fine)
}

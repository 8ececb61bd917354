//! `kodiak diff`: previews how applying files and deleting resources would change proxies. Nothing is written.
//!
//! Documents are read and validated as in `kodiak apply`; each mesh is one request to the control plane.

mod response;
mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::ValueEnum;
use indicatif::ProgressBar;
use kodiak_client::{Client, ClientError, Refusal, ResourceId};
use kodiak_kinds::{Kind, kinds};
use kodiak_model::{Place, Scope, yaml};
use kodiak_terminal::{Exit, usage};
use serde_json::{Value, json};

use self::response::DiffResponse;
use crate::documents::{Checkup, FileArgs, FileResource, Finding, Locator, Names, SourceFile, check, unknown_kind};
use crate::report::{self, Warnings};
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak diff -f timeout.yaml                      list the proxies whose configuration would change, and their clusters
  kodiak diff -R -f mesh/ --full                   and each changed resource
  kodiak diff --delete meshtimeout/slow -m demo
  kodiak diff -f new.yaml -o json | jq '.[].proxies[].name'

Nothing is written. Certificates are placeholders, and a change of mTLS is shown as it is after its rollout.
Exit codes: 0 whether anything would change or not; 1 when a resource would be rejected, or when the generated
configuration of a proxy fails validation, so that parts of it would stay at their last good version.")]
pub struct Args {
    #[command(flatten)]
    files: FileArgs,

    /// Resource to delete. May be repeated
    #[arg(long, value_name = "KIND/NAME")]
    delete: Vec<String>,

    /// Mesh of resources that name none, and of --delete [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// Show how each Envoy resource would change
    #[arg(long)]
    full: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
    Yaml,
}

/// Preview of one mesh.
#[derive(Default)]
struct MeshChange<'a> {
    resources: Vec<&'a FileResource>,
    deleted: Vec<(&'static Kind, &'a str)>,
}

impl MeshChange<'_> {
    fn request(&self) -> Value {
        let resources: Vec<_> = self.resources.iter().map(|resource| resource.document()).collect();
        let deleted = self.deleted.iter().map(|(kind, name)| json!({ "type": kind.name, "name": name }));
        json!({ "resources": resources, "deleted": deleted.collect::<Vec<_>>() })
    }
}

/// Interval of progress output while the control plane computes.
const TICK: Duration = Duration::from_millis(100);

pub async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    if args.files.files.is_empty() && args.delete.is_empty() {
        return Err(usage("pass the changes with -f FILE, -f FOLDER, -f - or --delete KIND/NAME"));
    }
    let (files, faults) = args.files.read(session.terminal)?;
    if !faults.is_empty() {
        return Ok(refuse(session, &files, &faults));
    }
    let mesh = session.mesh(args.mesh.as_deref())?;
    let Checkup { resources, findings } = check(&files, &Names { mesh: &mesh }, &Place::Global);
    if !findings.is_empty() {
        return Ok(refuse(session, &files, &findings));
    }
    let changes = by_mesh(&resources, &deleted(&args.delete)?, &mesh);
    if changes.is_empty() {
        return Err(usage("there is nothing to compare: the files hold no resources"));
    }
    let client = session.client()?;
    let missing = missing_meshes(&client, &files, &changes).await?;
    if !missing.is_empty() {
        return Ok(refuse(session, &files, &missing));
    }
    let mut answers = Vec::new();
    let spinner = session.terminal.spinner();
    for (mesh, change) in &changes {
        spinner.set_message(format!("Working out what every proxy of mesh {mesh:?} would get"));
        spinner.enable_steady_tick(TICK);
        match client.diff(mesh, &change.request(), args.full).await {
            Ok(answer) => answers.push((mesh.as_str(), answer)),
            Err(error) => {
                spinner.finish_and_clear();
                return refused(session, &files, change, error);
            }
        }
    }
    finish(args, session, &spinner, &files, &changes, answers)
}

fn finish(
    args: &Args,
    session: &Session,
    spinner: &ProgressBar,
    files: &[SourceFile],
    changes: &BTreeMap<String, MeshChange<'_>>,
    answers: Vec<(&str, Value)>,
) -> anyhow::Result<Exit> {
    spinner.finish_and_clear();
    let terminal = session.terminal;
    let mut warnings = Warnings::default();
    let mut exit = Exit::Fine;
    let mut documents = Vec::new();
    for (n, (mesh, mut value)) in answers.into_iter().enumerate() {
        let answer = DiffResponse::read(&value)?;
        if !answer.faults.is_empty() {
            exit = Exit::Refused;
        }
        let written = changes.get(mesh).into_iter().flat_map(|change| &change.resources);
        for (resource, change) in written.zip(&answer.changes) {
            change.warnings.iter().for_each(|warning| warnings.add(warning, || resource.origin.show(files)));
        }
        if args.output == Output::Table {
            if n > 0 {
                terminal.data("")?;
            }
            terminal.data(&show::text(mesh, &answer, args.full))?;
        }
        value["mesh"] = mesh.into();
        documents.push(value);
    }
    match args.output {
        Output::Table => (),
        Output::Json => terminal.data(&serde_json::to_string_pretty(&documents)?)?,
        Output::Yaml => terminal.data(yaml::to_string(&Value::Array(documents)).trim_end())?,
    }
    warnings.lines().for_each(|line| terminal.remark(&line));
    Ok(exit)
}

/// `meshtimeout/slow`, in any spelling of the kind.
pub(crate) fn deleted(written: &[String]) -> anyhow::Result<Vec<(&'static Kind, &str)>> {
    let read = |text: &'_ str| -> anyhow::Result<(&'static Kind, usize)> {
        let at = text.find('/').filter(|at| at + 1 < text.len());
        let wrong = || usage(format!("write --delete KIND/NAME, for example meshtimeout/slow, not {text:?}"));
        let at = at.ok_or_else(wrong)?;
        let kind = kinds().by_arg(&text[..at]).ok_or_else(|| usage(unknown_kind(&text[..at])))?;
        Ok((kind, at + 1))
    };
    written.iter().map(|text| read(text).map(|(kind, at)| (kind, &text[at..]))).collect()
}

/// Resources of global scope are in the request of the default mesh.
fn by_mesh<'a>(
    resources: &'a [FileResource],
    deleted: &[(&'static Kind, &'a str)],
    default: &str,
) -> BTreeMap<String, MeshChange<'a>> {
    let mut changes: BTreeMap<String, MeshChange<'a>> = BTreeMap::new();
    let place = |kind: &Kind, mesh: &str, name: &str| match kind.scope {
        Scope::Mesh => mesh.to_owned(),
        Scope::Global if kind.name == "Mesh" => name.to_owned(),
        Scope::Global => default.to_owned(),
    };
    for resource in resources {
        let ResourceId { kind, mesh, name } = resource.id();
        changes.entry(place(kind, mesh, name)).or_default().resources.push(resource);
    }
    for (kind, name) in deleted {
        changes.entry(place(kind, default, name)).or_default().deleted.push((kind, name));
    }
    changes
}

/// A mesh that does not exist has no proxies to compare.
async fn missing_meshes(
    client: &Client,
    files: &[SourceFile],
    changes: &BTreeMap<String, MeshChange<'_>>,
) -> anyhow::Result<Vec<Finding>> {
    let kind = kinds().by_name("Mesh").expect("there are meshes");
    let mut missing = Vec::new();
    let mut locator = Locator::new(files);
    for (mesh, change) in changes {
        if client.get(ResourceId { kind, mesh: "", name: mesh }).await?.is_some() {
            continue;
        }
        let itself = |resource: &&&FileResource| resource.checked.kind.name == "Mesh";
        let brought = change.resources.iter().find(itself);
        let message = match brought {
            Some(_) => format!("the mesh {mesh:?} is new and has no proxies yet; apply the mesh first, then compare"),
            None => format!("there is no mesh {mesh:?}; apply the mesh first, or name another with -m"),
        };
        match brought.or(change.resources.first()) {
            Some(resource) => {
                let path = if brought.is_some() { "name" } else { "mesh" };
                missing.push(locator.finding(resource, path, message));
            }
            None => return Err(anyhow::anyhow!(message)),
        }
    }
    Ok(missing)
}

/// Problems that the control plane reported, with their locations in the files.
fn refused(
    session: &Session,
    files: &[SourceFile],
    change: &MeshChange<'_>,
    error: ClientError,
) -> anyhow::Result<Exit> {
    let Some(Refusal { problems, .. }) = error.refusal() else { return Err(error.into()) };
    let mut locator = Locator::new(files);
    let mut findings = Vec::new();
    let mut placed = BTreeSet::new();
    for (n, problem) in problems.iter().enumerate() {
        let Some((resource, path)) = response::place(&problem.path, &change.resources) else { continue };
        findings.push(locator.finding(resource, path, problem.message.clone()));
        placed.insert(n);
    }
    if findings.is_empty() || placed.len() < problems.len() {
        return Err(error.into());
    }
    Ok(refuse(session, files, &findings))
}

fn refuse(session: &Session, files: &[SourceFile], findings: &[Finding]) -> Exit {
    let terminal = session.terminal;
    terminal.rendered(&report::findings(files, findings, terminal.color));
    let problems = findings.len();
    let problems = format!("{problems} {}", if problems == 1 { "problem" } else { "problems" });
    terminal.error(&format!("Error: {problems}; nothing was compared"));
    Exit::Refused
}

//! `kodiak apply`: creates or updates the resources of files, and skips those that are up to date.
//!
//! All files are validated first; nothing is sent if one is invalid.

mod compare;
mod existing;
mod outcome;
mod send;

use std::collections::BTreeSet;

use kodiak_client::{Client, ResourceId};
use kodiak_model::{Place, Scope};
use kodiak_terminal::{Exit, usage};

use crate::documents::{Checkup, FileArgs, FileResource, Finding, Locator, Names, Phase, SourceFile, check, phases};
use crate::report::{self, Warnings};
use crate::session::Session;
use outcome::Tally;

pub(super) use compare::is_same;
pub(super) use outcome::Outcome;
pub(super) use send::Sender;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak apply -f timeout.yaml
  kodiak apply -f mesh/ -f extra.yaml              folders and files, in any order
  kodiak apply -f app.yaml -v zone=east -v app.port=8080
  cat policy.yaml | kodiak apply -f - --dry-run    show what would change

Meshes are written first, then secrets, zones, and the rest in the order of the files. Resources that are
up to date are not written. The placeholder {{ name }} is replaced when -v is given; {{ .Name }} and
{{ label \"x\" }} are templates of the resources and are left as they are.")]
pub struct Args {
    #[command(flatten)]
    files: FileArgs,

    /// Mesh of resources that name none [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// Validate, and report what would change, without writing anything
    #[arg(long)]
    dry_run: bool,

    /// Print one line per resource, however many there are
    #[arg(long)]
    verbose: bool,
}

/// Up to this many resources get one line each without --verbose.
const SHORT: usize = 50;

pub async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    if args.files.files.is_empty() {
        return Err(usage("pass the files to apply with -f FILE, -f FOLDER or -f -"));
    }
    let terminal = session.terminal;
    let (files, faults) = args.files.read(terminal)?;
    if !faults.is_empty() {
        return Ok(refuse(session, &files, &faults));
    }
    let mesh = session.mesh(args.mesh.as_deref())?;
    // Only the server knows whether it is global or of a zone, so it validates what depends on that.
    let Checkup { resources, findings } = check(&files, &Names { mesh: &mesh }, &Place::Global);
    if !findings.is_empty() {
        return Ok(refuse(session, &files, &findings));
    }
    if resources.is_empty() {
        return Err(usage("there is nothing to apply: the files hold no resources"));
    }
    let client = session.client()?;
    let missing = missing_meshes(&client, &files, &resources).await?;
    if !missing.is_empty() {
        return Ok(refuse(session, &files, &missing));
    }
    apply(args, session, &client, &files, resources).await
}

fn refuse(session: &Session, files: &[SourceFile], findings: &[Finding]) -> Exit {
    let terminal = session.terminal;
    terminal.rendered(&report::findings(files, findings, terminal.color));
    let problems = findings.len();
    terminal
        .error(&format!("Error: {problems} {}; nothing was sent", if problems == 1 { "problem" } else { "problems" }));
    Exit::Refused
}

/// Meshes of resources that neither the files nor the server have.
async fn missing_meshes(
    client: &Client,
    files: &[SourceFile],
    resources: &[FileResource],
) -> anyhow::Result<Vec<Finding>> {
    let Some(kind) = kodiak_kinds::kinds().by_name("Mesh") else { return Ok(Vec::new()) };
    let brought: BTreeSet<_> =
        resources.iter().filter(|one| one.checked.kind.name == "Mesh").map(|one| one.checked.name.as_str()).collect();
    let mut asked = BTreeSet::new();
    let mut missing = Vec::new();
    let mut locator = Locator::new(files);
    for resource in resources.iter().filter(|one| one.checked.kind.scope == Scope::Mesh) {
        let mesh = resource.checked.mesh.as_str();
        if brought.contains(mesh) || !asked.insert(mesh) {
            continue;
        }
        if client.get(ResourceId { kind, mesh: "", name: mesh }).await?.is_none() {
            let message = format!("there is no mesh {mesh:?}; apply it too, or name another with -m");
            missing.push(locator.finding(resource, "mesh", message));
        }
    }
    Ok(missing)
}

async fn apply(
    args: &Args,
    session: &Session,
    client: &Client,
    files: &[SourceFile],
    resources: Vec<FileResource>,
) -> anyhow::Result<Exit> {
    let terminal = session.terminal;
    let count = resources.len();
    let sender = Sender { client, dry_run: args.dry_run, bar: terminal.progress("Applying", count) };
    let mut tally = Tally::default();
    let mut warnings = Warnings::default();
    let mut broken = None;
    let mut mesh_failed = false;
    let mut locator = Locator::new(files);
    for (phase, resources) in phases(resources, |one| Phase::of(one.checked.kind.name, &one.checked.name)) {
        if broken.is_some() || mesh_failed {
            tally.not_sent += resources.len();
            continue;
        }
        let sent = sender.send(&resources).await;
        broken = sent.broken;
        let mut refused = Vec::new();
        for (resource, outcome) in resources.iter().zip(sent.outcomes) {
            outcome.warn(resource, files, &mut warnings);
            tally.count(&outcome);
            if args.verbose || count <= SHORT {
                sender.bar.suspend(|| outcome.line(resource).iter().for_each(|line| terminal.note(line)));
            }
            refused.extend(outcome.findings(resource, &mut locator));
        }
        if !refused.is_empty() {
            sender.bar.suspend(|| terminal.rendered(&report::findings(files, &refused, terminal.color)));
        }
        if phase == Phase::Meshes && tally.failed > 0 {
            mesh_failed = true;
            terminal.error("Error: a mesh was rejected, so resources of meshes are not sent");
        }
    }
    sender.bar.finish_and_clear();
    warnings.lines().for_each(|line| terminal.remark(&line));
    terminal.note(&tally.summary(args.dry_run));
    match broken {
        Some(error) => Err(anyhow::Error::from(error).context("the rest was not sent; apply again to continue")),
        None if tally.failed > 0 => Ok(Exit::Refused),
        None => Ok(Exit::Fine),
    }
}

//! `kodiak delete`: by kind and name, or everything that files name.

use clap::builder::NonEmptyStringValueParser;
use futures_util::{StreamExt as _, stream};
use kodiak_client::{Client, ClientError, IN_FLIGHT, Target};
use kodiak_kinds::{Kind, kinds};
use kodiak_terminal::{Exit, usage};

use super::get::absent;
use crate::documents::{FileArgs, Names, Phase, identify, phases, unknown_kind};
use crate::report;
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak delete meshtimeout slow fast -m demo
  kodiak delete dataplane web-1 --ignore-not-found
  kodiak delete -f mesh/                         what `kodiak apply -f mesh/` made, in reverse order")]
pub struct Args {
    /// A kind in any spelling (meshtimeout, MeshTimeouts, mt)
    #[arg(required_unless_present = "files", conflicts_with = "files", requires = "names")]
    kind: Option<String>,

    /// The names of the resources
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    names: Vec<String>,

    #[command(flatten)]
    files: FileArgs,

    /// The mesh they are in [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// What is not there is as good as deleted
    #[arg(long)]
    ignore_not_found: bool,
}

/// Something to delete.
struct Doomed {
    kind: &'static Kind,
    mesh: String,
    name: String,
}

impl Doomed {
    fn target(&self) -> Target<'_> {
        Target { kind: self.kind, mesh: &self.mesh, name: &self.name }
    }
}

pub async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let mesh = session.mesh(args.mesh.as_deref())?;
    let groups = match &args.kind {
        Some(typed) => {
            let kind = kinds().by_arg(typed).ok_or_else(|| usage(unknown_kind(typed)))?;
            let doomed = args.names.iter().map(|name| Doomed { kind, mesh: mesh.clone(), name: name.clone() });
            vec![doomed.collect()]
        }
        None => match from_files(args, session, &mesh)? {
            Some(groups) => groups,
            None => return Ok(Exit::Refused),
        },
    };
    let client = session.client()?;
    let mut exit = Exit::Fine;
    for group in groups {
        if delete(args, session, &client, group).await? == Exit::Refused {
            exit = Exit::Refused;
        }
    }
    Ok(exit)
}

/// The resources of the files, last phase first; `None` when the files are wrong.
fn from_files(args: &Args, session: &Session, mesh: &str) -> anyhow::Result<Option<Vec<Vec<Doomed>>>> {
    let terminal = session.terminal;
    let (files, faults) = args.files.read(terminal)?;
    let identified = if faults.is_empty() { identify(&files, &Names { mesh }) } else { Err(faults) };
    let identified = match identified {
        Ok(identified) => identified,
        Err(findings) => {
            terminal.rendered(&report::findings(&files, &findings, terminal.color));
            terminal.error("Error: nothing was deleted");
            return Ok(None);
        }
    };
    let doomed = identified
        .into_iter()
        .rev()
        .map(|one| Doomed { kind: one.kind, mesh: one.mesh().to_owned(), name: one.draft.name })
        .collect();
    let mut groups = phases(doomed, |one: &Doomed| Phase::of(one.kind.name, &one.name));
    groups.reverse();
    Ok(Some(groups.into_iter().map(|(_, group)| group).collect()))
}

async fn delete(args: &Args, session: &Session, client: &Client, group: Vec<Doomed>) -> anyhow::Result<Exit> {
    let terminal = session.terminal;
    let bar = terminal.progress("Deleting", group.len());
    let mut exit = Exit::Fine;
    let tasks = group.into_iter().map(|doomed| async move {
        let deleted = client.delete(doomed.target()).await;
        (doomed, deleted)
    });
    // Answers come in the order of the files, whichever was first.
    let mut answers = stream::iter(tasks).buffered(IN_FLIGHT);
    while let Some((doomed, deleted)) = answers.next().await {
        bar.inc(1);
        let (kind, name) = (doomed.kind.name, &doomed.name);
        let refused = match deleted {
            Ok(true) => {
                bar.suspend(|| terminal.note(&format!("deleted {kind} {name:?}")));
                continue;
            }
            Ok(false) if args.ignore_not_found => continue,
            Ok(false) => format!("Error: {}", absent(doomed.target())),
            Err(error @ ClientError::Refused(_)) => format!("Error: {kind} {name:?}: {error}"),
            Err(error) => return Err(error.into()),
        };
        bar.suspend(|| terminal.error(&refused));
        exit = Exit::Refused;
    }
    bar.finish_and_clear();
    Ok(exit)
}

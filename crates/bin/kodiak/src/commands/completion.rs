//! `kodiak completion`: scripts for shells.

use std::io::Write as _;

use clap::CommandFactory as _;
use kodiak_terminal::Exit;

use crate::cli::Cli;
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  source <(kodiak completion bash)
  kodiak completion zsh > ~/.zfunc/_kodiak
  kodiak completion fish > ~/.config/fish/completions/kodiak.fish")]
pub(crate) struct Args {
    /// Which shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args, _: &Session) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "kodiak", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(Exit::Fine)
}

//! `kodiak completion`: scripts for shells.

use std::io::Write as _;

use kodiak_terminal::Exit;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  source <(kodiak completion bash)
  kodiak completion zsh > ~/.zfunc/_kodiak
  kodiak completion fish > ~/.config/fish/completions/kodiak.fish")]
pub struct Args {
    /// Which shell
    shell: clap_complete::Shell,
}

/// `command` is the whole command line, as the binary puts it together.
pub fn run(args: &Args, mut command: clap::Command) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "kodiak", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(Exit::Fine)
}

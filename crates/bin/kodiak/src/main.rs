//! The one binary: the control plane, and the tool that people use with it.

#![cfg_attr(test, allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them"))]

mod cli;
mod client;
mod commands;
mod config_file;
mod documents;
mod exit;
mod private_file;
mod report;
mod session;
mod terminal;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    // The control plane logs as its configuration says.
    if !matches!(cli.command, cli::Command::Run(_)) {
        start_logging();
    }
    let session = session::Session::new(cli.global);
    match run(cli.command, &session) {
        Ok(exit) => exit.into(),
        Err(error) if exit::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            session.terminal.error(&exit::explain(&error));
            exit::of(&error).into()
        }
    }
}

#[tokio::main]
async fn run(command: cli::Command, session: &session::Session) -> anyhow::Result<exit::Exit> {
    commands::run(command, session).await
}

/// Nothing by default: the command speaks for itself. `RUST_LOG=debug` shows its requests.
fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_default_directive(tracing_subscriber::filter::LevelFilter::OFF.into())
        .from_env_lossy();
    let colors = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colors).with_writer(std::io::stderr).init();
}

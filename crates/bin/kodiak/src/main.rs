//! The one binary: the control plane, and the tool that people use with it.

#![cfg_attr(test, allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them"))]

mod cli;
mod commands;
mod config_file;
mod documents;
mod exit;
mod private_file;
mod report;
mod session;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use kodiak_terminal::{Exit, is_broken_pipe};
use tracing_subscriber::filter::LevelFilter;

/// How long work beside the command may take to end.
const LAST_WORK: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match &cli.command {
        // The control plane logs as its configuration says.
        cli::Command::Run(_) => (),
        cli::Command::Dp(args) if args.stays() && !cli.global.quiet => start_logging(LevelFilter::INFO),
        cli::Command::Dp(args) if args.stays() => start_logging(LevelFilter::WARN),
        _ => start_logging(LevelFilter::OFF),
    }
    let session = session::Session::new(cli.global);
    match run(cli.command, &session) {
        Ok(exit) => exit.into(),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            session.terminal.error(&exit::explain(&error));
            exit::of(&error).into()
        }
    }
}

fn run(command: cli::Command, session: &session::Session) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Runtime::new()?;
    let exit = runtime.block_on(commands::run(command, session));
    // A thread that hangs must not keep a process that is over.
    runtime.shutdown_timeout(LAST_WORK);
    exit
}

/// Most commands speak for themselves and log nothing by default. `RUST_LOG=debug` shows their requests.
fn start_logging(default: LevelFilter) {
    let filter = tracing_subscriber::EnvFilter::builder().with_default_directive(default.into()).from_env_lossy();
    let colors = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colors).with_writer(std::io::stderr).init();
}

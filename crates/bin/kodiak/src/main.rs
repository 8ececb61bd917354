//! The one binary: wires the control plane, the proxy runner, the demo, the benches and the command line together.
//!
//! Here are only the commands that need the control plane, the engine or the store beside the command line.

mod cli;
mod dispatch;
mod openapi;
mod render;
mod run;
mod store;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use kodiak_cli::{Session, exit};
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
    let session = Session::new(cli.global);
    match run(cli.command, &session) {
        Ok(exit) => exit.into(),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            session.terminal.error(&exit::explain(&error));
            exit::of(&error).into()
        }
    }
}

fn run(command: cli::Command, session: &Session) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Runtime::new()?;
    let exit = runtime.block_on(dispatch::dispatch(command, session));
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

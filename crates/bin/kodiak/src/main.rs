//! The `kodiak` binary: wires the control plane, the sidecar, the demo, the benches and the command line together.
//!
//! It holds only the commands that need the control plane, the engine or the store next to the command line.

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

/// Time for background work to finish after the command.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match &cli.command {
        // The control plane configures its own logging.
        cli::Command::Run(_) => (),
        cli::Command::Dp(args) if args.is_long_running() && !cli.global.quiet => start_logging(LevelFilter::INFO),
        cli::Command::Dp(args) if args.is_long_running() => start_logging(LevelFilter::WARN),
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
    // A hanging thread must not keep the process alive.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    exit
}

/// Most commands print their results and log nothing by default. `RUST_LOG=debug` shows their requests.
fn start_logging(default: LevelFilter) {
    let filter = tracing_subscriber::EnvFilter::builder().with_default_directive(default.into()).from_env_lossy();
    let colors = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colors).with_writer(std::io::stderr).init();
}

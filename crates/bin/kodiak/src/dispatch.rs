//! Runs the command that was parsed.

use clap::CommandFactory as _;
use kodiak_cli::Session;
use kodiak_cli::commands::{
    apply, completion, config, delete, diff, dp, export, generate, get, graph, inspect, install, migrate, permissions,
    reachability, validate, version, who_am_i, why,
};
use kodiak_terminal::Exit;

use crate::cli::{Cli, Command};
use crate::{openapi, render, run, store};

pub(crate) async fn dispatch(command: Command, session: &Session) -> anyhow::Result<Exit> {
    match command {
        Command::Run(args) => run::run(args).await,
        Command::Store(args) => store::run(args, session).await,
        Command::Apply(args) => apply::run(&args, session).await,
        Command::Diff(args) => diff::run(&args, session).await,
        Command::Validate(args) => validate::run(&args, session),
        Command::Get(args) => get::run(&args, session).await,
        Command::Inspect(args) => inspect::run(args, session).await,
        Command::Why(args) => why::run(&args, session).await,
        Command::Graph(args) => graph::run(&args, session).await,
        Command::Reachability(args) => reachability::run(&args, session).await,
        Command::Render(args) => render::run(&args, session.terminal),
        Command::Delete(args) => delete::run(&args, session).await,
        Command::Export(args) => export::run(&args, session).await,
        Command::Generate(args) => generate::run(args, session).await,
        Command::Config(args) => config::run(args, session).await,
        Command::Dp(args) => dp::run(args, session).await,
        Command::Demo(args) => kodiak_demo::run(*args, session.terminal, session.timeout()).await,
        Command::Install(args) => install::run(args, session),
        Command::Uninstall(args) => install::undo(args, session),
        Command::Migrate(args) => migrate::run(args, session).await,
        Command::Permissions(args) => permissions::run(args, session).await,
        Command::Bench(args) => kodiak_bench::run(args, session.terminal).await,
        Command::Openapi => openapi::run(session.terminal),
        Command::Completion(args) => completion::run(&args, Cli::command()),
        Command::Version(args) => version::run(&args, session).await,
        Command::WhoAmI => who_am_i::run(session).await,
    }
}

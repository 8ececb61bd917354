//! The commands, one file each: its arguments, its help, and what it does.

pub(crate) mod apply;
pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod delete;
pub(crate) mod diff;
pub(crate) mod dp;
pub(crate) mod export;
pub(crate) mod generate;
pub(crate) mod get;
pub(crate) mod inspect;
pub(crate) mod install;
pub(crate) mod migrate;
mod openapi;
pub(crate) mod render;
pub(crate) mod run;
pub(crate) mod store;
pub(crate) mod validate;
mod version;
mod who_am_i;

use kodiak_terminal::Exit;

use crate::cli::Command;
use crate::session::Session;

pub(crate) async fn run(command: Command, session: &Session) -> anyhow::Result<Exit> {
    match command {
        Command::Run(args) => run::run(args).await,
        Command::Store(args) => store::run(args, session).await,
        Command::Apply(args) => apply::run(&args, session).await,
        Command::Diff(args) => diff::run(&args, session).await,
        Command::Validate(args) => validate::run(&args, session),
        Command::Get(args) => get::run(&args, session).await,
        Command::Inspect(args) => inspect::run(args, session).await,
        Command::Render(args) => render::run(&args, session),
        Command::Delete(args) => delete::run(&args, session).await,
        Command::Export(args) => export::run(&args, session).await,
        Command::Generate(args) => generate::run(args, session).await,
        Command::Config(args) => config::run(args, session).await,
        Command::Dp(args) => dp::run(args, session).await,
        Command::Demo(args) => kodiak_demo::run(*args, session.terminal, session.timeout()).await,
        Command::Install(args) => install::run(args, session),
        Command::Uninstall(args) => install::undo(args, session),
        Command::Migrate(args) => migrate::run(args, session).await,
        Command::Bench(args) => kodiak_bench::run(args, session.terminal).await,
        Command::Openapi => openapi::run(session),
        Command::Completion(args) => completion::run(&args, session),
        Command::Version => version::run(session).await,
        Command::WhoAmI => who_am_i::run(session).await,
    }
}

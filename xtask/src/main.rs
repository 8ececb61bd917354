//! Developer commands: `cargo xtask <command>`.
//!
//! Everything that checks or changes the repository starts here, and continuous integration calls nothing else, so that
//! a red build is reproduced by one command.
//!
//! **Invariant:** needs cargo, the pinned toolchain and this repository; for other requirements, a command prints how
//! to install them.

mod capture;
mod ci;
mod codegen;
mod compat;
mod conformance;
mod copy;
mod deny;
mod dist;
mod docs;
mod envoy;
mod families;
mod fmt;
mod fuzz;
mod meshes;
mod new;
mod postgres;
mod process;
mod programs;
mod soak;
mod spire;
mod test;
mod tidy;
mod tools;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use workspace::Workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "Checks, tests and changes this repository.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Ci(ci::Args),
    Fmt(fmt::Args),
    Tidy(tidy::Args),
    Test(test::Args),
    Conformance(conformance::Args),
    Compat(compat::Args),
    Deny(deny::Args),
    Dist(dist::Args),
    Docs(docs::Args),
    Capture(capture::Args),
    Fuzz(fuzz::Args),
    Meshes(meshes::Args),
    Soak(soak::Args),
    Codegen(codegen::Args),
    NewPolicy(new::policy::Args),
    NewKind(new::kind::Args),
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    let workspace = Workspace::find()?;
    match cli.command {
        Command::Ci(args) => ci::run(&workspace, &args),
        Command::Fmt(args) => fmt::run(&workspace, &args),
        Command::Tidy(args) => tidy::run(&workspace, &args),
        Command::Test(args) => test::run(&workspace, &args),
        Command::Capture(args) => capture::run(&workspace, &args),
        Command::Docs(args) => docs::run(&workspace, &args),
        Command::Dist(args) => dist::run(&workspace, &args),
        Command::Deny(args) => deny::run(&workspace, &args),
        Command::Conformance(args) => conformance::run(&workspace, &args),
        Command::Compat(args) => compat::run(&workspace, &args),
        Command::Fuzz(args) => fuzz::run(&workspace, &args),
        Command::Meshes(args) => meshes::run(&workspace, &args),
        Command::Soak(args) => soak::run(&workspace, &args),
        Command::Codegen(args) => codegen::run(&workspace, &args),
        Command::NewPolicy(args) => new::policy::run(&workspace, &args),
        Command::NewKind(args) => new::kind::run(&workspace, &args),
    }
}

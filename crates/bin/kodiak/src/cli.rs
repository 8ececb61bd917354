//! All commands, one line each. The arguments of each are with its code.

use clap::{Parser, Subcommand};
use kodiak_cli::GlobalArgs;
use kodiak_cli::commands::{
    apply, completion, config, delete, diff, dp, export, generate, get, inspect, install, migrate, validate,
};

use crate::{render, run, store};

#[derive(Parser)]
#[command(
    name = "kodiak",
    version,
    about = "A service-mesh control plane, and the tool to use it",
    after_help = "\
Examples:
  kodiak demo                                  a mesh with traffic, to look at and to play with
  kodiak run                                   start a control plane on this machine
  kodiak apply -f mesh/                        create or change everything in a folder
  kodiak get dataplanes                        what is in the mesh, and is it connected
  kodiak inspect dataplane web-1               is this proxy well, and if not, why
  kodiak validate -f policy.yaml               check without a control plane
  kodiak config control-planes add --name prod --address https://cp.example.com:5682 --ca-cert-file ca.pem

Exit codes: 0 fine, 1 refused by the server or by a check, 2 wrong usage, 3 control plane not reachable."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the control plane
    Run(run::Args),
    /// Check, back up and restore the store of a control plane
    Store(store::Args),
    /// Create or change resources from files
    Apply(apply::Args),
    /// Show which proxies would change, and how, before anything is applied
    Diff(diff::Args),
    /// Check files without a control plane
    Validate(validate::Args),
    /// Show resources
    Get(get::Args),
    /// Look inside a proxy
    Inspect(inspect::Args),
    /// Print what a proxy would get, without a control plane
    Render(render::Args),
    /// Delete resources
    Delete(delete::Args),
    /// Write resources as files that can be applied again
    Export(export::Args),
    /// Make tokens and signing keys
    Generate(generate::Args),
    /// Which control planes there are, and which one is used
    Config(config::Args),
    /// The proxy beside an application
    Dp(dp::Args),
    /// Change this machine for a proxy
    Install(install::Args),
    /// Undo what `install` did
    Uninstall(install::UninstallArgs),
    /// A mesh with real proxies and traffic on this machine, to look at and to play with
    Demo(Box<kodiak_demo::Args>),
    /// Go from old ways to new ones, step by step and with a way back
    Migrate(migrate::Args),
    /// Measure how fast and how small it is, on this machine
    Bench(kodiak_bench::Args),
    /// Print the OpenAPI document of the REST API
    Openapi,
    /// Print a script that completes commands in a shell
    Completion(completion::Args),
    /// Print the versions of this command and of the control plane
    Version,
    /// Print who the control plane takes you for
    WhoAmI,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_without_contradictions() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_teaches() {
        fn walk(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            assert!(command.get_about().is_some(), "{path} has no description");
            let leaf = command.get_subcommands().next().is_none();
            let takes_arguments = command.get_arguments().any(|arg| !arg.is_global_set() && arg.get_id() != "help");
            if leaf && takes_arguments {
                assert!(command.get_after_help().is_some(), "{path} has no examples");
            }
            command.get_subcommands().for_each(|command| walk(command, &path));
        }
        walk(&Cli::command(), "");
    }
}

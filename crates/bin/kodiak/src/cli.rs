//! All commands, one line each. Arguments are defined next to the code of each command.

use clap::{Parser, Subcommand};
use kodiak_cli::GlobalArgs;
use kodiak_cli::commands::{
    apply, completion, config, delete, diff, dp, export, generate, get, graph, inspect, install, migrate, permissions,
    reachability, validate, version, why,
};

use crate::{render, run, store};

#[derive(Parser)]
#[command(
    name = "kodiak",
    version,
    about = "A service-mesh control plane for Envoy, and its command line",
    after_help = "\
Examples:
  kodiak demo                                  a mesh with real Envoys and traffic on this machine
  kodiak run                                   start a control plane on this machine
  kodiak apply -f mesh/                        create or update all resources in a folder
  kodiak get dataplanes                        list data plane proxies and their status
  kodiak inspect dataplane web-1               show the status of a proxy, and why it is not ready
  kodiak why web backend                       explain whether web can call backend, and if not, why
  kodiak validate -f policy.yaml               validate files without a control plane
  kodiak config control-planes add --name prod --address https://cp.example.com:5682 --ca-cert-file ca.pem

Exit codes: 0 success, 1 rejected by the control plane or failed validation, 2 invalid usage, 3 control plane unreachable, 4 the answer is no."
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
    /// Create or update resources from files
    Apply(apply::Args),
    /// Preview how resources would change the configuration of proxies
    Diff(diff::Args),
    /// Validate files without a control plane
    Validate(validate::Args),
    /// Show resources
    Get(get::Args),
    /// Show the configuration and status of a proxy or a policy
    Inspect(inspect::Args),
    /// Explain whether a client can call a destination, step by step
    Why(why::Args),
    /// Show who may call whom, and by which policy
    Graph(graph::Args),
    /// Show the destinations that are trimmed from proxies, or would be
    Reachability(reachability::Args),
    /// Render the Envoy configuration of a dataplane from files, without a control plane
    Render(render::Args),
    /// Delete resources
    Delete(delete::Args),
    /// Export resources to files that can be applied again
    Export(export::Args),
    /// Generate tokens and signing keys
    Generate(generate::Args),
    /// Manage the control planes that this command connects to
    Config(config::Args),
    /// Run a data plane proxy (sidecar)
    Dp(dp::Args),
    /// Set up this machine for a data plane proxy
    Install(install::Args),
    /// Revert `kodiak install`
    Uninstall(install::UninstallArgs),
    /// Run a demo mesh with real Envoys and traffic on this machine
    Demo(Box<kodiak_demo::Args>),
    /// Guided, reversible migrations
    Migrate(migrate::Args),
    /// Show observed traffic, and draft MeshTrafficPermissions from it
    Permissions(permissions::Args),
    /// Run benchmarks on this machine
    Bench(kodiak_bench::Args),
    /// Print the OpenAPI document of the REST API
    Openapi,
    /// Print a shell completion script
    Completion(completion::Args),
    /// Print the version of this command and of the control plane
    Version(version::Args),
    /// Show the user and groups of the current credentials
    WhoAmI,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_a_description_and_examples() {
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

    /// Second column of the table in the guide for users of kumactl.
    #[test]
    fn commands_of_the_kumactl_guide_parse() {
        let guide = include_str!("../../../../docs/guides/kumactl.md");
        let rows = guide.lines().filter(|line| line.starts_with('|'));
        let commands = rows.filter_map(|row| row.split('|').nth(2)?.trim().strip_prefix("`kodiak ")?.strip_suffix('`'));
        let commands: Vec<&str> = commands.collect();
        assert!(commands.len() > 40, "the guide has a table: {commands:?}");
        for command in commands {
            let words = std::iter::once("kodiak").chain(command.split_whitespace());
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("`kodiak {command}`: {error}");
            }
        }
    }

    #[test]
    fn every_kind_of_policies_can_be_inspected_by_its_name() {
        for kind in kodiak_kinds::kinds().iter().filter(|kind| kind.is_policy()) {
            let name = kind.name.to_ascii_lowercase();
            for spelling in [name.as_str(), kind.path, kind.short.unwrap()] {
                let parsed = Cli::try_parse_from(["kodiak", "inspect", spelling, "slow", "-m", "demo", "-o", "json"]);
                assert!(parsed.is_ok(), "{spelling}");
            }
        }
    }
}

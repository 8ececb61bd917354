//! `kodiak inspect`: configuration and status of proxies and policies, and lists with insights.

mod changes;
mod dataplane;
mod lists;
mod mesh_gateway;
mod policy;
mod references;
mod rules;
mod summary;

use std::sync::LazyLock;

use clap::{ArgMatches, Args as _, Command, FromArgMatches, Subcommand};
use kodiak_kinds::{Kind, kinds};
use kodiak_terminal::Exit;

use crate::commands::elsewhere::{self, Elsewhere};
use crate::session::Session;
use lists::GlobalList;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: InspectCommand,
}

/// A command below, or the name of a kind of policies: `kodiak inspect meshtimeout slow`.
enum InspectCommand {
    Named(NamedCommand),
    OfKind(&'static Kind, policy::KindArgs),
}

#[derive(clap::Subcommand)]
enum NamedCommand {
    /// Show the status, configuration, policies or statistics of a proxy
    #[command(visible_alias = "dp")]
    Dataplane(dataplane::Args),
    /// List proxies with their connections and certificates
    Dataplanes(lists::DataplanesArgs),
    /// Show which proxies a policy affects, and why it does not affect others
    Policy(policy::Args),
    /// Show the status of all policies, like `kodiak get policies`
    Policies(policy::ListArgs),
    /// List services by their kuma.io/service tag, with the number of their proxies
    Services(lists::ServicesArgs),
    /// List meshes with the number of their proxies, services and policies
    Meshes(lists::GlobalListArgs),
    /// List proxies that serve a MeshGateway
    #[command(name = "meshgateway")]
    MeshGateway(mesh_gateway::Args),
    /// List zones with their connections
    Zones(lists::GlobalListArgs),
    /// List zone ingresses with their connections
    #[command(name = "zoneingresses", alias = "zone-ingresses")]
    ZoneIngresses(lists::GlobalListArgs),
    /// List zone egresses with their connections
    #[command(name = "zoneegresses", alias = "zone-egresses")]
    ZoneEgresses(lists::GlobalListArgs),
    /// Not available: no zone ingress connects to Kodiak yet
    #[command(name = "zoneingress", alias = "zone-ingress", hide = true)]
    ZoneIngress(elsewhere::Args),
    /// Not available: no zone egress connects to Kodiak yet
    #[command(name = "zoneegress", alias = "zone-egress", hide = true)]
    ZoneEgress(elsewhere::Args),
}

pub async fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    let command = match args.command {
        InspectCommand::Named(command) => command,
        InspectCommand::OfKind(kind, args) => return policy::run(&args.of(kind), session).await,
    };
    match command {
        NamedCommand::Dataplane(args) => dataplane::run(&args, session).await,
        NamedCommand::Dataplanes(args) => lists::dataplanes(&args, session).await,
        NamedCommand::Policy(args) => policy::run(&args, session).await,
        NamedCommand::Policies(args) => policy::list(args, session).await,
        NamedCommand::Services(args) => lists::services(&args, session).await,
        NamedCommand::Meshes(args) => lists::global(GlobalList::Meshes, &args, session).await,
        NamedCommand::MeshGateway(args) => mesh_gateway::run(&args, session).await,
        NamedCommand::Zones(args) => lists::global(GlobalList::Zones, &args, session).await,
        NamedCommand::ZoneIngresses(args) => lists::global(GlobalList::ZoneIngresses, &args, session).await,
        NamedCommand::ZoneEgresses(args) => lists::global(GlobalList::ZoneEgresses, &args, session).await,
        NamedCommand::ZoneIngress(_) | NamedCommand::ZoneEgress(_) => Err(Elsewhere::ZoneProxy.into()),
    }
}

/// Kinds of policies with the names of their commands.
static POLICY_KINDS: LazyLock<Vec<(String, &'static Kind)>> = LazyLock::new(|| {
    kinds().iter().filter(|kind| kind.is_policy()).map(|kind| (kind.name.to_ascii_lowercase(), kind)).collect()
});

fn of_kind((name, kind): &'static (String, &'static Kind)) -> Command {
    let command = Command::new(name.as_str())
        .about(format!("Show which proxies a {} affects, and why it does not affect others", kind.name))
        .after_help(format!("Example:\n  kodiak inspect {name} NAME -m demo"))
        .aliases([Some(kind.path), kind.short].into_iter().flatten())
        .hide(true);
    policy::KindArgs::augment_args(command)
}

impl Subcommand for InspectCommand {
    fn augment_subcommands(command: Command) -> Command {
        POLICY_KINDS
            .iter()
            .fold(NamedCommand::augment_subcommands(command), |command, kind| command.subcommand(of_kind(kind)))
            .after_help("The name of a kind of policies works, too: kodiak inspect meshtimeout slow")
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        NamedCommand::has_subcommand(name) || POLICY_KINDS.iter().any(|(known, _)| known == name)
    }
}

impl FromArgMatches for InspectCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let of_kind = matches
            .subcommand()
            .and_then(|(name, matches)| Some((POLICY_KINDS.iter().find(|(known, _)| known == name)?.1, matches)));
        match of_kind {
            Some((kind, matches)) => Ok(Self::OfKind(kind, policy::KindArgs::from_arg_matches(matches)?)),
            None => NamedCommand::from_arg_matches(matches).map(Self::Named),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

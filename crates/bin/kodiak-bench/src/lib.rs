//! `kodiak bench`: benchmarks for this machine.
//!
//! Machines differ and are shared: compare counts and ratios first, times second.

mod documents;
mod folder;
mod identity;
mod policies;
mod reach;
mod results;
mod server;
mod services;
mod store;
mod xds;

use kodiak_terminal::{Exit, Terminal};

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(clap::Subcommand)]
enum Bench {
    /// Apply resources to the embedded store, restart, read, list and watch them
    Store(store::Args),
    /// Match and merge policies of all proxies, from scratch and after a change
    Policies(policies::Args),
    /// Issue certificates, and move a mesh of simulated proxies to another identity
    Identity(identity::Args),
    /// Derive from permissions who may call whom, from scratch and after a change
    Reach(reach::Args),
    /// Add an instance, change its health and remove it, in meshes of several sizes
    Services(services::Args),
    /// Connect many simulated proxies to a control plane, and push changes to them
    Xds(xds::Args),
}

pub async fn run(args: Args, terminal: Terminal) -> anyhow::Result<Exit> {
    match args.bench {
        Bench::Store(args) => store::run(args).await,
        Bench::Policies(args) => policies::run(&args, terminal),
        Bench::Identity(args) => identity::run(&args, terminal),
        Bench::Reach(args) => reach::run(&args, terminal).await,
        Bench::Services(args) => services::run(&args, terminal),
        Bench::Xds(args) => xds::run(args, terminal).await,
    }
}

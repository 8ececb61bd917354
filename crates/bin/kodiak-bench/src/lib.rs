//! `kodiak bench`: how fast and how small, measured on this machine.
//!
//! Machines differ and are shared: look at counts and ratios first, at times second.

mod documents;
mod folder;
mod policies;
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
    /// Load resources with `apply` into the embedded store, restart, read, list and watch them
    Store(store::Args),
    /// Work out which policies are in force where, from the beginning and after a change
    Policies(policies::Args),
    /// Let one instance come, change its health and go, in meshes of several sizes
    Services(services::Args),
    /// Connect many simulated proxies to a control plane, and change what they have
    Xds(xds::Args),
}

pub async fn run(args: Args, terminal: Terminal) -> anyhow::Result<Exit> {
    match args.bench {
        Bench::Store(args) => store::run(args).await,
        Bench::Policies(args) => policies::run(&args, terminal),
        Bench::Services(args) => services::run(&args, terminal),
        Bench::Xds(args) => xds::run(args, terminal).await,
    }
}

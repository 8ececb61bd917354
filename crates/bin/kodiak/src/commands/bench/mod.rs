//! `kodiak bench`: how fast and how small, measured on this machine.
//!
//! Machines differ and are shared: look at counts and ratios first, at times second.

mod documents;
mod server;
mod store;

use crate::exit::Exit;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(clap::Subcommand)]
enum Bench {
    /// Load resources with `apply` into the embedded store, restart, read, list and watch them
    Store(store::Args),
}

pub(crate) async fn run(args: Args) -> anyhow::Result<Exit> {
    match args.bench {
        Bench::Store(args) => store::run(args).await,
    }
}

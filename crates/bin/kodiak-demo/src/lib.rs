//! `kodiak demo`: a whole mesh on this machine, with traffic, to look at and to play with.
//!
//! - `graph` says who calls whom; `resources` says it in the language of the mesh.
//! - `stage` starts everything, from `ports`, `service` and `proxy`, and leaves nothing behind.
//! - `traffic` sends requests along `flow`s with `call` and counts them in `tally` and `latency`;
//!   `view` says what that comes to, and `screen` shows it.
//! - `mesh` is the command itself; `echo` and `client` are its parts as commands of their own.

mod call;
mod client;
mod echo;
mod flow;
mod graph;
mod latency;
mod mesh;
mod ports;
mod proxy;
mod resources;
mod screen;
mod service;
mod stage;
mod tally;
mod traffic;
mod view;

use std::time::Duration;

use kodiak_terminal::{Exit, Terminal};

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = mesh::HELP)]
pub struct Args {
    #[command(subcommand)]
    part: Option<Part>,

    #[command(flatten)]
    mesh: mesh::MeshArgs,
}

#[derive(clap::Subcommand)]
enum Part {
    /// A service that answers with what it was asked
    Echo(echo::Args),
    /// Send steady requests to one address, and count what becomes of them
    Client(client::Args),
}

/// `api_timeout` limits each request to the control plane; `None` waits for ever.
pub async fn run(args: Args, terminal: Terminal, api_timeout: Option<Duration>) -> anyhow::Result<Exit> {
    match args.part {
        None => mesh::run(args.mesh, terminal, api_timeout).await,
        Some(Part::Echo(args)) => echo::run(args, terminal).await,
        Some(Part::Client(args)) => client::run(args, terminal).await,
    }
}

//! `kodiak demo`: a mesh with real Envoys and traffic on one machine.
//!
//! - `graph` defines services and calls; `resources` makes Mesh, Dataplanes and policies of them.
//! - `stage` starts all processes, with `ports`, `service` and `proxy`, and leaves nothing behind.
//! - `traffic` sends requests of `flow`s with `call` and counts them in `tally` and `latency`;
//!   `view` summarises the results, and `screen` prints them.
//! - `scenario` defines policies that are shown at work; `play` takes their steps, `spans` collects traces, and `guide` runs
//!   the commands of a guide.
//! - `machines` are network namespaces, for a scenario with transparent proxies.
//! - `mesh` is the command itself; `echo` and `client` are also commands of their own.

mod call;
mod client;
mod echo;
mod flow;
mod graph;
mod guide;
mod latency;
mod machines;
mod mesh;
mod play;
mod ports;
mod proxy;
mod resources;
mod scenario;
mod screen;
mod service;
mod spans;
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
    /// Run a service that echoes requests
    Echo(echo::Args),
    /// Send requests to one address at a constant rate, and count results
    Client(client::Args),
}

/// `api_timeout` limits each request to the control plane; `None` disables it.
pub async fn run(args: Args, terminal: Terminal, api_timeout: Option<Duration>) -> anyhow::Result<Exit> {
    match args.part {
        None => mesh::run(args.mesh, terminal, api_timeout).await,
        Some(Part::Echo(args)) => echo::run(args, terminal).await,
        Some(Part::Client(args)) => client::run(args, terminal).await,
    }
}

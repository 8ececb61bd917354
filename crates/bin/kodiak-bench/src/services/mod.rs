//! `kodiak bench services`

mod events;
mod mesh;
mod report;
#[cfg(test)]
mod tests;
mod work;
mod world;

use std::{
    num::NonZero,
    process,
    time::{Duration, Instant},
};

use clap::ValueEnum;

use super::server::memory_of;
use events::{Cost, Event};
use kodiak_terminal::{Exit, Terminal};
use mesh::Size;
use work::Work;
use world::World;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak bench services
  kodiak bench services --sizes 500,2000 --samples 50 -o json

Nothing is started: meshes in mode Everywhere are made in memory, with all that keeps services and all that configures
proxies; every Dataplane is connected and redirected. Each may reach 10 services, by reachableServices and by
reachableBackends, so that a service has as many callers in a mesh of any size: those have to be told of a new instance.
Counts that are the same for all sizes do not grow with the mesh.")]
pub(super) struct Args {
    /// How many Dataplanes, for each mesh
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 5_000, 10_000])]
    sizes: Vec<usize>,
    /// How many of them serve the same service
    #[arg(long, value_name = "DATAPLANES", default_value = "5")]
    per_service: NonZero<usize>,
    /// How many instances come and go in each mesh
    #[arg(long, default_value = "20")]
    samples: NonZero<usize>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

/// What a mesh cost.
struct Measured {
    size: Size,
    fill: Fill,
    events: Vec<(Event, Cost)>,
}

struct Fill {
    work: Work,
    took: Duration,
    /// In MiB.
    memory: f64,
}

pub(super) fn run(args: &Args, terminal: Terminal) -> anyhow::Result<Exit> {
    let samples = args.samples.get();
    let sizes = args.sizes.iter().map(|dataplanes| Size::of(*dataplanes, args.per_service.get()));
    let sizes = sizes.collect::<anyhow::Result<Vec<_>>>()?;
    // They stay until the end: in what one leaves behind, the memory of the next could not be seen.
    let mut worlds = Vec::new();
    let mut all = Vec::new();
    for size in sizes {
        terminal.remark(&format!("Making a mesh of {} Dataplanes.", size.dataplanes()));
        let (world, measured) = measure(size, samples)?;
        worlds.push(world);
        all.push(measured);
    }
    match args.output {
        Output::Table => terminal.result(&report::text(&all, samples))?,
        Output::Json => terminal.data(&serde_json::to_string_pretty(&report::json(&all, samples))?)?,
    }
    Ok(Exit::Fine)
}

fn measure(size: Size, samples: usize) -> anyhow::Result<(World, Measured)> {
    let memory = || memory_of(process::id(), "VmRSS:");
    let before = memory()?;
    let proxies = (0..size.dataplanes()).map(|n| size.proxy(n)).collect::<anyhow::Result<Vec<_>>>()?;
    let start = Instant::now();
    let mut world = World::new();
    world.fill(&proxies)?;
    let fill = Fill { took: start.elapsed(), work: world.work(), memory: memory()? - before };
    let events = events::measure(&mut world, size, samples)?;
    Ok((world, Measured { size, fill, events }))
}

//! `kodiak bench reach`

mod mesh;
#[cfg(test)]
mod tests;

use std::{
    num::NonZero,
    process,
    sync::Arc,
    time::{Duration, Instant},
};

use kodiak_policies::{
    Entry,
    mesh_traffic_permission::{Permissions, uris},
};
use kodiak_reachability::{Admission, Certificate, Graph};
use kodiak_rules::{Policy, PolicyIndex, Proxy, Shadow};
use kodiak_terminal::{Exit, Table, Terminal};
use serde_json::{Value, json};

use super::{results::millis, server::memory_of};
use mesh::{KIND, MESH, Size};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak bench reach
  kodiak bench reach --sizes 1000 --edges 20 --json

No process is started: meshes are created in memory, with one Dataplane and one MeshTrafficPermission per service, which
allows a few callers. Measured are the graph of who may call whom, from scratch, and then permissions that change: the
clients that are affected, and the time to find them. Counts that are equal for all sizes do not grow with the mesh.")]
pub(super) struct Args {
    /// Number of services of each mesh
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 5_000, 10_000])]
    sizes: Vec<usize>,
    /// Callers that each service allows
    #[arg(long, default_value_t = 4)]
    edges: usize,
    /// Permissions to change in each mesh
    #[arg(long, default_value = "100")]
    samples: NonZero<usize>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

struct Measured {
    size: Size,
    built: Duration,
    /// In MiB, of policies, proxies, their index and the graph.
    memory: f64,
    /// Distinct sets of clients, and their bytes.
    sets: (usize, usize),
    /// Destinations of all clients together.
    reachable: usize,
    /// Most clients that one changed permission affected.
    affected: usize,
    median: Duration,
    longest: Duration,
}

pub(super) fn run(args: &Args, terminal: Terminal) -> anyhow::Result<Exit> {
    // They are kept until the end: freed memory would hide the memory of the next one.
    let mut worlds = Vec::new();
    let mut all = Vec::new();
    for services in &args.sizes {
        anyhow::ensure!(*services > 0, "--sizes: a mesh has at least one service");
        terminal.remark(&format!("Creating a mesh of {services} services."));
        let (world, measured) = measure(Size { services: *services, edges: args.edges }, args.samples.get())?;
        worlds.push(world);
        all.push(measured);
    }
    if args.json {
        terminal.data(&json!({ "sizes": all.iter().map(Measured::json).collect::<Vec<_>>() }).to_string())?;
    } else {
        terminal.result(&table(&all).show())?;
    }
    Ok(Exit::Fine)
}

/// Index of policies, and the graph that follows it.
struct World {
    policies: PolicyIndex,
    graph: Graph<Arc<str>, Arc<str>>,
}

impl World {
    fn new(proxies: &[Arc<Proxy>], permissions: &[Arc<Policy>]) -> Self {
        let mut world = Self { policies: PolicyIndex::default(), graph: Graph::new(MESH.into()) };
        for proxy in proxies {
            world.policies.set_proxy(&proxy.name, Some(proxy.clone()));
            let tags = proxy.dataplane.inbounds().iter().map(|inbound| &inbound.tags);
            let certificate: Certificate = uris(MESH, tags).into();
            world.graph.set_client(&proxy.name, Some(&[certificate]));
        }
        for policy in permissions {
            world.policies.set_policy(&(KIND, policy.name.clone()), Some(policy.clone()));
        }
        for proxy in proxies {
            world.update(&proxy.name);
        }
        world
    }

    /// Writes a permission. Returns the clients for which something changed.
    fn change(&mut self, policy: &Arc<Policy>) -> usize {
        let selected = self.policies.set_policy(&(KIND, policy.name.clone()), Some(policy.clone()));
        selected.iter().map(|name| self.update(name)).sum()
    }

    fn update(&mut self, destination: &Arc<str>) -> usize {
        let matched = self.policies.matched(KIND, destination, Shadow::Ignored);
        let inbounds = matched.inbounds.values().map(|policies| {
            let entries = policies.iter().flat_map(|policy| Entry::of(&policy.kri().to_string().into(), &policy.body));
            Arc::new(Permissions::of(&entries.collect::<Vec<_>>()))
        });
        let effect = self.graph.set_destination(destination, Some(&Admission::By(inbounds.collect())));
        self.graph.clients(&effect.affected).len()
    }
}

fn measure(size: Size, samples: usize) -> anyhow::Result<(World, Measured)> {
    let memory = || memory_of(process::id(), "VmRSS:");
    let before = memory()?;
    let proxies = (0..size.services).map(Size::proxy).collect::<anyhow::Result<Vec<_>>>()?;
    let permissions = (0..size.services).map(|n| size.permission(n, 0)).collect::<anyhow::Result<Vec<_>>>()?;
    let start = Instant::now();
    let mut world = World::new(&proxies, &permissions);
    let built = start.elapsed();
    let memory = memory()? - before;
    let reachable = proxies.iter().map(|proxy| world.graph.destinations(&proxy.name).len()).sum();
    let (_, _, sets, bytes) = world.graph.size();
    let mut affected = 0;
    let mut times = Vec::new();
    for sample in 0..samples {
        let policy = size.permission(sample * 7 % size.services, 1 + sample % 2)?;
        let start = Instant::now();
        affected = affected.max(world.change(&policy));
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
    Ok((world, Measured { size, built, memory, sets: (sets, bytes), reachable, affected, median, longest }))
}

fn table(all: &[Measured]) -> Table {
    let mut table = Table::new([
        "SERVICES",
        "EDGES",
        "REACHABLE",
        "SETS",
        "BUILT MS",
        "MEMORY MIB",
        "AFFECTED",
        "CHANGE MEDIAN MS",
        "CHANGE MAX MS",
    ]);
    for Measured { size, built, memory, sets, reachable, affected, median, longest } in all {
        table.row([
            size.services.to_string(),
            size.edges.to_string(),
            reachable.to_string(),
            sets.0.to_string(),
            format!("{:.0}", millis(*built)),
            format!("{memory:.0}"),
            affected.to_string(),
            format!("{:.3}", millis(*median)),
            format!("{:.3}", millis(*longest)),
        ]);
    }
    table
}

impl Measured {
    fn json(&self) -> Value {
        let Self { size, built, memory, sets, reachable, affected, median, longest } = self;
        json!({
            "services": size.services,
            "edges": size.edges,
            "reachable": reachable,
            "sets": sets.0,
            "set_bytes": sets.1,
            "build_ms": millis(*built),
            "memory_mib": memory,
            "change": { "affected": affected, "p50_ms": millis(*median), "max_ms": millis(*longest) },
        })
    }
}

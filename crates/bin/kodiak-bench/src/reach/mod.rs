//! `kodiak bench reach`

mod engine;
mod envoy;
mod mesh;
#[cfg(test)]
mod tests;

use std::{
    num::NonZero,
    path::PathBuf,
    process,
    sync::Arc,
    time::{Duration, Instant},
};

use kodiak_dp::envoy::{Environment, find};
use kodiak_model::InboundTls;
use kodiak_policies::{
    Entry,
    mesh_traffic_permission::{Action, Caller, Permissions},
};
use kodiak_reachability::{Graph, Purpose, admission::Source, certificate};
use kodiak_rollout::{Issuers, Rollout};
use kodiak_rules::{Policy, PolicyIndex, Proxy, Shadow};
use kodiak_terminal::{Exit, Table, Terminal};
use serde_json::{Value, json};

use super::{results::millis, server::memory_of};
use engine::{Cost, Scenario};
use envoy::MeasuredEnvoy;
use mesh::{KIND, MESH, Size};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak bench reach
  kodiak bench reach --sizes 1000 --edges 20 --json

Meshes are created in memory, with one Dataplane and one MeshTrafficPermission per service, which allows a few callers.
Measured are the graph of who may call whom, from scratch, and then permissions that change: the clients that are
affected, and the time to find them. Counts that are equal for all sizes do not grow with the mesh.

Then single changes go through the engine, in meshes of --change-sizes services that trim all proxies: one of as many
permissions as services that have no Dataplanes, the acknowledgements of all servers, and an endpoint beside a route of
the whole mesh. A cost that doubles with the size is linear.

If there is an Envoy on this machine, a control plane then configures it as the proxy of one service, first with all
destinations, then with those that permissions let it call: memory and start of that Envoy.")]
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
    /// Number of services of each mesh of which single changes go through the engine; empty for none
    #[arg(long, value_name = "SIZES", value_delimiter = ',', num_args = 0.., default_values_t = [500, 1_000, 2_000, 4_000])]
    change_sizes: Vec<usize>,
    /// Services of the mesh whose Envoy is measured; 0 starts none
    #[arg(long, value_name = "SERVICES", default_value_t = 1_000)]
    envoy_services: usize,
    /// Envoy binary [default: that of `kodiak dp install-envoy`, or from PATH]
    #[arg(long, value_name = "FILE")]
    envoy: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Samples of each change that goes through the engine.
const CHANGES: usize = 5;

struct Measured {
    size: Size,
    built: Duration,
    /// In MiB, of policies, proxies, their index and the graph.
    memory: f64,
    /// In MiB, of the graph alone.
    graph_memory: f64,
    /// Distinct sets of clients, and their bytes.
    sets: (usize, usize),
    /// Destinations of all clients together.
    reachable: usize,
    /// Of those, pairs of a client and a destination that no inbound admits.
    never_callable: usize,
    /// Most clients that one changed permission affected.
    affected: usize,
    median: Duration,
    longest: Duration,
}

pub(super) async fn run(args: &Args, terminal: Terminal) -> anyhow::Result<Exit> {
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
    let mut costs = Vec::new();
    for services in &args.change_sizes {
        anyhow::ensure!(*services > 2, "--change-sizes: a mesh has at least three services");
        terminal.remark(&format!("Changing a mesh of {services} services."));
        let size = Size { services: *services, edges: args.edges };
        for scenario in Scenario::ALL {
            costs.push(scenario.measure(size, CHANGES)?);
        }
    }
    let envoys = match program(args, terminal)? {
        Some(program) => {
            envoy::measure(Size { services: args.envoy_services, edges: args.edges }, &program, terminal).await?
        }
        None => Vec::new(),
    };
    if args.json {
        let sizes: Vec<_> = all.iter().map(Measured::json).collect();
        let changes: Vec<_> = costs.iter().map(Cost::json).collect();
        let envoys: Vec<_> = envoys.iter().map(MeasuredEnvoy::json).collect();
        terminal.data(&json!({ "sizes": sizes, "changes": changes, "envoy": envoys }).to_string())?;
    } else {
        terminal.result(&table(&all).show())?;
        if !costs.is_empty() {
            terminal.result(&engine::table(&costs).show())?;
        }
        if !envoys.is_empty() {
            terminal.result(&envoy::table(&envoys).show())?;
        }
    }
    Ok(Exit::Fine)
}

/// Envoy to measure. Without one on this machine nothing of it is measured, unless it was asked for.
fn program(args: &Args, terminal: Terminal) -> anyhow::Result<Option<PathBuf>> {
    if args.envoy_services == 0 {
        return Ok(None);
    }
    match find(args.envoy.as_deref(), &Environment::of_this_process()) {
        Ok(program) => Ok(Some(program)),
        Err(missing) if args.envoy.is_none() => {
            terminal.remark(&format!("Envoy is not measured: {missing}"));
            Ok(None)
        }
        Err(missing) => Err(missing.into()),
    }
}

/// Index of policies, and the graph that follows it.
struct World {
    policies: PolicyIndex,
    /// Strict mTLS: permissions decide.
    rollout: Rollout,
    graph: Graph<Arc<str>, Arc<str>>,
}

impl World {
    /// Without a graph.
    fn new(proxies: &[Arc<Proxy>], permissions: &[Arc<Policy>]) -> Self {
        let issuers = Issuers { signer: Some("ca".into()), ..Issuers::default() };
        let rollout = Rollout { accept: InboundTls::Strict, call: true, issuers, ..Rollout::default() };
        let mut world = Self { policies: PolicyIndex::default(), rollout, graph: Graph::new(MESH.into()) };
        for proxy in proxies {
            world.policies.set_proxy(&proxy.name, Some(proxy.clone()));
        }
        for policy in permissions {
            world.policies.set_policy(&(KIND, policy.name.clone()), Some(policy.clone()));
        }
        world
    }

    fn build_graph(&mut self, proxies: &[Arc<Proxy>]) {
        for proxy in proxies {
            let certificates: Vec<_> = certificate(MESH, proxy).into_iter().collect();
            self.graph.set_client(&proxy.name, Some(&certificates));
        }
        for proxy in proxies {
            self.update(&proxy.name);
        }
    }

    /// Writes a permission. Returns the clients for which something changed.
    fn change(&mut self, policy: &Arc<Policy>) -> usize {
        let selected = self.policies.set_policy(&(KIND, policy.name.clone()), Some(policy.clone()));
        selected.iter().map(|name| self.update(name)).sum()
    }

    /// Pairs that the graph has and the evaluator of permissions denies.
    fn never_callable(&self, proxies: &[Arc<Proxy>]) -> usize {
        let is_admitted = |client: &Proxy, destination: &str| {
            let matched = self.policies.matched(KIND, destination, Shadow::Ignored);
            let uris = certificate(MESH, client).unwrap_or_default();
            let caller = Caller { uris: &uris, sni: None };
            matched.inbounds.values().any(|policies| {
                let entries =
                    policies.iter().flat_map(|policy| Entry::of(&policy.kri().to_string().into(), &policy.body));
                Permissions::of(&entries.collect::<Vec<_>>()).verdict(MESH, &caller).action != Action::Deny
            })
        };
        let pairs = proxies
            .iter()
            .flat_map(|proxy| self.graph.destinations(&proxy.name).into_iter().map(move |to| (proxy, to)));
        pairs.filter(|(proxy, to)| !is_admitted(proxy, to)).count()
    }

    fn update(&mut self, destination: &Arc<str>) -> usize {
        let source = Source {
            index: &self.policies,
            shadow: Shadow::Ignored,
            rollout: &self.rollout,
            purpose: Purpose::Trimming,
        };
        let effect = self.graph.set_destination(destination, Some(&source.inbounds([(&**destination, 0)])));
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
    let indexed = memory()?;
    world.build_graph(&proxies);
    let built = start.elapsed();
    let built_at = memory()?;
    let (memory, graph_memory) = (built_at - before, built_at - indexed);
    let reachable = proxies.iter().map(|proxy| world.graph.destinations(&proxy.name).len()).sum();
    let never_callable = world.never_callable(&proxies);
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
    Ok((
        world,
        Measured {
            size,
            built,
            memory,
            graph_memory,
            sets: (sets, bytes),
            reachable,
            never_callable,
            affected,
            median,
            longest,
        },
    ))
}

fn table(all: &[Measured]) -> Table {
    let mut table = Table::new([
        "SERVICES",
        "EDGES",
        "REACHABLE",
        "NEVER CALLABLE",
        "SETS",
        "BUILT MS",
        "MEMORY MIB",
        "GRAPH MIB",
        "AFFECTED",
        "CHANGE MEDIAN MS",
        "CHANGE MAX MS",
    ]);
    for Measured { size, built, memory, graph_memory, sets, reachable, never_callable, affected, median, longest } in
        all
    {
        table.row([
            size.services.to_string(),
            size.edges.to_string(),
            reachable.to_string(),
            never_callable.to_string(),
            sets.0.to_string(),
            format!("{:.0}", millis(*built)),
            format!("{memory:.0}"),
            format!("{graph_memory:.0}"),
            affected.to_string(),
            format!("{:.3}", millis(*median)),
            format!("{:.3}", millis(*longest)),
        ]);
    }
    table
}

impl Measured {
    fn json(&self) -> Value {
        let Self { size, built, memory, graph_memory, sets, reachable, never_callable, affected, median, longest } =
            self;
        json!({
            "services": size.services,
            "edges": size.edges,
            "reachable": reachable,
            "never_callable": never_callable,
            "sets": sets.0,
            "set_bytes": sets.1,
            "build_ms": millis(*built),
            "memory_mib": memory,
            "graph_mib": graph_memory,
            "change": { "affected": affected, "p50_ms": millis(*median), "max_ms": millis(*longest) },
        })
    }
}

//! `kodiak bench policies`

mod change;
mod engine;
mod kinds;
mod mesh;
mod rebuild;

use std::{num::NonZero, thread};

use super::results::{Results, as_f64};
use change::{Measured, Scope};
use kodiak_terminal::{Exit, Terminal};
use mesh::Size;
use rebuild::Rebuilt;

/// Size ratio of the two meshes that are compared.
const SMALLER: usize = 10;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak bench policies
  kodiak bench policies --policies 2000 --proxies 500 --services 100 --json
  kodiak bench policies --connected 10000          with more connected proxies

No process is started: the mesh is created in memory. The cost of changes is also measured in a mesh of a tenth of the
size: counts that are equal in both do not grow with the mesh. At the end, one policy of each kind is added, changed and
deleted: one that selects nobody encodes nothing, and one for a service wakes its proxies alone.")]
pub(super) struct Args {
    #[arg(long, default_value_t = 10_000, value_parser = enough)]
    policies: usize,
    #[arg(long, default_value_t = 10_000, value_parser = enough)]
    proxies: usize,
    #[arg(long, default_value_t = 1_000, value_parser = enough)]
    services: usize,
    /// Connected proxies, for changes through the whole engine
    #[arg(long, default_value_t = 1_000)]
    connected: usize,
    /// Policies to change per type of target
    #[arg(long, default_value_t = 100, value_parser = enough)]
    changes: usize,
    /// Threads for the full rebuild [default: one per core]
    #[arg(long)]
    threads: Option<NonZero<usize>>,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

fn enough(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "must be 1 or more".to_owned())
}

pub(super) fn run(args: &Args, terminal: Terminal) -> anyhow::Result<Exit> {
    let remark = |text: &str| terminal.remark(text);
    let threads = args.threads.map_or_else(|| thread::available_parallelism().map_or(1, NonZero::get), NonZero::get);
    let size = Size { policies: args.policies, proxies: args.proxies, services: args.services };
    let mut results = Results::default();
    results.add("policies", "policies", as_f64(size.policies));
    results.add("proxies", "proxies", as_f64(size.proxies));
    results.add("services", "services", as_f64(size.services));
    results.add("threads", "threads", as_f64(threads));
    let smaller = size.divided_by(SMALLER);
    for (size, prefix, which) in [(size, "", ""), (smaller, "tenth_", ", a tenth of the mesh")] {
        remark(&format!("Creating a mesh of {} policies and {} proxies.", size.policies, size.proxies));
        let (mut policy_index, filed) = rebuild::file(size)?;
        remark("Building the rules of all proxies.");
        let rebuilt = rebuild::all(&policy_index, size, threads);
        if prefix.is_empty() {
            results.add("file_s", "indexing policies and proxies, s", filed.as_secs_f64());
            report(&rebuilt, &mut results);
        }
        remark("Changing policies one by one.");
        for scope in Scope::ALL {
            let measured = change::measure(&mut policy_index, size, scope, args.changes)?;
            measured.report(prefix, which, scope, &mut results);
        }
        drop(rebuilt);
        drop(policy_index);
        let connected = if prefix.is_empty() { args.connected } else { (args.connected / SMALLER).max(1) };
        if args.connected == 0 {
            continue;
        }
        remark(&format!("The same through the engine, with {connected} proxies connected."));
        engine::measure(size, connected, args.changes, (prefix, which), &mut results)?;
    }
    if args.connected > 0 {
        remark("One policy of each kind, through the engine.");
        kinds::measure(smaller, args.connected, &mut results)?;
    }
    results.show(args.json);
    Ok(Exit::Fine)
}

fn report(rebuilt: &Rebuilt, results: &mut Results) {
    results.add("rebuild_s", "all matches and rules of all proxies, s", rebuilt.took.as_secs_f64());
    results.add("rebuild_looked_at", "policies examined, summed over proxies", as_f64(rebuilt.looked_at));
    results.add("rebuild_matched", "of these, matched", as_f64(rebuilt.matched));
    results.add("rebuild_lists", "distinct lists of policies", as_f64(rebuilt.lists));
    results.add("rebuild_rules", "rules built from them", as_f64(rebuilt.rules));
}

impl Measured {
    fn report(&self, prefix: &str, which: &str, scope: Scope, results: &mut Results) {
        let object = format!("{prefix}{}", scope.key());
        let what = |text: &str| format!("{}{which}: {text}", scope.name());
        results.add(format!("{object}.concerned"), what("proxies affected"), self.concerned);
        results.add(format!("{object}.looked_at"), what("policies examined"), self.looked_at);
        results.add(format!("{object}.rules"), what("rules built"), self.rules);
        results.add(format!("{object}.p50_ms"), what("p50, ms"), self.p50);
        results.add(format!("{object}.p99_ms"), what("p99, ms"), self.p99);
    }
}

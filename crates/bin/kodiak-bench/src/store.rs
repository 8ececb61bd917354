//! `kodiak bench store`

use std::{fs, path::Path, time::Instant};

use kodiak_store::{Backend, Store, StoreConfig};
use kodiak_terminal::Exit;

use super::{
    documents::{self, Counts},
    folder::Folder,
    results::{Results, as_f64, millis},
    server::Server,
};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak bench store
  kodiak bench store --dataplanes 1000 --services 500 --policies 500 --json")]
pub(super) struct Args {
    #[arg(long, default_value_t = 10_000)]
    dataplanes: usize,
    #[arg(long, default_value_t = 5_000)]
    services: usize,
    #[arg(long, default_value_t = 5_000)]
    policies: usize,
    /// The last line is one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let Args { dataplanes, services, policies, json } = args;
    let counts = Counts { dataplanes, services, policies };
    let folder = Folder::make()?;
    let mut results = Results::default();
    results.add("resources", "resources", as_f64(counts.total()));
    load(counts, folder.path(), &mut results).await?;
    restart(counts, folder.path(), &mut results).await?;
    in_process(folder.path(), &mut results).await?;
    results.show(json);
    Ok(Exit::Fine)
}

/// Through the API, as users do it.
async fn load(counts: Counts, folder: &Path, results: &mut Results) -> anyhow::Result<()> {
    let file = folder.join("mesh.yaml");
    fs::write(&file, documents::yaml(counts))?;
    let (server, first_start) = Server::start(folder).await?;
    results.add("empty_start_ms", "start of an empty control plane, ms", millis(first_start));
    let commits_before = server.metric("kodiak_store_commits_total", "").await?;
    let started = Instant::now();
    server.apply(&file)?;
    let took = started.elapsed();
    let commits = server.metric("kodiak_store_commits_total", "").await? - commits_before;
    let total = as_f64(counts.total());
    results.add("apply_s", "apply, s", took.as_secs_f64());
    results.add("applied_per_s", "durable resources a second", total / took.as_secs_f64());
    results.add("commits", "durable commits", commits);
    results.add("resources_per_commit", "resources a commit", total / commits.max(1.0));
    results.add("loaded_rss_mb", "memory after loading, MiB", server.memory()?);
    let file_size = fs::metadata(folder.join("kodiak.redb"))?.len();
    results.add("file_mb", "file, MiB", as_f64(usize::try_from(file_size)?) / 1024.0 / 1024.0);
    let started = Instant::now();
    server.apply(&file)?;
    results.add("reapply_s", "apply again, nothing changed, s", started.elapsed().as_secs_f64());
    let after = server.metric("kodiak_store_commits_total", "").await? - commits_before;
    results.add("reapply_commits", "commits of that", after - commits);
    server.stop().await
}

/// With everything in it: start, read, list.
async fn restart(counts: Counts, folder: &Path, results: &mut Results) -> anyhow::Result<()> {
    const READS: usize = 2_000;
    let (server, start) = Server::start(folder).await?;
    results.add("start_ms", "start with all of it, ms", millis(start));
    results.add("start_rss_mb", "memory after that, MiB", server.memory()?);
    let mut times = Vec::with_capacity(READS);
    for n in 0..READS {
        let started = Instant::now();
        let path = format!("/meshes/default/dataplanes/dp-{}", n * 7 % counts.dataplanes.max(1));
        let (status, _) = server.get_api(&path).await?;
        anyhow::ensure!(status == 200, "{path} answered {status}");
        times.push(started.elapsed());
    }
    times.sort();
    results.add("get_p50_ms", "GET over loopback, p50, ms", millis(times[READS / 2]));
    results.add("get_p99_ms", "GET over loopback, p99, ms", millis(times[READS * 99 / 100]));
    let route = "/meshes/{mesh}/dataplanes/{name}";
    let sum = server.metric("kodiak_api_request_seconds_sum", route).await?;
    let count = server.metric("kodiak_api_request_seconds_count", route).await?;
    results.add("get_inside_ms", "GET inside the process, mean, ms", sum / count.max(1.0) * 1000.0);
    let started = Instant::now();
    let mut bytes = 0;
    for path in ["dataplanes", "meshservices", "meshtimeouts"] {
        let total = counts.dataplanes.max(counts.services).max(counts.policies);
        for offset in (0..=total).step_by(1000) {
            bytes += server.get_api(&format!("/{path}?size=1000&offset={offset}")).await?.1;
        }
    }
    results.add("list_ms", "list all in pages of 1,000, ms", millis(started.elapsed()));
    results.add("list_mb", "bytes of that, MiB", as_f64(bytes) / 1024.0 / 1024.0);
    results.add("end_rss_mb", "memory at the end, MiB", server.memory()?);
    server.stop().await
}

/// The store by itself.
async fn in_process(folder: &Path, results: &mut Results) -> anyhow::Result<()> {
    let mut config = StoreConfig::new(Backend::File { path: folder.join("kodiak.redb") });
    config.seal = Some(kodiak_store::Seal::load_or_create(&folder.join("seal.key"), Vec::new())?);
    let started = Instant::now();
    let store = Store::open(config).await?;
    results.add("open_ms", "open the store, ms", millis(started.elapsed()));
    let snapshot = store.snapshot();
    let started = Instant::now();
    let mut watch = store.watch(0)?;
    let mut changes = 0;
    loop {
        changes += 1;
        if watch.next().await?.revision == snapshot.revision() {
            break;
        }
    }
    results.add("watch_changes", "changes replayed to a watch", as_f64(changes));
    results.add("watch_ms", "time of that, ms", millis(started.elapsed()));
    store.close().await;
    Ok(())
}

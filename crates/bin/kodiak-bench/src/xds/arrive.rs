//! `kodiak bench xds --arrive`: proxies that provide their own Dataplanes connect at once.
//!
//! The store is empty but for the mesh, as after the first deployment of a mesh, or after an outage that was longer than
//! the deregistration delay. Every proxy that arrives changes the configuration of all others.

use std::{fs, time::Instant};

use hyper::Method;
use kodiak_terminal::{Exit, Terminal};

use super::{
    super::{
        folder::Folder,
        results::{Results, as_f64},
        server::Server,
    },
    Args,
    change::Counted,
    crowd::Crowd,
    limit, mesh, shared,
};

pub(super) async fn run(args: &Args, terminal: Terminal) -> anyhow::Result<Exit> {
    let Args { proxies, concurrency, services, mtls, dns, json, .. } = *args;
    limit::raise(proxies)?;
    let folder = Folder::make()?;
    let (server, _) = Server::start(folder.path()).await?;
    server.write_api(Method::PUT, "/meshes/default", &mesh::mesh(mtls, true)).await?;
    let others = mesh::dataplanes_without_proxy(proxies, services);
    if !others.is_empty() {
        terminal.remark(&format!("Loading {} services without a proxy.", services - proxies));
        let file = folder.path().join("mesh.yaml");
        fs::write(&file, others)?;
        server.apply(&file)?;
    }
    server.quiet().await?;

    terminal.remark(&format!("Connecting {proxies} proxies with their Dataplanes."));
    let shared = shared(args, &server, folder.path()).await?;
    let mut results = Results::default();
    results.add("proxies", "proxies", as_f64(proxies));
    results.add("services", "services", as_f64(services));
    let (before, cpu) = (Counted::now(&server).await?, server.cpu()?);
    let start = Instant::now();
    let node = |n| mesh::node(n, dns, Some(&mesh::dataplane_of(n, services)));
    let mut crowd = Crowd::connect(shared, proxies, concurrency, node).await?;
    results.add("served_s", "all served, s", start.elapsed().as_secs_f64());
    // Inbounds become ready when their proxies have acknowledged, which changes endpoints once more.
    let settled = crowd.settle().await?;
    results.add("settled_s", "last change received, s", settled.duration_since(start).as_secs_f64());
    results.add("server_cpu_s", "CPU time of the control plane, s", server.cpu()? - cpu);
    results.add("server_peak_mb", "peak memory, MiB", server.peak_memory()?);
    let Counted { commits, rounds, encoded, woken, bytes } = Counted::now(&server).await?.since(before);
    results.add("commits", "durable commits", commits);
    results.add("rounds", "engine rounds", rounds);
    results.add("encoded", "resources encoded", encoded);
    results.add("woken", "snapshots published to proxies", woken);
    results.add("bytes", "bytes", bytes);
    crowd.leave().await;
    server.stop().await?;
    results.show(json);
    Ok(Exit::Fine)
}

//! `kodiak bench xds`

mod arrive;
mod change;
mod crowd;
mod limit;
mod mesh;
mod proxy;
mod requests;
mod scan;

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use hyper::Method;
use kodiak_terminal::{Exit, Terminal};
use rustls::{
    ClientConfig, RootCertStore,
    client::Resumption,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use super::{
    folder::Folder,
    results::{Results, as_f64},
    server::Server,
};
use change::{Counted, MeasuredChange};
use crowd::Crowd;
use proxy::Shared;
use requests::Protocol;

/// Slightly longer than the interval in which the control plane writes insights.
const INSIGHTS: Duration = Duration::from_secs(12);

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak bench xds
  kodiak bench xds --proxies 10000 --services 30 --json
  kodiak bench xds --proxies 200 --services 1000 --mtls --dns
  kodiak bench xds --arrive --json")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command")]
pub(super) struct Args {
    /// Number of proxies, each with its own connection
    #[arg(long, default_value_t = 1_000, value_parser = at_least_one)]
    proxies: usize,
    /// Number of proxies that connect concurrently
    #[arg(long, default_value_t = 64, value_parser = at_least_one)]
    concurrency: usize,
    /// Number of services in the configuration of each proxy
    #[arg(long, default_value_t = 1_000, value_parser = at_least_one)]
    services: usize,
    /// Measure arrival only: proxies connect at once, and each provides its own Dataplane
    #[arg(long, conflicts_with_all = ["changes", "idle"])]
    arrive: bool,
    /// Enable mutual TLS, with a certificate per proxy
    #[arg(long)]
    mtls: bool,
    /// Enable DNS in proxies, with the whole name table for each
    #[arg(long)]
    dns: bool,
    /// Use state-of-the-world xDS instead of delta xDS
    #[arg(long)]
    sotw: bool,
    /// Repetitions of each change
    #[arg(long, default_value_t = 5, value_parser = at_least_one)]
    changes: usize,
    /// Seconds to measure an idle control plane
    #[arg(long, default_value_t = 10)]
    idle: u64,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "must be 1 or more".to_owned())
}

pub(super) async fn run(args: Args, terminal: Terminal) -> anyhow::Result<Exit> {
    if args.arrive {
        return arrive::run(&args, terminal).await;
    }
    let Args { proxies, concurrency, services, arrive: _, mtls, dns, sotw: _, changes, idle, json } = args;
    let remark = |text: &str| terminal.remark(text);
    limit::raise(proxies)?;
    let folder = Folder::make()?;
    let (server, _) = Server::start(folder.path()).await?;

    remark(&format!("Loading {services} services."));
    server.write_api(Method::PUT, "/meshes/default", &mesh::mesh(mtls, true)).await?;
    server.quiet().await?;
    let file = folder.path().join("mesh.yaml");
    fs::write(&file, mesh::dataplanes(proxies, services))?;
    server.apply(&file)?;
    // Services have their virtual addresses then.
    server.quiet().await?;

    remark(&format!("Connecting {proxies} proxies."));
    let shared = shared(&args, &server, folder.path()).await?;
    let mut results = Results::default();
    results.add("proxies", "proxies", as_f64(proxies));
    results.add("services", "services", as_f64(services));
    results.add("loaded_rss_mb", "memory before proxies connected, MiB", server.memory()?);
    let (before, cpu) = (Counted::now(&server).await?, server.cpu()?);
    let start = Instant::now();
    let mut crowd = Crowd::connect(shared, proxies, concurrency, |n| mesh::node(n, dns, None)).await?;
    results.add("served_s", "all served, s", start.elapsed().as_secs_f64());
    results.add("server_cpu_s", "CPU time of the control plane, s", server.cpu()? - cpu);
    results.add("server_rss_mb", "memory, MiB", server.memory()?);
    results.add("server_peak_mb", "peak memory, MiB", server.peak_memory()?);
    crowd.settle().await?;
    let Counted { encoded, woken, bytes, .. } = Counted::now(&server).await?.since(before);
    results.add("bytes", "bytes", bytes);
    results.add("encoded", "resources encoded", encoded);
    results.add("woken", "snapshots published to proxies", woken);

    remark("Changing one endpoint.");
    let mut runs = Vec::new();
    for moves in 1..=changes {
        let path = format!("/meshes/{}/dataplanes/{}", mesh::MESH, mesh::MOVING);
        runs.push(MeasuredChange::measure(&server, &mut crowd, &path, &mesh::moving(moves)).await?);
    }
    MeasuredChange::report(runs, "endpoint_change", "one endpoint", &mut results);

    remark("Changing the mesh.");
    let mut runs = Vec::new();
    for number in 0..changes {
        let document = mesh::mesh(mtls, number % 2 == 1);
        let path = format!("/meshes/{}", mesh::MESH);
        runs.push(MeasuredChange::measure(&server, &mut crowd, &path, &document).await?);
    }
    MeasuredChange::report(runs, "mesh_change", "the mesh", &mut results);

    if idle > 0 {
        remark("Measuring the idle control plane.");
        tokio::time::sleep(INSIGHTS).await;
        let cpu = server.cpu()?;
        let period = Duration::from_secs(idle);
        tokio::time::sleep(period).await;
        let share = (server.cpu()? - cpu) / period.as_secs_f64();
        results.add("idle_cpu_percent", "idle, percent of a core", share * 100.0);
    }
    results.add("end_rss_mb", "memory at the end, MiB", server.memory()?);
    crowd.leave().await;
    server.stop().await?;
    results.show(json);
    Ok(Exit::Fine)
}

async fn shared(args: &Args, server: &Server, folder: &Path) -> anyhow::Result<Shared> {
    Ok(Shared {
        address: server.proxies,
        tls: tls(folder)?,
        token: server.dataplane_token(mesh::MESH).await?,
        protocol: if args.sotw { Protocol::StateOfTheWorld } else { Protocol::Delta },
        services: args.services,
        mtls: args.mtls,
    })
}

/// Trusts only the self-signed certificate of the control plane.
fn tls(folder: &Path) -> anyhow::Result<Arc<ClientConfig>> {
    let file = folder.join("kodiak.crt");
    let certificate =
        CertificateDer::from_pem_file(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Simulated proxies must not share TLS sessions.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

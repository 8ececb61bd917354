//! `kodiak demo` itself: starts the mesh, shows results until a signal or the time limit, and prints a summary.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kodiak_dp::envoy::{Environment, PYTHON, Version, cache_folder, find, install};
use kodiak_model::GoDuration;
use kodiak_terminal::{Exit, Signals, Terminal, usage};

use super::call::Caller;
use super::graph::{EDGES, FORBIDDEN, SERVICES, instances};
use super::resources::permission_name;
use super::screen::{Screen, Times};
use super::stage::Stage;
use super::traffic::Traffic;
use super::view::{Results, Sent};

const SECOND: Duration = Duration::from_secs(1);

pub(super) const HELP: &str = "\
Starts a control plane and five services, each with a real Envoy as sidecar: web calls api, api calls orders and users,
and both call db. All calls go through two Envoys with mutual TLS, and a MeshTrafficPermission allows each; web also
tries to call db, which no policy allows. Requests are sent continuously, and results are shown every second. The demo
uses free ports only, and leaves nothing behind. Envoy is installed into the cache if necessary. With --json, it prints
a line when the mesh is ready, one per second, and a summary.

Exit codes: 0 when no request failed and all forbidden ones were denied, 1 otherwise.

Examples:
  kodiak demo                           run until Ctrl-C; prints commands to try in another terminal
  kodiak demo --for 20s --json          for scripts
  kodiak demo --rate 500                more traffic
  kodiak demo echo --name a --port 9000              one of its services
  kodiak demo client --url http://127.0.0.1:9000     requests to any address";

#[derive(clap::Args)]
pub(super) struct MeshArgs {
    /// Stop after this time, counted from when all calls work [default: run until Ctrl-C]
    #[arg(long = "for", value_name = "DURATION", value_parser = kodiak_terminal::duration)]
    limit: Option<GoDuration>,

    /// Print JSON on standard output, one object per line
    #[arg(long)]
    json: bool,

    /// Requests per second, over all calls
    #[arg(long, value_name = "COUNT", default_value_t = 70, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,

    /// Envoy binary [default: that of `kodiak dp run`]
    #[arg(long, value_name = "FILE")]
    envoy: Option<PathBuf>,
}

pub(super) async fn run(args: MeshArgs, terminal: Terminal, timeout: Option<Duration>) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen()?;
    let before = Instant::now();
    let start = async {
        let envoy = envoy(args.envoy.clone(), terminal).await?;
        terminal.remark("Starting a control plane.");
        let stage = Stage::start(&envoy, timeout, |line| terminal.remark(line)).await?;
        let (flows, caller) = (stage.flows()?, Caller::new());
        terminal
            .remark("All proxies are ready. Waiting until all allowed calls succeed and the forbidden one is denied.");
        stage.settle(&flows, &caller).await?;
        anyhow::Ok((stage, flows, caller))
    };
    let (mut stage, flows, caller) = tokio::select! {
        started = start => started?,
        () = signals.next() => anyhow::bail!("demo was interrupted while starting"),
    };
    let startup = before.elapsed();
    let api = stage.control_plane.http.map(|address| format!("http://{address}")).unwrap_or_default();
    let mut screen = Screen::new(args.json);
    screen.ready(&api, startup, || terminal.remark(&introduction(&api, startup)))?;

    let steady = Instant::now();
    let traffic = Traffic::start(&flows, args.rate, &caller);
    let limit =
        args.limit.map(|limit| limit.to_std().ok_or_else(|| usage("--for must not be negative"))).transpose()?;
    let mut clock = tokio::time::interval_at(tokio::time::Instant::now() + SECOND, SECOND);
    let end = tokio::time::sleep(limit.unwrap_or(Duration::MAX));
    tokio::pin!(end);
    loop {
        let sent: Vec<_> = stage.names().filter_map(|name| Sent::to(name, &stage.control_plane)).collect();
        tokio::select! {
            _ = clock.tick() => {
                let times = Times { startup, steady: steady.elapsed() };
                screen.show(&Results::new(traffic.tallies()), &sent, times)?;
            }
            () = &mut end => break,
            () = signals.next() => break,
            ended = stage.ended() => return Err(ended),
        }
    }
    let sent: Vec<_> = stage.names().filter_map(|name| Sent::to(name, &stage.control_plane)).collect();
    let results = tokio::select! {
        tallies = traffic.stop() => Results::new(tallies),
        () = signals.next() => anyhow::bail!("demo was interrupted while requests were in flight"),
    };
    let took = steady.elapsed();
    tokio::select! {
        stopped = stage.stop() => stopped?,
        () = signals.next() => (),
    }
    screen.last(&results, &sent, Times { startup, steady: took })?;
    Ok(if results.are_fine() { Exit::Fine } else { Exit::Refused })
}

/// The given or installed Envoy, or else the pinned one, which is installed.
async fn envoy(explicit: Option<PathBuf>, terminal: Terminal) -> anyhow::Result<PathBuf> {
    let environment = Environment::of_this_process();
    let program = match find(explicit.as_deref(), &environment) {
        Ok(program) => program,
        Err(error) if explicit.is_some() => return Err(usage(error.to_string())),
        Err(error) => {
            let folder = cache_folder(&environment).ok_or_else(|| usage(error.to_string()))?;
            terminal.remark(&format!("Envoy is not installed yet; installing it into {}.", folder.display()));
            let work = move || install(&folder, OsStr::new(PYTHON), &mut |line| terminal.remark(line));
            tokio::task::spawn_blocking(work).await.context("installation was aborted")??
        }
    };
    let asked = program.clone();
    let version = tokio::task::spawn_blocking(move || Version::of_usable(&asked)).await;
    terminal.remark(&format!(
        "Envoy {} is {}.",
        version.context("reading the version of Envoy was aborted")??,
        program.display()
    ));
    Ok(program)
}

/// Command to run this program from another terminal.
fn this_program() -> String {
    let called = std::env::args().next().unwrap_or_default();
    let path = std::env::current_exe().ok().filter(|_| called.contains('/'));
    path.map_or_else(|| "kodiak".to_owned(), |path| path.display().to_string())
}

fn introduction(api: &str, startup: Duration) -> String {
    let kodiak = format!("{} --cp {api}", this_program());
    let (services, proxies) = (SERVICES.len(), instances().len());
    let permission = EDGES.last().map(permission_name).unwrap_or_default();
    let (from, to) = (FORBIDDEN.from, FORBIDDEN.to);
    format!(
        "\
Ready: {services} services with {proxies} proxies, {:.1} s after the start. No permission allows {from} to call {to}.
Try in another terminal:
  {kodiak} get dataplanes
  {kodiak} get meshtrafficpermission {permission} -o yaml > permission.yaml
  {kodiak} delete meshtrafficpermission {permission}     its calls are denied, and count as failed
  {kodiak} apply -f permission.yaml     they are allowed again
Stop it with Ctrl-C.
",
        startup.as_secs_f64()
    )
}

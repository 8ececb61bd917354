//! `kodiak demo` itself: starts the mesh, shows results until a signal or the time limit, and prints a summary.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kodiak_dp::envoy::{Environment, PYTHON, Version, cache_folder, find, install};
use kodiak_model::GoDuration;
use kodiak_terminal::{Exit, Signals, Table, Terminal, usage};
use serde_json::{Value, json};

use super::call::Caller;
use super::graph::{EDGES, FORBIDDEN, SERVICES, instances};
use super::play::Play;
use super::resources::permission_name;
use super::scenario::{self, Scenario};
use super::screen::{Screen, Shown, Times};
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

With --scenario, it then applies policies in steps and prints their YAML. Below the table are the responses of the last
seconds to the call that the scenario is about. Responses that the scenario causes, such as 429, do not count as failed.

The scenario trimming runs the commands of the guide docs/guides/trim-proxies.md. It needs root: each instance has a
network namespace, whose traffic is redirected to its Envoy.

Exit codes: 0 when no request failed and all forbidden ones were denied, 1 otherwise.

Examples:
  kodiak demo                           run until Ctrl-C; prints commands to try in another terminal
  kodiak demo --for 20s --json          for scripts
  kodiak demo --rate 500                more traffic
  kodiak demo --list                    scenarios, each of which shows one policy
  kodiak demo --scenario rate-limit     apply a MeshRateLimit, and print it
  sudo kodiak demo --scenario trimming  go through the guide to trimmed proxies
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

    /// Policy to show at work; `--list` shows all
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(scenario::names()))]
    scenario: Option<String>,

    /// List the scenarios
    #[arg(long, conflicts_with = "scenario")]
    list: bool,

    /// Time before each step of the scenario
    #[arg(long, value_name = "DURATION", default_value = "10s", requires = "scenario", value_parser = kodiak_terminal::duration)]
    step: GoDuration,

    /// Envoy binary [default: that of `kodiak dp run`]
    #[arg(long, value_name = "FILE")]
    envoy: Option<PathBuf>,
}

pub(super) async fn run(args: MeshArgs, terminal: Terminal, timeout: Option<Duration>) -> anyhow::Result<Exit> {
    if args.list {
        return list(args.json, terminal);
    }
    let scenario = args.scenario.as_deref().and_then(scenario::find);
    let limit =
        args.limit.map(|limit| limit.to_std().ok_or_else(|| usage("--for must not be negative"))).transpose()?;
    let step = args.step.to_std().filter(|step| !step.is_zero());
    let step = step.ok_or_else(|| usage("--step must be greater than 0"))?;
    let mut signals = Signals::listen()?;
    let before = Instant::now();
    let start = async {
        let envoy = envoy(args.envoy.clone(), terminal).await?;
        terminal.remark("Starting a control plane.");
        let say = |line: &str| terminal.remark(line);
        let stage = if scenario.is_some_and(Scenario::follows_guide) {
            Stage::start_redirected(&envoy, timeout, say).await?
        } else {
            Stage::start(&envoy, timeout, say).await?
        };
        let (flows, caller) = (stage.flows(scenario.map_or(&[][..], |scenario| scenario.tolerated))?, Caller::new());
        terminal.remark("All proxies are started. Waiting until every call gets the expected answer.");
        stage.settle(&flows, &caller).await?;
        anyhow::Ok((stage, flows, caller))
    };
    let (mut stage, flows, caller) = tokio::select! {
        started = start => started?,
        () = signals.next() => anyhow::bail!("demo was interrupted while starting"),
    };
    let startup = before.elapsed();
    let api = stage.control_plane.http.map(|address| format!("http://{address}")).unwrap_or_default();
    let mut play = match scenario {
        Some(scenario) => Some(Play::start(scenario).await?),
        None => None,
    };
    let mut screen = Screen::new(args.json);
    screen.ready(&api, startup, || terminal.remark(&introduction(&api, startup, scenario)))?;

    let steady = Instant::now();
    let traffic = Traffic::start(&flows, args.rate, &caller);
    let mut clock = tokio::time::interval_at(tokio::time::Instant::now() + SECOND, SECOND);
    let mut steps = tokio::time::interval_at(tokio::time::Instant::now() + step, step);
    let end = tokio::time::sleep(limit.unwrap_or(Duration::MAX));
    tokio::pin!(end);
    loop {
        let sent: Vec<_> = stage.names().filter_map(|name| Sent::to(name, &stage.control_plane)).collect();
        tokio::select! {
            _ = clock.tick() => {
                let results = Results::new(traffic.tallies());
                if let Some(play) = &mut play {
                    play.second(&results);
                }
                let times = Times { startup, steady: steady.elapsed() };
                screen.show(&Shown { results: &results, sent: &sent, times, play: play.as_ref() })?;
            }
            _ = steps.tick(), if play.is_some() => {
                if let Some(play) = &mut play
                    && let Some(taken) = play.next(&stage.api, &caller, |name| stage.application(name), stage.guide.as_ref()).await?
                {
                    screen.step(&taken)?;
                }
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
    let times = Times { startup, steady: took };
    screen.last(&Shown { results: &results, sent: &sent, times, play: play.as_ref() })?;
    Ok(if results.are_fine() { Exit::Fine } else { Exit::Refused })
}

/// Prints the scenarios.
fn list(json: bool, terminal: Terminal) -> anyhow::Result<Exit> {
    if json {
        let scenarios = scenario::ALL.iter().map(|one| json!({"name": one.name, "about": one.about}));
        terminal.data(&Value::Array(scenarios.collect()).to_string())?;
        return Ok(Exit::Fine);
    }
    let mut table = Table::new(["SCENARIO", "SHOWS"]);
    for one in scenario::ALL {
        table.row([one.name.to_owned(), one.about.to_owned()]);
    }
    terminal.result(&table.show())?;
    Ok(Exit::Fine)
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

fn introduction(api: &str, startup: Duration, scenario: Option<&Scenario>) -> String {
    let guided = scenario.is_some_and(Scenario::follows_guide);
    let scenario = scenario.map(|one| format!("Scenario {}: {}.\n", one.name, one.about)).unwrap_or_default();
    let kodiak = format!("{} --cp {api}", this_program());
    let (services, proxies) = (SERVICES.len(), instances().len());
    let permission = EDGES.last().map(permission_name).unwrap_or_default();
    let (from, to) = (FORBIDDEN.from, FORBIDDEN.to);
    let took = startup.as_secs_f64();
    if guided {
        return format!(
            "\
Ready: {services} services with {proxies} transparent proxies, {took:.1} s after the start. Everybody may call everybody.
Try in another terminal:
  {kodiak} permissions observed
  {kodiak} reachability --without everyone
  {kodiak} why web db
{scenario}Stop it with Ctrl-C.
"
        );
    }
    format!(
        "\
Ready: {services} services with {proxies} proxies, {took:.1} s after the start. No permission allows {from} to call {to}.
Try in another terminal:
  {kodiak} get dataplanes
  {kodiak} get meshtrafficpermission {permission} -o yaml > permission.yaml
  {kodiak} delete meshtrafficpermission {permission}     its calls are denied, and count as failed
  {kodiak} apply -f permission.yaml     they are allowed again
{scenario}Stop it with Ctrl-C.
"
    )
}

//! A task of a control plane panics: the process exits with the name of the task, and another instance becomes leader.

use std::{env, process::Command};

use kodiak_cp::{
    Faults,
    config::{Sources, load},
};
use kodiak_testkit::postgres::Server;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::harness::{
    Mesh, Process, Setup,
    cluster::{address, change, leader, over},
    eventually, expect,
};

const TEST: &str = "panics::panicking_task_ends_the_process_and_another_instance_leads";
/// Settings, one in each line: this process is the control plane whose task panics at SIGUSR1.
const SETTINGS: &str = "KODIAK_TEST_PANICS";
const TASK: &str = "services";
const EXIT: i32 = 7;
/// So long that nobody leads because it has expired.
const LEASE_SECONDS: u32 = 600;

#[tokio::test(flavor = "multi_thread")]
async fn panicking_task_ends_the_process_and_another_instance_leads() {
    if let Ok(settings) = env::var(SETTINGS) {
        return control_plane(settings.lines().map(str::to_owned).collect()).await;
    }
    let Some(server) = Server::start() else { return };
    let database = server.create_database().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let setup = over(&database, address(&server), LEASE_SECONDS);
    let faulty = start(folder.path().to_str().unwrap(), setup);
    eventually("it leads", async || {
        let leads = leader(&server, &database);
        expect(!leads.is_empty(), (leads, faulty.printed()))
    })
    .await;
    let before = leader(&server, &database);
    let Some(other) = Mesh::without_mesh(setup).await else { return };
    assert_eq!(leader(&server, &database), before, "there is one leader, and it is the first");

    faulty.signal("-USR1");
    let (status, printed) = tokio::task::spawn_blocking(move || faulty.ended()).await.unwrap();
    assert_eq!(status.code(), Some(EXIT), "{printed}");
    assert!(printed.contains(&format!("task {TASK} failed: panicked: injected by a test")), "{printed}");
    assert!(printed.contains("panicked") && printed.contains(&format!("name=\"{TASK}\"")), "{printed}");
    eventually("the other one leads", async || {
        let leads = leader(&server, &database);
        expect(!leads.is_empty() && leads != before, leads)
    })
    .await;
    other.set(crate::harness::Mtls::Off).await;
    change(&other, 31).await;
}

/// This test once more, as a control plane.
fn start(folder: &str, setup: Setup) -> Process {
    let ports = [
        "apiServer.http.port=0",
        "apiServer.https.enabled=false",
        "dpServer.port=0",
        "diagnostics.serverPort=0",
        "diagnostics.healthPort=0",
        "monitoringAssignmentServer.port=0",
    ];
    let own = [format!("general.workDir={folder}"), "dpServer.interface=127.0.0.1".to_owned()];
    let settings = setup.settings.iter().chain(&ports).map(ToString::to_string).chain(own).collect::<Vec<_>>();
    let mut command = Command::new(env::current_exe().unwrap());
    Process::start(command.args(["--exact", TEST, "--nocapture"]).env(SETTINGS, settings.join("\n")))
}

async fn control_plane(flags: Vec<String>) {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let config = load(&Sources { flags, ..Sources::default() }).unwrap().config;
    let now = CancellationToken::new();
    let faults = Faults { engine: None, task: Some((TASK, now.clone())) };
    let mut signals = signal(SignalKind::user_defined1()).unwrap();
    let fault = async {
        signals.recv().await;
        now.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = fault => (),
        ended = kodiak_cp::run_with(config, faults) => {
            let error = ended.expect_err("only the signal ends it");
            eprintln!("Error: {error:#}");
            std::process::exit(EXIT);
        }
    }
}

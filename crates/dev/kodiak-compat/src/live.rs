//! Comparison with the real programs: records with kuma-cp, and kumactl against Kodiak.

use std::{
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context as _;

use crate::{call, command, report::Report, server::Server};

/// Time for kuma-cp to answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// Records in files, by the names of these.
type Files<T> = Vec<(String, Vec<T>)>;

pub(crate) async fn run(
    programs: &Path,
    calls: &Files<call::Recorded>,
    commands: &Files<command::Recorded>,
    filter: &str,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (kuma_cp, kumactl) = (command::program(programs, "kuma-cp")?, command::program(programs, "kumactl")?);
    for (file, calls) in calls {
        let kuma = KumaCp::start(&kuma_cp).await?;
        for call in calls {
            let reply = kuma.server.request(&call.request, &call.headers, call.body.as_ref()).await?;
            if call.name.contains(filter) {
                report.add("kuma-cp", &format!("{file}: {}", call.name), call.answer.differences(&reply));
            }
        }
    }
    for (file, commands) in commands {
        let server = Server::start().await?;
        let home = tempfile::tempdir()?;
        let start = |arguments: &[String]| {
            let mut command = Command::new(&kumactl);
            command.arg("--config-file").arg(home.path().join("kumactl")).args(arguments).env("HOME", home.path());
            command::output(&mut command, &kumactl)
        };
        let add = ["config", "control-planes", "add", "--name", "kodiak", "--address", &server.url].map(str::to_owned);
        let added = start(&add)?;
        report.add("kumactl live", &format!("{file}: config control-planes add"), added.differences(0, &[]));
        for recorded in commands {
            let ran = start(&command::arguments(recorded, home.path())?)?;
            let mut differences = ran.differences(0, &recorded.prints);
            if ran.printed.contains("WARNING: You are using kumactl version") {
                differences.push("prints a version warning".to_owned());
            }
            if recorded.kumactl.contains(filter) {
                report.add("kumactl live", &format!("{file}: kumactl {}", recorded.kumactl), differences);
            }
        }
        server.stop().await?;
    }
    Ok(())
}

/// Killed when it is dropped.
struct KumaCp {
    server: Server,
    process: Child,
    _folder: tempfile::TempDir,
}

impl KumaCp {
    /// With an empty store in memory.
    async fn start(program: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let ports = [
            "API_SERVER_HTTP_PORT",
            "API_SERVER_HTTPS_PORT",
            "DP_SERVER_PORT",
            "DIAGNOSTICS_SERVER_PORT",
            "MONITORING_ASSIGNMENT_SERVER_PORT",
            "INTER_CP_SERVER_PORT",
        ];
        let ports = ports.map(|name| (format!("KUMA_{name}"), free_port()));
        let mut command = Command::new(program);
        command.arg("run").env("HOME", folder.path()).env("KUMA_STORE_TYPE", "memory").current_dir(folder.path());
        let mut api = 0;
        for (name, port) in ports {
            let port = port?;
            if name.contains("HTTP_PORT") {
                api = port;
            }
            command.env(name, port.to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().with_context(|| program.display().to_string())?;
        let kuma = Self { server: Server::at(format!("http://127.0.0.1:{api}")), process, _folder: folder };
        let started = Instant::now();
        while !kuma
            .server
            .request("GET /meshes/default", &<_>::default(), None)
            .await
            .is_ok_and(|reply| reply.status == 200)
        {
            anyhow::ensure!(started.elapsed() < PATIENCE, "kuma-cp does not answer");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(kuma)
    }
}

impl Drop for KumaCp {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

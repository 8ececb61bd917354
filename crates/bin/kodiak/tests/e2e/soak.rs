//! Random faults for a long time, under load: `cargo xtask soak`. No request fails, nothing is sent in plain text, and at
//! the end all proxies have the configuration that a control plane without faults would send.

mod faults;

use std::{
    collections::BTreeMap,
    env, fs,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use kodiak_testkit::postgres::Server;
use serde_json::Value;

use crate::harness::{
    Capture, Dataplane, Door, Load, Loss, MESH, Mesh, Mtls, Service, Sidecar,
    cluster::{LEASE_SECONDS, address, change, over, until_changed},
    eventually, expect,
    network::run,
};
use faults::Fault;

const TEST: &str = "soak::faults_at_random";
/// For how many seconds. Without it there is no soak.
const SECONDS: &str = "KODIAK_SOAK";
const SEED: &str = "KODIAK_SOAK_SEED";
/// Names of faults; empty for all.
const FAULTS: &str = "KODIAK_SOAK_FAULTS";
/// This process is in namespaces of its own.
const INSIDE: &str = "KODIAK_SOAK_INSIDE";
/// Memory that a control plane may grow by, in addition to doubling.
const GROWTH_KIB: u64 = 64 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn faults_at_random() {
    let Ok(seconds) = env::var(SECONDS) else { return };
    let seed = env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    if env::var_os(INSIDE).is_some() {
        return soak(Duration::from_secs(seconds.parse().unwrap()), seed).await;
    }
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount"]).arg(env::current_exe().unwrap()).args(["--exact", TEST, "--nocapture"]);
    let status = command.env(INSIDE, "1").stdin(Stdio::null()).status().unwrap();
    assert!(status.success(), "the soak failed: {status}; run it again with --seed {seed}");
}

/// The same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }
}

struct Bed {
    server: Server,
    database: String,
    door: Door,
    loss: Loss,
    capture: Capture,
    meshes: Vec<Mesh>,
    clients: Vec<Sidecar>,
    loads: Vec<Load>,
    /// Each with the control plane that it is connected to.
    backends: Vec<(usize, Service, Sidecar)>,
    made: u32,
    seconds: u32,
    /// Number of the CA of the mesh.
    ca: u32,
}

async fn soak(time: Duration, seed: u64) {
    run("ip", &["link", "set", "lo", "up"]);
    let server = Server::start().expect("PostgreSQL is installed");
    let database = server.create_database().unwrap();
    let mut bed = Bed::start(server, &database).await;
    let started = Instant::now();
    let (mut random, mut counts) = (Random(seed.max(1)), BTreeMap::<Fault, u32>::new());
    let memory_before = bed.memory();
    let faults = faults::named(&env::var(FAULTS).unwrap_or_default());
    while started.elapsed() < time {
        let fault = faults[random.index(faults.len())];
        let at = started.elapsed().as_secs();
        println!("{at:>6} s  {fault:?}");
        bed = bed.suffer(fault, &mut random).await;
        bed.works(&mut random).await;
        bed.is_encrypted();
        *counts.entry(fault).or_default() += 1;
    }
    let memory_after = bed.memory();
    let requests = bed.end(&database).await;
    println!(
        "\nseed {seed}, {} s, {requests} requests, 0 failed, 0 packets in plain text",
        started.elapsed().as_secs()
    );
    for (fault, count) in counts {
        println!("{:<40} {count:>5}", format!("{fault:?}"));
    }
    println!("{:<40} {memory_before:?} -> {memory_after:?} KiB", "memory of the control planes");
    for (before, after) in memory_before.iter().zip(&memory_after) {
        assert!(*after < before * 2 + GROWTH_KIB, "a control plane grew from {before} to {after} KiB");
    }
}

impl Bed {
    async fn start(server: Server, database: &str) -> Self {
        let door = Door::open(address(&server)).await;
        let setup = over(database, door.address, LEASE_SECONDS);
        let one = Mesh::start_with(Mtls::Strict(vec![ca(1)]), setup).await.expect("there is an Envoy");
        let two = Mesh::without_mesh(over(database, address(&server), LEASE_SECONDS)).await.expect("there is an Envoy");
        one.permit_all().await;
        let (clients, loads) = (Vec::new(), Vec::new());
        let mut bed = Self {
            server,
            database: database.to_owned(),
            door,
            loss: Loss::none(),
            capture: Capture::start(),
            meshes: vec![one, two],
            clients,
            loads,
            backends: Vec::new(),
            made: 0,
            seconds: 1,
            ca: 1,
        };
        change(&bed.meshes[0], bed.seconds).await;
        for at in [0, 1, 0, 1] {
            bed.add_backend(at).await;
        }
        for (at, name) in ["client-1", "client-2"].iter().enumerate() {
            let client = bed.meshes[at].client_as(Dataplane::calling(name)).await;
            bed.loads.push(Load::on(&client));
            bed.clients.push(client);
        }
        bed
    }

    async fn add_backend(&mut self, at: usize) {
        self.made += 1;
        let (service, sidecar) = self.meshes[at].backend(&format!("backend-{}", self.made)).await;
        for inbound in [sidecar.dataplane.inbound(), sidecar.dataplane.inbound_tcp()] {
            self.capture.watch(inbound);
        }
        for workload in [service.address, service.address_tcp] {
            self.capture.watch_control(workload);
        }
        self.backends.push((at, service, sidecar));
    }

    async fn go_on(&self, requests: u64) {
        tokio::join!(self.loads[0].go_on(requests), self.loads[1].go_on(requests));
    }

    /// A change at either control plane reaches the proxies of both.
    async fn works(&mut self, random: &mut Random) {
        self.seconds += 1;
        change(&self.meshes[random.index(self.meshes.len())], self.seconds).await;
        for client in &self.clients {
            until_changed(client, self.seconds).await;
        }
        self.go_on(20).await;
    }

    /// Between proxies of the strict mesh, nothing was sent in plain text.
    fn is_encrypted(&self) {
        let (plain, control) = self.capture.counted();
        assert!(control > 0, "the capture does not see plain text where it is expected");
        assert_eq!(plain, 0, "packets in plain text between proxies of a strict mesh");
    }

    /// Resident memory of each control plane.
    fn memory(&self) -> Vec<u64> {
        let of = |mesh: &Mesh| {
            let status = fs::read_to_string(format!("/proc/{}/status", mesh.control_plane.log().id())).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
            line.trim().trim_end_matches(" kB").parse().unwrap()
        };
        self.meshes.iter().map(of).collect()
    }

    /// Compares what each proxy has with what a new control plane would send, and gives how many requests were answered.
    async fn end(self, database: &str) -> u64 {
        let fresh = Mesh::without_mesh(over(database, address(&self.server), LEASE_SECONDS)).await.unwrap();
        let of_clients = self.clients.iter().enumerate();
        let of_backends = self.backends.iter().map(|(at, _, backend)| (*at, backend));
        for (at, sidecar) in of_clients.chain(of_backends) {
            let path = format!("/meshes/{MESH}/dataplanes/{}/_config", sidecar.dataplane.name);
            eventually(&format!("{} has what a new control plane would send", sidecar.dataplane.name), async || {
                let [has, expected] = [&self.meshes[at], &fresh].map(|mesh| mesh.control_plane.get(&path));
                let (has, expected) = tokio::join!(has, expected);
                let [has, expected] = [has, expected].map(|answer| without_secrets(answer.fine().json()));
                expect(has == expected, format!("{has}\n--- but from scratch:\n{expected}"))
            })
            .await;
        }
        let mut answered = 0;
        for load in self.loads {
            answered += load.counted().0;
            load.end().await;
        }
        answered
    }
}

/// Backend of the mesh.
fn ca(number: u32) -> Value {
    Mtls::builtin(&format!("ca-{number}"))
}

/// Certificates are not made for a proxy that is not connected: not as secrets, and not for its admin listener.
fn without_secrets(mut config: Value) -> Value {
    config["xds"].as_object_mut().unwrap().retain(|type_url, _| !type_url.ends_with("Secret"));
    without_inline_bytes(&mut config);
    config
}

fn without_inline_bytes(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("inlineBytes");
            fields.values_mut().for_each(without_inline_bytes);
        }
        Value::Array(items) => items.iter_mut().for_each(without_inline_bytes),
        _ => (),
    }
}

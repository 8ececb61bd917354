//! From a mesh in which everybody may call everybody to one in which proxies have what they need, under load.

use std::{collections::BTreeSet, env};

use serde_json::{Value, json};

use super::{
    Guide, Participant, observing_mesh,
    participant::{self, name},
};
use crate::harness::{Generator, HttpVersion, MESH, Mesh, eventually, expect, network, path};

const TEST: &str = "trimming::migration::migrates_to_trimmed_proxies_without_a_failed_call";
/// Services with a machine and an Envoy of their own.
const PROXIES: u8 = 12;
/// The others have Dataplanes, and nobody calls them.
const SERVICES: u8 = 30;
/// Each service calls those with these distances.
const CALLS: [u8; 2] = [1, 5];

#[tokio::test(flavor = "multi_thread")]
async fn migrates_to_trimmed_proxies_without_a_failed_call() {
    if !Generator::obeyed().await && network::is_inside(TEST).await {
        migrates().await;
    }
}

async fn migrates() {
    let mesh = observing_mesh().await;
    let guide = Guide::open(&mesh);
    guide.run("Before you start");
    let mut participants = start(&mesh).await;
    let all: BTreeSet<String> = (0..SERVICES).map(name).collect();
    for each in &participants {
        eventually("it has all services", async || {
            let services = each.services().await;
            expect(services == all, services)
        })
        .await;
    }
    for (number, participant) in (0..PROXIES).zip(&mut participants) {
        let targets: Vec<String> = called_by(number).map(|service| format!("{service}.mesh:80")).collect();
        participant.application.visit(&targets).await;
    }
    let mut steps = Steps::default();
    let before = memory(&mut participants).await;

    eventually("all calls are observed", async || {
        let traffic = mesh.control_plane.get(&format!("/meshes/{MESH}/_traffic")).await.fine().json();
        let edges = traffic["edges"].as_array().map(Vec::len);
        expect(edges == Some(usize::from(PROXIES) * CALLS.len()), traffic)
    })
    .await;
    let observed = guide.run("1. Observe");
    assert!(observed.contains("svc-0") && observed.contains("svc-5"), "{observed}");
    steps.row("1 observe", &mut participants).await;

    guide.run("2. Draft");
    let drafted = guide.file("permissions.yaml");
    assert_eq!(drafted.matches("type: MeshTrafficPermission").count(), usize::from(PROXIES), "{drafted}");
    steps.row("2 draft", &mut participants).await;

    guide.run("3. Allow");
    until_settled(&mesh, &participants).await;
    steps.row("3 allow", &mut participants).await;

    // Nobody who called would lose anything.
    let report = guide.run("4. Shadow-trim");
    assert!(report.contains("svc-0") && report.contains("shadow"), "{report}");
    until_settled(&mesh, &participants).await;
    for number in 0..PROXIES {
        let now = consumer(&guide, number, "");
        assert_eq!((&now["mode"], &now["trimmed"]), (&"shadow".into(), &0.into()), "{now}");
        let denied = consumer(&guide, number, "--without everyone");
        assert_eq!(denied["trimmed"], usize::from(SERVICES) - CALLS.len(), "{denied}");
        assert_eq!((&denied["exempt"], &denied["used"]), (&json!(null), &json!([])), "{denied}");
    }
    steps.row("4 shadow-trim", &mut participants).await;

    // A call that nobody knew of is answered, and found in the traffic.
    let stray = "svc-3.mesh:80";
    assert_eq!(participants[0].application.try_once(stray).await.unwrap(), "svc-3");
    eventually("the check finds the call", async || {
        let checked = guide.bash("kodiak permissions check --delete meshtrafficpermission/everyone");
        expect(checked.as_ref().is_err_and(|found| found.contains("svc-0") && found.contains("svc-3")), checked)
    })
    .await;

    // A server admits everybody, so nobody loses anything.
    let preview = guide.run("5. Trim");
    assert!(preview.contains("REMOVED CLUSTERS") && preview.contains("svc-29"), "{preview}");
    until_settled(&mesh, &participants).await;
    for participant in &participants {
        assert_eq!(participant.services().await, all);
    }
    assert_eq!(participants[0].application.try_once(stray).await.unwrap(), "svc-3");
    steps.row("5 trim", &mut participants).await;

    guide.run("6. Enforce");
    for (number, participant) in (0..PROXIES).zip(&participants) {
        let expected: BTreeSet<String> = called_by(number).collect();
        eventually(&format!("{number} has the services that it calls"), async || {
            let services = participant.services().await;
            expect(services == expected, services)
        })
        .await;
    }
    for number in 0..PROXIES {
        let consumer = consumer(&guide, number, "");
        assert_eq!(consumer["trimmed"], usize::from(SERVICES) - CALLS.len(), "{consumer}");
        let used: Vec<_> = consumer["used"].as_array().unwrap().iter().map(|used| &used["destination"]).collect();
        assert_eq!(used.len(), usize::from(number == 0), "only the call that nobody knew of: {consumer}");
    }
    let answer = participants[0].application.answer(HttpVersion::Http1, stray).await.unwrap();
    assert_eq!((answer.status, answer.headers["x-kodiak-reason"].as_str()), (403, "unreachable"), "{answer:?}");
    steps.row("6 enforce", &mut participants).await;
    let after = memory(&mut participants).await;

    // The way back of step 5 gives all destinations back; the servers still deny.
    guide.bash("sed -i 's|kodiak.io/reachability: .*|kodiak.io/reachability: \"off\"|' mesh.yaml; kodiak apply -f mesh.yaml").unwrap();
    for participant in &participants {
        eventually("it has all services again", async || {
            let services = participant.services().await;
            expect(services == all, services)
        })
        .await;
    }
    let denied = participants[0].application.answer(HttpVersion::Http1, stray).await.unwrap();
    assert_eq!((denied.status, denied.text.as_str()), (403, "RBAC: access denied"));
    steps.row("5 back", &mut participants).await;

    steps.end();
    let mib = |kib: u64| kib / 1024 / u64::from(PROXIES);
    println!("clusters of services: {} -> {}", all.len(), CALLS.len());
    println!("memory of an Envoy: {} MiB resident -> {} MiB", mib(before.0), mib(after.0));
    println!("allocated by an Envoy: {} KiB -> {} KiB", before.1 / u64::from(PROXIES), after.1 / u64::from(PROXIES));
    assert!(after.1 < before.1, "{before:?} {after:?}");
}

async fn start(mesh: &Mesh) -> Vec<Participant> {
    for number in PROXIES..SERVICES {
        let tags = json!({ "kuma.io/service": name(number), "kuma.io/protocol": "http" });
        let networking =
            json!({ "address": format!("10.9.200.{number}"), "inbound": [{ "port": 8080, "tags": tags }] });
        let document = json!({ "type": "Dataplane", "mesh": MESH, "name": name(number), "networking": networking });
        mesh.control_plane.put(&path("Dataplane", &name(number)), &document).await;
    }
    let user = network::proxy_user(mesh.folder());
    let program = network::visible(&env::current_exe().unwrap(), &mesh.folder().join("test"));
    let mut participants = Vec::new();
    for number in 0..PROXIES {
        participants.push(Participant::start(mesh, &user, number, (&program, TEST), &[]).await);
    }
    for participant in &participants {
        participant.sidecar.wait_until_ready().await;
    }
    participants
}

/// Report of `kodiak reachability` about a proxy.
fn consumer(guide: &Guide, number: u8, flag: &str) -> Value {
    let report = guide.bash(&format!("kodiak reachability {flag} -o json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let name = json!(name(number));
    let found = report["items"].as_array().unwrap().iter().find(|consumer| consumer["dataplane"] == name);
    found.unwrap_or_else(|| panic!("{report}")).clone()
}

fn called_by(number: u8) -> impl Iterator<Item = String> {
    CALLS.iter().map(move |distance| participant::name((number + distance) % PROXIES))
}

async fn until_settled(mesh: &Mesh, participants: &[Participant]) {
    for participant in participants {
        eventually("its proxy has acknowledged", async || participant.is_settled(mesh).await).await;
    }
}

/// Of all Envoys together, in KiB.
async fn memory(participants: &mut [Participant]) -> (u64, u64) {
    let mut sum = (0, 0);
    for participant in participants {
        let (resident, allocated) = participant.memory().await;
        sum = (sum.0 + resident, sum.1 + allocated);
    }
    sum
}

/// Requests of each step.
#[derive(Default)]
struct Steps {
    rows: Vec<(&'static str, u64, u64)>,
    failures: Vec<String>,
}

impl Steps {
    /// Lets every application have some more answers, so that what was changed is in use.
    async fn row(&mut self, step: &'static str, participants: &mut [Participant]) {
        let (mut answered, mut failed) = (0, 0);
        self.failures.clear();
        for participant in participants {
            participant.application.go_on(2).await;
            let counts = participant.application.counted().await;
            answered += counts.answered;
            failed += counts.failed;
            self.failures.extend(counts.failures);
        }
        self.rows.push((step, answered, failed));
        assert_eq!(failed, 0, "{step}: {}", self.failures.join("\n"));
    }

    fn end(&self) {
        println!("\n{:16} {:>8} {:>8}", "step", "answered", "failed");
        for (step, answered, failed) in &self.rows {
            println!("{step:16} {answered:>8} {failed:>8}");
        }
    }
}

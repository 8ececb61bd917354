//! Two control planes with one PostgreSQL, proxies connected to both, and faults one after the other. No request fails.

use std::path::Path;

use kodiak_testkit::postgres::Server;
use serde_json::json;

use crate::harness::{
    Door, Load, Mesh, Mtls, Service, Sidecar,
    cluster::{LEASE_SECONDS, address, change, leader, over, until_calls, until_changed},
    eventually, expect,
    network::{self, run},
};

const DATABASE_TEST: &str = "cluster::database_restarts_is_full_and_loses_commits_under_load";

/// A server and a caller at each control plane.
struct Bed {
    one: Mesh,
    two: Mesh,
    clients: [Sidecar; 2],
    loads: [Load; 2],
    backends: [(Service, Sidecar); 2],
}

impl Bed {
    async fn start(one: Mesh, two: Mesh) -> Self {
        one.permit_all().await;
        change(&one, 31).await;
        let backends = [one.backend("backend-1").await, two.backend("backend-2").await];
        let calling = |name: &str| crate::harness::Dataplane::calling(name);
        let clients = [one.client_as(calling("client-1")).await, two.client_as(calling("client-2")).await];
        for client in &clients {
            for (_, backend) in &backends {
                until_calls(client, backend.dataplane.inbound()).await;
            }
            until_changed(client, 31).await;
        }
        let loads = [Load::on(&clients[0]), Load::on(&clients[1])];
        Self { one, two, clients, loads, backends }
    }

    async fn go_on(&self, requests: u64) {
        tokio::join!(self.loads[0].go_on(requests), self.loads[1].go_on(requests));
    }

    async fn until_changed(&self, seconds: u32) {
        for client in &self.clients {
            until_changed(client, seconds).await;
        }
    }

    async fn end(self) {
        for load in self.loads {
            load.end().await;
        }
        drop(self.backends);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn control_plane_is_killed_hangs_and_loses_the_database_under_load() {
    let Some(server) = Server::start() else { return };
    let database = server.create_database().unwrap();
    let mut door = Door::open(address(&server)).await;
    let setup = over(&database, door.address, LEASE_SECONDS);
    let Some(one) = Mesh::start_with(Mtls::Strict(vec![Mtls::builtin("ca-1")]), setup).await else { return };
    let two = Mesh::without_mesh(over(&database, address(&server), LEASE_SECONDS)).await.expect("there is an Envoy");
    let mut bed = Bed::start(one, two).await;

    // It is killed. The other one becomes the leader, and its writes reach its proxies.
    let before = leader(&server, &database);
    let Bed { one, two, clients, loads, backends } = bed;
    let one = one
        .crash(async || {
            change(&two, 32).await;
            until_changed(&clients[1], 32).await;
            loads[0].go_on(30).await;
            eventually("the other one leads", async || {
                let leads = leader(&server, &database);
                expect(!leads.is_empty() && leads != before, leads)
            })
            .await;
        })
        .await;
    bed = Bed { one, two, clients, loads, backends };
    bed.until_changed(32).await;

    // The leader hangs for longer than its lease, and resumes.
    let before = leader(&server, &database);
    bed.two.control_plane.log().signal("-STOP");
    change(&bed.one, 33).await;
    until_changed(&bed.clients[0], 33).await;
    eventually("the other one leads", async || {
        let leads = leader(&server, &database);
        expect(!leads.is_empty() && leads != before, leads)
    })
    .await;
    bed.go_on(30).await;
    bed.two.control_plane.log().signal("-CONT");
    bed.until_changed(33).await;
    change(&bed.two, 34).await;
    bed.until_changed(34).await;

    // It cannot reach the database. Writes of the other one arrive when it reconnects.
    door.close().await;
    change(&bed.two, 35).await;
    until_changed(&bed.clients[1], 35).await;
    bed.go_on(30).await;
    assert!(bed.one.control_plane.get("/meshes").await.status.is_success(), "reads do not need the database");
    door.open_again().await;
    bed.until_changed(35).await;
    change(&bed.one, 36).await;
    bed.until_changed(36).await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn database_restarts_is_full_and_loses_commits_under_load() {
    if network::is_inside(DATABASE_TEST).await {
        database_fails().await;
    }
}

async fn database_fails() {
    run("ip", &["link", "set", "lo", "up"]);
    let disk = tempfile::tempdir().unwrap();
    run("mount", &["-t", "tmpfs", "-o", "size=256m,mode=0777", "tmpfs", disk.path().to_str().unwrap()]);
    // Write-ahead logs are recycled and not grown.
    let Some(mut server) = Server::start_in(disk.path(), &["max_wal_size=32MB", "min_wal_size=32MB"]) else { return };
    let database = server.create_database().unwrap();
    let setup = || over(&database, address(&server), LEASE_SECONDS);
    let one = Mesh::start_with(Mtls::Strict(vec![Mtls::builtin("ca-1")]), setup()).await.expect("there is an Envoy");
    let two = Mesh::without_mesh(setup()).await.expect("there is an Envoy");
    let bed = Bed::start(one, two).await;

    // It restarts.
    server.stop().unwrap();
    bed.go_on(30).await;
    server.run().unwrap();
    change(&bed.two, 32).await;
    bed.until_changed(32).await;

    // Its disk is full: writes are refused, and nothing else happens.
    let filler = disk.path().join("filler");
    fill(&filler);
    let mut refused = None;
    for number in 0..200 {
        let (path, document) = large(number);
        let answer = bed.one.control_plane.try_put(&path, &document).await.unwrap();
        if !answer.status.is_success() {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("a full disk takes no write");
    assert!(refused.status.is_server_error(), "{refused:?}");
    bed.go_on(30).await;
    std::fs::remove_file(&filler).unwrap();
    if server.query(&database, "SELECT 1").is_err() {
        // PostgreSQL ends where it cannot write its log; whoever runs it starts it again.
        server.stop().unwrap();
        server.run().unwrap();
    }
    change(&bed.one, 33).await;
    bed.until_changed(33).await;

    // It fails over to a copy without the last commits: what they changed is undone everywhere, and nothing else.
    server.stop().unwrap();
    server.save("replica").unwrap();
    server.run().unwrap();
    change(&bed.two, 34).await;
    bed.until_changed(34).await;
    server.stop().unwrap();
    server.put_back("replica").unwrap();
    server.run().unwrap();
    bed.until_changed(33).await;
    change(&bed.one, 35).await;
    bed.until_changed(35).await;
    bed.go_on(30).await;
    bed.end().await;
}

fn fill(file: &Path) {
    // Ends with an error where nothing is left, which is what is wanted.
    let output = std::process::Command::new("dd")
        .args(["if=/dev/zero", &format!("of={}", file.display()), "bs=64k"])
        .output()
        .unwrap();
    assert!(!output.status.success(), "the disk is not full");
}

/// A secret of some size.
fn large(number: u32) -> (String, serde_json::Value) {
    let (name, data) = (format!("large-{number}"), "QUJD".repeat(50_000));
    (format!("/globalsecrets/{name}"), json!({ "type": "GlobalSecret", "name": name, "data": data }))
}

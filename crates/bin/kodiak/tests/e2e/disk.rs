//! The disk of the control plane is full, and then has room again. No request fails.

use std::process::Command;

use serde_json::json;

use crate::harness::{
    Load, Mesh, Mtls, Setup,
    cluster::{change, until_changed},
    network::{self, run},
};

const TEST: &str = "disk::full_disk_rejects_writes_only";

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_rejects_writes_only() {
    if network::is_inside(TEST).await {
        fill_and_free().await;
    }
}

async fn fill_and_free() {
    run("ip", &["link", "set", "lo", "up"]);
    let disk = tempfile::tempdir().unwrap();
    let folder = disk.path().to_str().unwrap();
    run("mount", &["-t", "tmpfs", "-o", "size=16m", "tmpfs", folder]);
    let file: &'static str = format!("store.file.path={folder}/kodiak.redb").leak();
    let setup = Setup { settings: vec![file].leak(), ..Setup::default() };
    let mtls = Mtls::Strict(vec![Mtls::builtin("ca-1")]);
    let mesh = Mesh::start_with(mtls, setup).await.expect("there is an Envoy");
    mesh.permit_all().await;
    change(&mesh, 31).await;
    let (_service, _backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    until_changed(&client, 31).await;
    let load = Load::on(&client);

    let filler = disk.path().join("filler");
    let dd = Command::new("dd").args(["if=/dev/zero", &format!("of={}", filler.display()), "bs=4k"]).output().unwrap();
    assert!(!dd.status.success(), "the disk is not full");
    let mut refused = None;
    for number in 0..300 {
        let (name, data) = (format!("large-{number}"), "QUJD".repeat(50_000));
        let document = json!({ "type": "GlobalSecret", "name": name, "data": data });
        let answer = mesh.control_plane.try_put(&format!("/globalsecrets/{name}"), &document).await.unwrap();
        if !answer.status.is_success() {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("a full disk takes no write");
    assert!(refused.status.is_server_error(), "{refused:?}");
    load.go_on(150).await;
    assert!(mesh.control_plane.get("/meshes/shop").await.status.is_success(), "reads do not need the disk");

    std::fs::remove_file(&filler).unwrap();
    change(&mesh, 32).await;
    until_changed(&client, 32).await;
    load.go_on(50).await;
    load.end().await;
}

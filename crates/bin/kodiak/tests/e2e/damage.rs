//! The store file is damaged while the control plane is down, and restored from a backup. No request fails.

use std::{fs, path::Path, process::Command};

use crate::harness::{
    Load, Mesh, Mtls,
    cluster::{change, until_changed},
};

#[tokio::test(flavor = "multi_thread")]
async fn damaged_store_is_rejected_and_restored_under_load() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    mesh.permit_all().await;
    change(&mesh, 31).await;
    let (_service, _backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    until_changed(&client, 31).await;
    let load = Load::on(&client);

    let folder = mesh.folder().to_owned();
    let (store, backup) = (folder.join("kodiak.redb"), folder.join("kodiak.backup"));
    let (store_path, backup_path) = (store.to_str().unwrap(), backup.to_str().unwrap());
    let api = format!("http://{}", mesh.control_plane.api());
    kodiak(&folder, &["--cp", &api, "store", "backup", backup_path]).unwrap();
    let mesh = mesh
        .crash(async || {
            damage(&store);
            for command in
                [&["run", "--data-dir", folder.to_str().unwrap()][..], &["store", "check", "--path", store_path]]
            {
                let refused = kodiak(&folder, command).unwrap_err();
                assert!(refused.contains("kodiak store restore"), "the repair is not named: {refused}");
            }
            load.go_on(150).await;
            kodiak(&folder, &["store", "restore", backup_path, "--path", store_path, "--force"]).unwrap();
        })
        .await;
    change(&mesh, 32).await;
    until_changed(&client, 32).await;
    load.go_on(50).await;
    load.end().await;
}

/// Flips a bit in every copy of the timeout that the mesh has.
fn damage(store: &Path) {
    const CONTENT: &[u8] = b"connectionTimeout";
    let mut bytes = fs::read(store).unwrap();
    let found: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(CONTENT)).collect();
    assert!(!found.is_empty(), "the file has no such record");
    for at in found {
        bytes[at + 3] ^= 1;
    }
    fs::write(store, bytes).unwrap();
}

/// Output of the command; an error unless its exit code is 0.
fn kodiak(home: &Path, args: &[&str]) -> Result<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_kodiak")).args(args).env("HOME", home).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    if output.status.success() { Ok(printed) } else { Err(printed) }
}

//! The clock of the control plane jumps by an hour, in both directions. No request fails, and all proxies stay online.

use std::{fs, path::Path};

use jiff::{SignedDuration, Timestamp};
use kodiak_testkit::skip::{Need, skip};
use serde_json::{Value, json};

use crate::harness::{
    Load, Mesh, Mtls, Setup,
    cluster::{change, timeout, until_changed},
    eventually, expect,
};

/// Where Debian keeps it.
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

/// Short enough that an hour makes a difference: within two, every proxy gets another certificate.
fn backend() -> Value {
    json!({ "name": "ca-1", "type": "builtin", "dpCert": { "rotation": { "expiration": "4h" } } })
}

#[tokio::test(flavor = "multi_thread")]
async fn clock_jumps_by_an_hour_under_load() {
    if !Path::new(LIBRARY).exists() {
        return skip(Need::Program, "there is no libfaketime");
    }
    let folder = tempfile::tempdir().unwrap();
    let clock: &'static str = folder.path().join("clock").to_str().unwrap().to_owned().leak();
    set(clock, "+0");
    let environment = vec![
        ("LD_PRELOAD", LIBRARY),
        ("FAKETIME_TIMESTAMP_FILE", clock),
        ("FAKETIME_NO_CACHE", "1"),
        // As the system does it: only the clock on the wall jumps.
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let setup = Setup { environment: environment.leak(), ..Setup::default() };
    let Some(mesh) = Mesh::start_with(Mtls::Strict(vec![backend()]), setup).await else { return };
    mesh.permit_all().await;
    change(&mesh, 31).await;
    let (_service, _backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    until_changed(&client, 31).await;
    let load = Load::on(&client);

    for (seconds, (jump, hours)) in (32..).zip([("+1h", 1), ("+0", 0), ("-1h", -1), ("+0", 0)]) {
        set(clock, jump);
        let (path, _) = timeout(seconds);
        eventually(&format!("the control plane has a clock at {jump}"), async || {
            change(&mesh, seconds).await;
            let modified = mesh.control_plane.get(&path).await.fine().json()["modificationTime"].clone();
            let modified: Timestamp = modified.as_str().unwrap().parse().unwrap();
            let off = modified - SignedDuration::from_hours(hours) - Timestamp::now();
            expect(SignedDuration::try_from(off).unwrap().abs() < SignedDuration::from_mins(5), modified)
        })
        .await;
        load.go_on(150).await;
        let dataplanes = mesh.control_plane.get("/meshes/shop/dataplanes").await.fine().json();
        assert_eq!(dataplanes["total"], 2, "at {jump}: {dataplanes}");
    }
    // The clock is right again: all are connected, and changes arrive.
    eventually("both proxies are connected", async || {
        let proxies = mesh.control_plane.metric("kodiak_xds_proxies").await;
        expect(proxies == 2, proxies)
    })
    .await;
    change(&mesh, 40).await;
    until_changed(&client, 40).await;
    load.go_on(50).await;
    load.end().await;
}

/// In one go: it is read all the time.
fn set(clock: &str, offset: &str) {
    let new = format!("{clock}.new");
    fs::write(&new, format!("{offset}\n")).unwrap();
    fs::rename(new, clock).unwrap();
}

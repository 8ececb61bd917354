//! Control planes over one PostgreSQL, and a change that shows whether they work.

use std::net::SocketAddr;

use hyper::StatusCode;
use kodiak_testkit::postgres::{HOST, Server, USER};
use serde_json::{Value, json};

use super::{Mesh, Setup, Sidecar, eventually, expect, path};

/// Short, so that another one leads soon.
pub(crate) const LEASE_SECONDS: u32 = 3;

/// Settings of a control plane over this database. They are as long as the process, as all of [`Setup`].
pub(crate) fn over(database: &str, at: SocketAddr, lease_seconds: u32) -> Setup {
    let settings = [
        "store.type=postgres".to_owned(),
        "store.sealSecrets=false".to_owned(),
        format!("store.postgres.host={}", at.ip()),
        format!("store.postgres.port={}", at.port()),
        format!("store.postgres.user={USER}"),
        format!("store.postgres.dbName={database}"),
        "store.postgres.pollIntervalSeconds=1".to_owned(),
        format!("store.postgres.leaseSeconds={lease_seconds}"),
    ];
    let settings: Vec<&'static str> = settings.map(|setting| &*setting.leak()).into();
    Setup { settings: settings.leak(), ..Setup::default() }
}

pub(crate) fn address(server: &Server) -> SocketAddr {
    SocketAddr::new(HOST.parse().unwrap(), server.port())
}

/// The instance that leads, as the database says.
pub(crate) fn leader(server: &Server, database: &str) -> String {
    let holder = "SELECT holder FROM kodiak_lease WHERE expires > clock_timestamp()";
    server.query(database, holder).unwrap_or_default()
}

/// The policy that tests change to see whether a change arrives.
pub(crate) fn timeout(seconds: u32) -> (String, Value) {
    let to = json!([{ "targetRef": { "kind": "Mesh" }, "default": { "connectionTimeout": format!("{seconds}s") } }]);
    let spec = json!({ "targetRef": { "kind": "Mesh" }, "to": to });
    let document = json!({ "type": "MeshTimeout", "mesh": super::MESH, "name": "changing", "spec": spec });
    (path("MeshTimeout", "changing"), document)
}

/// Writes it through this control plane, as soon as that can.
pub(crate) async fn change(mesh: &Mesh, seconds: u32) {
    let (path, document) = timeout(seconds);
    eventually("the change is written", async || {
        let answer = mesh.control_plane.try_put(&path, &document).await?;
        expect(answer.status.is_success(), answer)
    })
    .await;
}

/// Until this Envoy has it.
pub(crate) async fn until_changed(sidecar: &Sidecar, seconds: u32) {
    eventually(&format!("{} has {seconds} s", sidecar.dataplane.name), async || {
        let dump = sidecar.admin("/config_dump?resource=dynamic_active_clusters").await?;
        let found =
            dump.status == StatusCode::OK && dump.text.contains(&format!("\"connect_timeout\": \"{seconds}s\""));
        expect(found, dump.text.lines().filter(|line| line.contains("connect_timeout")).collect::<Vec<_>>())
    })
    .await;
}

/// Until this Envoy calls that proxy.
pub(crate) async fn until_calls(sidecar: &Sidecar, endpoint: SocketAddr) {
    eventually(&format!("{} calls {endpoint}", sidecar.dataplane.name), async || {
        let clusters = sidecar.admin("/clusters").await?.text;
        expect(clusters.contains(&format!("::{endpoint}::")), clusters)
    })
    .await;
}

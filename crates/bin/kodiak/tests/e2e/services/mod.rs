//! MeshServices: migration and rollback, status, and external services.

mod consumer;
mod external;
mod migration;
mod policies;
mod status;
mod table;

use std::{collections::BTreeMap, net::SocketAddr};

use serde_json::{Value, json};

use consumer::Consumer;
use table::Table;

use crate::harness::{Dataplane, MESH, Mesh, Sidecar, eventually, expect, get, workload_address};

/// Until there is such a MeshService in this state, with an address, which is returned.
async fn until_service(mesh: &Mesh, name: &str, state: &str) -> String {
    eventually(&format!("{name} is {state}"), async || {
        let service = mesh.mesh_service(name).await.unwrap_or_default();
        let address = service["status"]["vips"][0]["ip"].as_str().unwrap_or_default();
        let hostname = &service["status"]["addresses"][0]["hostname"];
        let fine = service["spec"]["state"] == state && *hostname == format!("{name}.svc.mesh.local");
        expect(fine && !address.is_empty(), &service).map(|()| address.to_owned())
    })
    .await
}

/// A proxy that calls what these references mean, and nothing else.
async fn calling(mesh: &Mesh, references: &[Value]) -> Sidecar {
    let client = Dataplane::at("client", workload_address());
    mesh.sidecar(references.iter().fold(client, Dataplane::also_calling_ref)).await
}

/// Writes a MeshService by hand: port 80 of what this proxy serves.
async fn mesh_service(mesh: &Mesh, name: &str, served_by: &Sidecar) {
    let dataplane = &served_by.dataplane;
    let ports = json!([{ "port": 80, "targetPort": dataplane.inbound().port(), "appProtocol": "http" }]);
    let spec = json!({ "selector": { "dataplaneRef": { "name": dataplane.name } }, "ports": ports });
    let labels = json!({ "team": "shop" });
    let document = json!({ "type": "MeshService", "mesh": MESH, "name": name, "labels": labels, "spec": spec });
    mesh.control_plane.put(&format!("/meshes/{MESH}/meshservices/{name}"), &document).await;
}

/// Who answers so many calls, how often. All must be answered by somebody.
async fn answers(outbound: SocketAddr, calls: u32) -> Result<BTreeMap<String, u32>, String> {
    let mut answers = BTreeMap::new();
    for _ in 0..calls {
        let answer = get(outbound, "/").await?;
        expect(answer.status.is_success(), &answer)?;
        *answers.entry(answer.text).or_default() += 1;
    }
    Ok(answers)
}

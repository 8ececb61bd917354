//! Resources of the demo: Mesh, policies, and the Dataplane of each proxy.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::graph::{EDGES, Edge, Instance};

/// Default mesh of all commands.
pub(super) const MESH: &str = "default";

/// Port of the inbound of a proxy with a machine of its own.
const INBOUND: u16 = 8080;

/// Kind, name and resource.
pub(super) type Document = (&'static str, String, Value);

/// Mesh with mutual TLS, and one permission per allowed call.
pub(super) fn documents() -> Vec<Document> {
    let mesh = json!({
        "type": "Mesh",
        "name": MESH,
        "mtls": {
            "enabledBackend": "ca-1",
            "backends": [{"name": "ca-1", "type": "builtin", "mode": "STRICT"}],
        },
    });
    let mut documents = vec![("Mesh", MESH.to_owned(), mesh)];
    documents.extend(EDGES.iter().map(permission));
    documents
}

pub(super) fn permission_name(edge: &Edge) -> String {
    format!("{}-to-{}", edge.from, edge.to)
}

/// SPIFFE ID of a service.
pub(super) fn identity(service: &str) -> String {
    format!("spiffe://{MESH}/{service}")
}

fn permission(edge: &Edge) -> Document {
    let name = permission_name(edge);
    let document = json!({
        "type": "MeshTrafficPermission",
        "mesh": MESH,
        "name": name,
        "spec": {
            "targetRef": {"kind": "Dataplane", "labels": {"app": edge.to}},
            "rules": [{"default": {"allow": [{"spiffeID": {"type": "Exact", "value": identity(edge.from)}}]}}],
        },
    });
    ("MeshTrafficPermission", name, document)
}

/// Ports of a proxy.
pub(super) struct Ports {
    pub(super) inbound: u16,
    /// Port of the application.
    pub(super) application: u16,
    /// Called services, and the ports of their outbounds.
    pub(super) outbounds: Vec<(&'static str, u16)>,
}

pub(super) fn dataplane(instance: &Instance, ports: &Ports) -> Value {
    let Instance { service, name, version } = instance;
    let outbounds = ports
        .outbounds
        .iter()
        .map(|(to, port)| json!({"address": "127.0.0.1", "port": port, "tags": {"kuma.io/service": to}}));
    json!({
        "type": "Dataplane",
        "mesh": MESH,
        "name": name,
        "labels": {"app": service},
        "networking": {
            "address": "127.0.0.1",
            "inbound": [{
                "port": ports.inbound,
                "servicePort": ports.application,
                "tags": {"kuma.io/service": service, "kuma.io/protocol": "http", "version": version},
            }],
            "outbound": outbounds.collect::<Vec<_>>(),
        },
    })
}

/// For a transparent proxy on a machine of its own, whose settings it tells the control plane.
pub(super) fn dataplane_on(instance: &Instance, address: Ipv4Addr, application: u16) -> Value {
    let Instance { service, name, version } = instance;
    json!({
        "type": "Dataplane",
        "mesh": MESH,
        "name": name,
        "labels": {"app": service},
        "networking": {
            "address": address,
            "inbound": [{
                "port": INBOUND,
                "servicePort": application,
                "tags": {"kuma.io/service": service, "kuma.io/protocol": "http", "version": version},
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::graph::instances;
    use super::*;

    #[test]
    fn all_resources_are_valid() {
        let ports = Ports { inbound: 10, application: 11, outbounds: vec![("api", 12)] };
        let mut all: Vec<_> = documents().into_iter().map(|(_, _, document)| document).collect();
        all.push(dataplane(&instances()[0], &ports));
        all.push(dataplane_on(&instances()[0], Ipv4Addr::new(198, 18, 0, 1), 8000));
        for document in all {
            let shown = document.to_string();
            let draft = kodiak_kinds::draft(document);
            assert!(draft.is_ok(), "{shown}");
        }
    }
}

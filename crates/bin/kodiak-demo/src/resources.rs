//! The demo in the language of the mesh: what is applied, and what each proxy brings.

use serde_json::{Value, json};

use super::graph::{EDGES, Edge};

/// The one that commands mean when nothing else is said.
pub(super) const MESH: &str = "default";

/// The kind of a resource, its name, and the resource.
pub(super) type Document = (&'static str, String, Value);

/// The mesh with mutual TLS, and one permission for each call.
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

/// As which a service shows itself with a certificate of the mesh.
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

/// Where one proxy listens, and for whom.
pub(super) struct Ports {
    pub(super) inbound: u16,
    /// Of the application.
    pub(super) application: u16,
    /// Whom it calls, and the port on which Envoy takes the calls.
    pub(super) outbounds: Vec<(&'static str, u16)>,
}

pub(super) fn dataplane(name: &str, service: &str, ports: &Ports) -> Value {
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
                "tags": {"kuma.io/service": service, "kuma.io/protocol": "http"},
            }],
            "outbound": outbounds.collect::<Vec<_>>(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_understood_in_full() {
        let ports = Ports { inbound: 10, application: 11, outbounds: vec![("api", 12)] };
        let mut all: Vec<_> = documents().into_iter().map(|(_, _, document)| document).collect();
        all.push(dataplane("web-1", "web", &ports));
        for document in all {
            let shown = document.to_string();
            let draft = kodiak_kinds::draft(document);
            assert!(draft.is_ok(), "{shown}");
        }
    }
}

//! Resources in Kubernetes format, for migrations to a cluster.

use kodiak_model::{Access, Kind, Scope, Shape, labels};
use kodiak_store::Record;
use serde_json::{Value, json};

/// Default namespace of the control plane.
pub(crate) const SYSTEM_NAMESPACE: &str = "kuma-system";

/// Cluster-scoped kinds.
const OF_CLUSTER: [&str; 2] = ["Mesh", "Zone"];

pub(crate) fn resource(kind: &Kind, record: &Record, namespace: &str) -> Value {
    let mut metadata = json!({ "name": labels::display_name(&record.labels, &record.key.name) });
    if !OF_CLUSTER.contains(&kind.name) {
        metadata["namespace"] = json!(namespace);
    }
    let mut marked = (*record.labels).clone();
    if kind.scope == Scope::Mesh {
        marked.entry(labels::MESH.to_owned()).or_insert_with(|| record.key.mesh.to_string());
    }
    if !marked.is_empty() {
        metadata["labels"] = json!(marked);
    }
    let spec: Value = serde_json::from_str(&record.spec).unwrap_or_default();
    if kind.access == Access::Admin {
        return secret(kind, &metadata, &spec);
    }
    let mut resource = json!({ "apiVersion": "kuma.io/v1alpha1", "kind": kind.name });
    if kind.scope == Scope::Mesh && kind.shape == Shape::Legacy {
        resource["mesh"] = json!(&*record.key.mesh);
    }
    resource["metadata"] = metadata;
    resource["spec"] = spec;
    resource
}

/// Secrets become Kubernetes Secrets.
fn secret(kind: &Kind, metadata: &Value, spec: &Value) -> Value {
    let secret_type = match kind.scope {
        Scope::Mesh => "system.kuma.io/secret",
        Scope::Global => "system.kuma.io/global-secret",
    };
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": secret_type,
        "data": { "value": spec["data"] },
    })
}

//! What is changed in resources so that they can be applied elsewhere.

use kodiak_kinds::Kind;
use kodiak_model::labels;
use serde_json::{Value, json};

#[derive(Debug, Clone, Copy)]
pub(super) struct Opts {
    /// They go to a global control plane, where nothing is of the origin `zone`.
    pub(super) federation: bool,
    /// Secrets go along, and so do the certificate authorities.
    pub(super) secrets: bool,
}

/// Set by each control plane for itself.
const OF_THE_SERVER: [&str; 5] = ["creationTime", "modificationTime", "kri", "snis", "status"];

/// Authorities between control planes and their proxies: with those of another one TLS would fail.
const OF_THE_CONTROL_PLANE: [&str; 2] = ["envoy-admin-ca", "inter-cp-ca"];

pub(super) fn prepare(kind: &Kind, items: &mut Vec<Value>, opts: Opts) {
    if kind.name == "GlobalSecret" {
        items.retain(|item| !OF_THE_CONTROL_PLANE.contains(&name(item)));
    }
    for item in items {
        if kind.name == "Mesh" {
            prepare_mesh(item, opts);
        }
        let Value::Object(fields) = item else { continue };
        // Legacy kinds have no status of their own, but plugin kinds do, and it is not for us to bring.
        fields.retain(|field, _| !OF_THE_SERVER.contains(&field.as_str()));
        if opts.federation
            && let Some(Value::Object(labels)) = fields.get_mut("labels")
        {
            labels.retain(|key, _| key != labels::ORIGIN);
            if labels.is_empty() {
                fields.remove("labels");
            }
        }
    }
}

/// A new mesh makes policies and an authority of its own; this one brings them.
fn prepare_mesh(mesh: &mut Value, opts: Opts) {
    let mesh_name = name(mesh).to_owned();
    if let Value::Object(fields) = mesh {
        fields.insert("skipCreatingInitialPolicies".to_owned(), json!(["*"]));
    }
    if !opts.secrets {
        return;
    }
    let Some(mtls) = mesh.get_mut("mtls") else { return };
    let mut changed = false;
    for backend in mtls.get_mut("backends").and_then(Value::as_array_mut).into_iter().flatten() {
        if backend.get("type").and_then(Value::as_str) != Some("builtin") {
            continue;
        }
        let backend_name = name(backend).to_owned();
        if let Value::Object(fields) = backend {
            let secret = |what: &str| json!({ "secret": format!("{mesh_name}.ca-builtin-{what}-{backend_name}") });
            fields.insert("type".to_owned(), "provided".into());
            fields.insert("conf".to_owned(), json!({ "cert": secret("cert"), "key": secret("key") }));
            changed = true;
        }
    }
    // The mesh is applied before its secrets, so they cannot be looked at yet.
    if changed && let Value::Object(fields) = mtls {
        fields.insert("skipValidation".to_owned(), true.into());
    }
}

fn name(item: &Value) -> &str {
    item.get("name").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh() -> Value {
        json!({
            "type": "Mesh", "name": "demo", "creationTime": "x",
            "mtls": { "enabledBackend": "ca-1", "backends": [{ "name": "ca-1", "type": "builtin", "dpCert": { "rotation": { "expiration": "1d" } } }] },
        })
    }

    #[test]
    fn meshes_bring_their_authorities_when_secrets_go_along() {
        let mut with = mesh();
        prepare_mesh(&mut with, Opts { federation: true, secrets: true });
        assert_eq!(
            with["mtls"],
            json!({ "enabledBackend": "ca-1", "skipValidation": true, "backends": [{
                "name": "ca-1", "type": "provided", "dpCert": { "rotation": { "expiration": "1d" } },
                "conf": { "cert": { "secret": "demo.ca-builtin-cert-ca-1" }, "key": { "secret": "demo.ca-builtin-key-ca-1" } },
            }] })
        );
        let mut without = mesh();
        prepare_mesh(&mut without, Opts { federation: false, secrets: false });
        assert_eq!(without["mtls"], mesh()["mtls"]);
        assert_eq!(without["skipCreatingInitialPolicies"], json!(["*"]));
    }

    #[test]
    fn what_servers_set_is_left_out() {
        let kind = kodiak_kinds::kinds().by_name("MeshTimeout").unwrap();
        let item = json!({ "type": "MeshTimeout", "name": "a", "creationTime": "x", "kri": "y", "labels": { "kuma.io/origin": "zone" }, "spec": {}, "status": {} });
        let prepared = |federation| {
            let mut items = vec![item.clone()];
            prepare(kind, &mut items, Opts { federation, secrets: true });
            items.remove(0)
        };
        assert_eq!(prepared(true), json!({ "type": "MeshTimeout", "name": "a", "spec": {} }));
        assert_eq!(prepared(false)["labels"], json!({ "kuma.io/origin": "zone" }));
    }
}

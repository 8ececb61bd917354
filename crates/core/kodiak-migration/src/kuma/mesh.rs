//! Mesh: its builtin CAs stay builtin, and its legacy backends become policies.
//!
//! `kumactl export` writes a builtin backend as `provided`, with references to the Secrets of its CA. Kodiak stores a
//! builtin CA in Secrets of the same names, so the backend becomes builtin again and uses them. Without these Secrets the
//! Mesh is left out: the control plane would create a new CA for it, and no proxy would trust another one.

use serde_json::Value;

use super::{
    facts::MeshFacts,
    metrics,
    outcome::{ExportedResource, KumaConversion, Outcomes},
};

/// Sections with backends that only legacy policies and `Mesh.metrics` refer to.
const LEGACY_SECTIONS: [&str; 3] = ["logging", "tracing", "metrics"];

pub(super) fn import(resource: &ExportedResource, mut document: Value, facts: &MeshFacts, out: &mut Outcomes) {
    let mut notes = Vec::new();
    match restore_backends(&resource.name, &mut document, facts) {
        Ok(restored) => notes.extend(restored),
        Err((reason, advice)) => {
            out.leave_out(resource.clone(), reason, advice);
            return;
        }
    }
    for section in LEGACY_SECTIONS {
        if document.as_object_mut().and_then(|fields| fields.remove(section)).is_some() {
            notes.push(format!("`{section}` is removed: its backends are in the policies that use them"));
        }
    }
    let is_added = out.add(resource.clone(), document, notes.is_empty());
    if is_added && !notes.is_empty() {
        out.note(KumaConversion { from: vec![resource.clone()], to: vec![resource.clone()], notes });
    }
    metrics::convert(resource, facts, out);
}

/// Notes about changed backends, or reason and advice.
fn restore_backends(mesh: &str, document: &mut Value, facts: &MeshFacts) -> Result<Vec<String>, (String, String)> {
    let mut notes = Vec::new();
    let Some(mtls) = document.get_mut("mtls") else { return Ok(notes) };
    for backend in mtls.get_mut("backends").and_then(Value::as_array_mut).into_iter().flatten() {
        let text = |field: &str| backend.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (name, backend_type) = (text("name"), text("type"));
        let secrets = ["cert", "key"].map(|part| format!("{mesh}.ca-builtin-{part}-{name}"));
        let referenced =
            ["/conf/cert/secret", "/conf/key/secret"].map(|at| backend.pointer(at).and_then(Value::as_str));
        let was_builtin = backend_type == "provided" && referenced == [Some(&*secrets[0]), Some(&*secrets[1])];
        if backend_type != "builtin" && !was_builtin {
            continue;
        }
        if let Some(missing) = secrets.iter().find(|secret| !facts.secrets.contains(*secret)) {
            let reason = format!(
                "the CA of its backend {name:?} is not in the export (Secret {missing:?}), and a new CA would be created for it"
            );
            let advice = "export with --include-admin, as an administrator; or create the Mesh with `kodiak apply`, which creates a new CA, and import again";
            return Err((reason, advice.to_owned()));
        }
        if was_builtin && let Value::Object(fields) = backend {
            fields.insert("type".to_owned(), "builtin".into());
            fields.remove("conf");
            notes.push(format!("backend {name:?} is builtin again, as in Kuma, with the CA of the export"));
        }
    }
    if !notes.is_empty()
        && let Value::Object(fields) = mtls
    {
        fields.remove("skipValidation");
    }
    Ok(notes)
}

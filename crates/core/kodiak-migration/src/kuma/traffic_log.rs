//! TrafficLog, and the backend in `Mesh.logging` that it names, to MeshAccessLog.

use serde_json::{Map, Value, json};

use super::{
    connection::{ConnectionKind, NewConf, Several, Side},
    facts::MeshFacts,
    fields::Fields,
    selector::Selector,
};

pub(super) const KIND: ConnectionKind = ConnectionKind {
    legacy: "TrafficLog",
    new: "MeshAccessLog",
    side: Side::Sources,
    several: Several::MostSpecific,
    conf,
};

fn conf(mut old: Fields, _: &Selector, facts: &MeshFacts) -> Result<NewConf, String> {
    let name = old.text("backend")?;
    old.end()?;
    let backend = facts.backend("logging", name.as_deref(), "defaultBackend")?;
    Ok(json!({ "backends": [log_backend(backend)?] }).into())
}

fn log_backend(backend: Value) -> Result<Value, String> {
    let mut old = Fields::of(Some(backend), "logging backend")?;
    old.take("name");
    let backend_type = old.text("type")?.unwrap_or_default();
    let format = old.text("format")?.filter(|format| !format.is_empty());
    let mut conf = old.object("conf")?.ok_or("the logging backend has no conf")?;
    old.end()?;
    let (new_type, field, where_to) = match backend_type.as_str() {
        "file" => ("File", "file", "path"),
        "tcp" => ("Tcp", "tcp", "address"),
        other => return Err(format!("the logging backend has the type {other:?}, which has no counterpart")),
    };
    let mut new: Map<String, Value> = conf.copy(&[(where_to, where_to)]);
    conf.end()?;
    if let Some(format) = format {
        new.insert("format".to_owned(), json!({ "type": "Plain", "plain": format }));
    }
    Ok(json!({ "type": new_type, field: new }))
}

//! TrafficTrace, and the backend in `Mesh.tracing` that it names, to MeshTrace.

use serde_json::{Map, Value, json};

use super::{
    connection::{ConnectionKind, NewConf, Several, Side},
    facts::MeshFacts,
    fields::{Fields, decimal},
    selector::Selector,
};

pub(super) const KIND: ConnectionKind = ConnectionKind {
    legacy: "TrafficTrace",
    new: "MeshTrace",
    side: Side::Proxies,
    several: Several::MostSpecific,
    conf,
};

fn conf(mut old: Fields, _: &Selector, facts: &MeshFacts) -> Result<NewConf, String> {
    let name = old.text("backend")?;
    old.end()?;
    let backend = facts.backend("tracing", name.as_deref(), "defaultBackend")?;
    let mut old = Fields::of(Some(backend), "tracing backend")?;
    old.take("name");
    let backend_type = old.text("type")?.unwrap_or_default();
    let sampling = old.take("sampling").map(decimal);
    let mut conf = old.object("conf")?.ok_or("the tracing backend has no conf")?;
    old.end()?;
    let backend = match backend_type.as_str() {
        "zipkin" => {
            let fields = ["url", "traceId128bit", "apiVersion", "sharedSpanContext"].map(|field| (field, field));
            json!({ "type": "Zipkin", "zipkin": conf.copy(&fields) })
        }
        "datadog" => {
            let address = conf.text("address")?.unwrap_or_default();
            let port = conf.take("port").unwrap_or_default();
            let mut new = Map::from_iter([("url".to_owned(), json!(format!("http://{address}:{port}")))]);
            new.extend(conf.copy(&[("splitService", "splitService")]));
            json!({ "type": "Datadog", "datadog": new })
        }
        other => return Err(format!("the tracing backend has the type {other:?}, which has no counterpart")),
    };
    conf.end()?;
    let mut new = Map::from_iter([("backends".to_owned(), json!([backend]))]);
    // Set also where it is the default, so that a more specific policy decides alone.
    new.insert("sampling".to_owned(), json!({ "overall": sampling.unwrap_or_else(|| json!(100)) }));
    Ok(Value::Object(new).into())
}

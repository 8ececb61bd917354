//! FaultInjection to MeshFaultInjection.

use serde_json::{Map, Value, json};

use super::{
    connection::{ConnectionKind, NewConf, Several, Side},
    facts::MeshFacts,
    fields::{Fields, decimal},
    selector::Selector,
};

pub(super) const KIND: ConnectionKind = ConnectionKind {
    legacy: "FaultInjection",
    new: "MeshFaultInjection",
    side: Side::Destinations,
    several: Several::All,
    conf,
};

fn conf(mut old: Fields, _: &Selector, _: &MeshFacts) -> Result<NewConf, String> {
    let mut fault = Map::new();
    for (section, field) in [("abort", "httpStatus"), ("delay", "value"), ("responseBandwidth", "limit")] {
        let Some(mut written) = old.object(section)? else { continue };
        let mut new = written.copy(&[(field, field)]);
        if let Some(Value::String(limit)) = new.get("limit") {
            new.insert("limit".to_owned(), json!(bandwidth(limit)?));
        }
        let percentage = written.take("percentage").map(decimal);
        new.extend(percentage.map(|percentage| ("percentage".to_owned(), percentage)));
        written.end()?;
        fault.insert(section.to_owned(), Value::Object(new));
    }
    old.end()?;
    Ok(json!({ "http": [fault] }).into())
}

/// Units are spelled `mbps` and `Mbps`.
fn bandwidth(limit: &str) -> Result<String, String> {
    let lower = limit.to_ascii_lowercase();
    for (old, new) in [("kbps", "kbps"), ("mbps", "Mbps"), ("gbps", "Gbps")] {
        if let Some(number) = lower.strip_suffix(old) {
            return Ok(format!("{}{new}", number.trim()));
        }
    }
    Err(format!("conf.responseBandwidth.limit: {limit:?} has no counterpart; use kbps, mbps or gbps"))
}

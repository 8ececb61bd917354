//! HealthCheck to MeshHealthCheck.

use serde_json::{Map, Value, json};

use super::{
    connection::{ConnectionKind, NewConf, Several, Side},
    facts::MeshFacts,
    fields::{Fields, decimal, headers, insert},
    selector::Selector,
};

pub(super) const KIND: ConnectionKind = ConnectionKind {
    legacy: "HealthCheck",
    new: "MeshHealthCheck",
    side: Side::Sources,
    several: Several::MostSpecific,
    conf,
};

const SAME: [&str; 11] = [
    "interval",
    "timeout",
    "unhealthyThreshold",
    "healthyThreshold",
    "initialJitter",
    "intervalJitter",
    "intervalJitterPercent",
    "failTrafficOnPanic",
    "eventLogPath",
    "alwaysLogHealthCheckFailures",
    "noTrafficInterval",
];

fn conf(mut old: Fields, _: &Selector, _: &MeshFacts) -> Result<NewConf, String> {
    let mut new = old.copy(&SAME.map(|field| (field, field)));
    new.extend(old.copy(&[("reuseConnection", "reuseConnection")]));
    let panic = old.take("healthyPanicThreshold").map(decimal);
    new.extend(panic.map(|panic| ("healthyPanicThreshold".to_owned(), panic)));
    let http = old.object("http")?.map(http).transpose()?;
    let tcp = old.object("tcp")?.map(tcp).transpose()?;
    old.end()?;
    // Without a section, a HealthCheck opens a connection.
    let tcp = tcp.or_else(|| http.is_none().then(Map::new));
    new.extend(http.map(|http| ("http".to_owned(), Value::Object(http))));
    new.extend(tcp.map(|tcp| ("tcp".to_owned(), Value::Object(tcp))));
    Ok(Value::Object(new).into())
}

fn tcp(mut old: Fields) -> Result<Map<String, Value>, String> {
    let new = old.copy(&[("send", "send"), ("receive", "receive")]);
    old.end()?;
    Ok(new)
}

fn http(mut old: Fields) -> Result<Map<String, Value>, String> {
    let mut new = old.copy(&[("path", "path")]);
    insert(
        &mut new,
        "requestHeadersToAdd",
        headers(old.list("requestHeadersToAdd")?, "conf.http.requestHeadersToAdd")?,
    );
    let statuses = old.list("expectedStatuses")?;
    if !statuses.is_empty() {
        new.insert("expectedStatuses".to_owned(), json!(statuses));
    }
    old.end()?;
    Ok(new)
}

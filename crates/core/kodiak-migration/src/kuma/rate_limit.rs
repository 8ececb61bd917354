//! RateLimit to MeshRateLimit.

use serde_json::{Map, Value, json};

use super::{
    connection::{ConnectionKind, NewConf, Several, Side},
    facts::MeshFacts,
    fields::{Fields, headers, insert},
    selector::Selector,
};

pub(super) const KIND: ConnectionKind =
    ConnectionKind { legacy: "RateLimit", new: "MeshRateLimit", side: Side::Destinations, several: Several::All, conf };

fn conf(mut old: Fields, destination: &Selector, facts: &MeshFacts) -> Result<NewConf, String> {
    if destination.service().is_some_and(|service| facts.external.contains(service)) {
        return Err("it limits requests to an ExternalService, and a MeshRateLimit only those to sidecars".to_owned());
    }
    let Some(mut http) = old.object("http")? else { return Err("conf.http is missing".to_owned()) };
    old.end()?;
    let rate = http.copy(&[("requests", "num"), ("interval", "interval")]);
    let mut new = Map::from_iter([("requestRate".to_owned(), Value::Object(rate))]);
    if let Some(mut limited) = http.object("onRateLimit")? {
        let mut answer = limited.copy(&[("status", "status")]);
        insert(&mut answer, "headers", headers(limited.list("headers")?, "conf.http.onRateLimit.headers")?);
        limited.end()?;
        insert(&mut new, "onRateLimit", answer);
    }
    http.end()?;
    Ok(json!({ "local": { "http": new } }).into())
}

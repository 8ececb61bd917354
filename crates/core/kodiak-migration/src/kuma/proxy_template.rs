//! ProxyTemplate to MeshProxyPatch.

use serde_json::{Map, Value, json};

use super::{
    connection::{ConnectionKind, NewConf, Several, Side},
    facts::MeshFacts,
    fields::Fields,
    selector::Selector,
};

pub(super) const KIND: ConnectionKind = ConnectionKind {
    legacy: "ProxyTemplate",
    new: "MeshProxyPatch",
    side: Side::Proxies,
    several: Several::NewAppliesAll,
    conf,
};

const NAMES_CHANGE: &str =
    "names of Envoy resources differ: check `match`, or keep Kuma's names with xdsServer.resourceNames: kuma";

fn conf(mut old: Fields, _: &Selector, _: &MeshFacts) -> Result<NewConf, String> {
    let imports = old.list("imports")?;
    if imports != [json!("default-proxy")] {
        return Err("conf.imports is not [default-proxy], and a MeshProxyPatch modifies the default proxy".to_owned());
    }
    if !old.list("resources")?.is_empty() {
        return Err("conf.resources has raw resources; add clusters and listeners as modifications instead".to_owned());
    }
    let modifications = old.list("modifications")?.into_iter().map(modification).collect::<Result<Vec<_>, _>>()?;
    old.end()?;
    if modifications.is_empty() {
        return Err("it has no modifications, so it has no effect; delete it".to_owned());
    }
    let conf = json!({ "appendModifications": modifications });
    Ok(NewConf { conf, notes: vec![NAMES_CHANGE.to_owned()] })
}

fn modification(old: Value) -> Result<Value, String> {
    let Value::Object(parts) = old else { return Err("a modification is not an object".to_owned()) };
    let mut new = Map::new();
    for (part, written) in parts {
        let mut old = Fields::of(Some(written), &format!("conf.modifications.{part}"))?;
        let mut fields = old.copy(&["match", "value", "jsonPatches"].map(|field| (field, field)));
        let operation = old.text("operation")?.unwrap_or_default();
        let mut letters = operation.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        fields.insert("operation".to_owned(), json!(first.into_iter().chain(letters).collect::<String>()));
        old.end()?;
        new.insert(part, Value::Object(fields));
    }
    Ok(Value::Object(new))
}

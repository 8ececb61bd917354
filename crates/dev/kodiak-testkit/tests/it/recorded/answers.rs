//! Answers about a mesh: the Envoy resources of its proxies, and who may call whom.
//!
//! ```json
//! {
//!   "resources": { "<type URL>": { "<name>": [{ "proxies": ["..."], "resource": {} }] } },
//!   "verdicts": { "<server>:<port>": { "<caller>": "allowed" } }
//! }
//! ```
//!
//! A resource that several proxies have is listed once. Secrets are left out. Verdicts exist with mutual TLS only.

use std::collections::BTreeMap;
use std::sync::Arc;

use kodiak_engine::redacted;
use kodiak_model::ProxyKey;
use kodiak_model::kinds::mesh::Mesh;
use kodiak_policies::mesh_traffic_permission;
use kodiak_rules::Proxy;
use kodiak_testkit::simulate::{Connection, Refusal, Request, SimulatedProxy, TlsPeer};
use kodiak_xds_stream::{Snapshot, TypeUrl};
use serde_json::{Map, Value, json};

use kodiak_oracle::meshes::MESH;
use kodiak_oracle::settled::{Settled, offline};

/// Levels of which every member has a line of its own: part, type, name, variant.
const LEVELS: usize = 4;

pub(super) fn of(settled: &Settled) -> Value {
    let mut engine = offline(settled.changes());
    let faults = settled.connect(&mut engine);
    assert!(faults.values().all(Vec::is_empty), "{faults:?}");
    let proxies: Vec<(&Arc<Proxy>, Arc<Snapshot>)> = settled
        .world
        .proxies(MESH)
        .map(|proxy| (proxy, engine.snapshot(&ProxyKey::new(MESH, &proxy.name)).unwrap()))
        .collect();
    json!({ "resources": resources(&proxies), "verdicts": verdicts(settled, &proxies) })
}

/// JSON with a line for each resource of a name, and for each server: readable differences in little space.
pub(super) fn text(answers: &Value) -> String {
    let mut text = String::new();
    write(&mut text, answers, LEVELS);
    text.push('\n');
    text
}

fn write(text: &mut String, value: &Value, levels: usize) {
    let (open, close, members): (_, _, Vec<(String, &Value)>) = match value {
        Value::Object(fields) if levels > 0 && !fields.is_empty() => {
            ('{', '}', fields.iter().map(|(name, value)| (format!("{}: ", json!(name)), value)).collect())
        }
        Value::Array(items) if levels > 0 && !items.is_empty() => {
            ('[', ']', items.iter().map(|item| (String::new(), item)).collect())
        }
        value => return text.push_str(&value.to_string()),
    };
    text.push(open);
    for (n, (name, member)) in members.into_iter().enumerate() {
        text.push_str(if n == 0 { "\n" } else { ",\n" });
        text.push_str(&name);
        write(text, member, levels - 1);
    }
    text.push('\n');
    text.push(close);
}

/// Resources of one name, each with the proxies that have it.
type Variants<'a> = Vec<(Vec<&'a str>, Value)>;

fn resources(proxies: &[(&Arc<Proxy>, Arc<Snapshot>)]) -> Value {
    let mut types: BTreeMap<String, BTreeMap<String, Variants<'_>>> = BTreeMap::new();
    for (proxy, snapshot) in proxies {
        let Value::Object(config) = redacted::config(snapshot).unwrap() else { unreachable!("by type") };
        for (type_url, resources) in config.into_iter().filter(|(of, _)| of != TypeUrl::Secret.as_str()) {
            let Value::Object(resources) = resources else { unreachable!("by name") };
            for (name, resource) in resources {
                let known = types.entry(type_url.clone()).or_default().entry(name).or_default();
                match known.iter_mut().find(|(_, known)| *known == resource) {
                    Some((proxies, _)) => proxies.push(&proxy.name),
                    None => known.push((vec![&proxy.name], resource)),
                }
            }
        }
    }
    let shown = |(proxies, resource): (Vec<&str>, Value)| json!({ "proxies": proxies, "resource": resource });
    let of_type = |names: BTreeMap<String, Variants<'_>>| -> Map<String, Value> {
        names.into_iter().map(|(name, all)| (name, all.into_iter().map(shown).collect())).collect()
    };
    types.into_iter().map(|(type_url, names)| (type_url, Value::Object(of_type(names)))).collect::<Map<_, _>>().into()
}

fn verdicts(settled: &Settled, proxies: &[(&Arc<Proxy>, Arc<Snapshot>)]) -> Value {
    let mesh: Arc<Mesh> = settled.world.mesh(MESH).unwrap();
    let mut servers = Map::new();
    for (server, snapshot) in proxies.iter().filter(|_| mesh.enabled_backend().is_some()) {
        let simulated = SimulatedProxy::of(&snapshot.resources).unwrap();
        let Some(networking) = &server.dataplane.networking else { continue };
        for inbound in &networking.inbound {
            let address = inbound.address_or(&networking.address);
            let verdict = |caller: &Proxy| {
                let uris = mesh_traffic_permission::uris(MESH, caller.dataplane.tag_sets());
                let tls =
                    TlsPeer { uris, issuer: None, sni: "recorded.example".to_owned(), alpn: vec!["kuma".to_owned()] };
                let connection = Connection { tls: Some(tls) };
                let port = u16::try_from(inbound.port).unwrap();
                match simulated.inbound(address, port, &Request::get("recorded.example", "/"), &connection) {
                    Ok(_) => json!("allowed"),
                    Err(Refusal::Denied { .. }) => json!("denied"),
                    Err(refusal) => panic!("{} to {}:{port}: {refusal}", caller.name, server.name),
                }
            };
            let callers: Map<_, _> =
                proxies.iter().map(|(caller, _)| (caller.name.to_string(), verdict(caller))).collect();
            servers.insert(format!("{}:{}", server.name, inbound.port), callers.into());
        }
    }
    servers.into()
}

//! Facts of each mesh in an export that conversions depend on.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    resource_of,
    selector::{Selector, Tags},
};

#[derive(Debug, Default)]
pub(super) struct MeshFacts {
    pub(super) mesh: Value,
    /// Tags of inbounds and gateways, for each Dataplane.
    dataplanes: Vec<Vec<Tags>>,
    /// Names of policies with a `targetRef`, by kind.
    policies: BTreeMap<String, Vec<String>>,
    pub(super) secrets: BTreeSet<String>,
    /// Values of `kuma.io/service` of ExternalServices.
    pub(super) external: BTreeSet<String>,
    /// Ports of all MeshServices.
    pub(super) service_ports: BTreeSet<u64>,
}

/// By the name of the mesh.
pub(super) fn of(documents: &[Value]) -> BTreeMap<String, MeshFacts> {
    let mut all: BTreeMap<String, MeshFacts> = BTreeMap::new();
    for document in documents {
        let resource = resource_of(document);
        let mesh = if resource.kind == "Mesh" { &resource.name } else { &resource.mesh };
        let facts = all.entry(mesh.clone()).or_default();
        match resource.kind.as_str() {
            "Mesh" => facts.mesh = document.clone(),
            "Dataplane" => facts.dataplanes.push(tags_of(document)),
            "Secret" => _ = facts.secrets.insert(resource.name),
            "ExternalService" => {
                let service = document.pointer("/tags/kuma.io~1service").and_then(Value::as_str);
                facts.external.extend(service.map(str::to_owned));
            }
            "MeshService" => {
                let ports = document.pointer("/spec/ports").and_then(Value::as_array);
                facts.service_ports.extend(ports.into_iter().flatten().filter_map(|port| port.get("port")?.as_u64()));
            }
            kind => facts.policies.entry(kind.to_owned()).or_default().push(resource.name),
        }
    }
    all
}

impl MeshFacts {
    pub(super) fn policies(&self, kind: &str) -> &[String] {
        self.policies.get(kind).map_or(&[], Vec::as_slice)
    }

    /// Whether a proxy of the export has both, by the tags of different inbounds.
    pub(super) fn has_both(&self, one: &Selector, other: &Selector) -> bool {
        let has = |sets: &[Tags], selector: &Selector| sets.iter().any(|tags| selector.matches(tags));
        self.dataplanes.iter().any(|sets| has(sets, one) && has(sets, other))
    }

    /// The protocol of a service, if all its inbounds in the export have the same.
    pub(super) fn protocol(&self, service: &str) -> Option<&str> {
        let inbounds = self.dataplanes.iter().flatten();
        let mut protocols = inbounds
            .filter(|tags| tags.get("kuma.io/service").is_some_and(|name| name == service))
            .map(|tags| tags.get("kuma.io/protocol").map_or("tcp", String::as_str));
        let first = protocols.next()?;
        protocols.all(|other| other == first).then_some(first)
    }

    /// A backend of `Mesh.logging`, `Mesh.tracing` or `Mesh.metrics` by its name, or the default one.
    pub(super) fn backend(&self, section: &str, name: Option<&str>, default: &str) -> Result<Value, String> {
        let section_value = self.mesh.get(section).unwrap_or(&Value::Null);
        let chosen = name.filter(|name| !name.is_empty());
        let chosen = chosen.or_else(|| section_value.get(default)?.as_str()).filter(|name| !name.is_empty());
        let Some(chosen) = chosen else {
            return Err(format!("it names no backend, and {section}.{default} of the Mesh names none"));
        };
        let backends = section_value.get("backends").and_then(Value::as_array);
        let found = backends.into_iter().flatten().find(|one| one.get("name").and_then(Value::as_str) == Some(chosen));
        found.cloned().ok_or_else(|| format!("the Mesh has no backend {chosen:?} in {section}.backends"))
    }

    pub(super) fn has_mtls(&self) -> bool {
        let enabled = self.mesh.pointer("/mtls/enabledBackend").and_then(Value::as_str);
        enabled.is_some_and(|name| !name.is_empty())
    }

    /// `meshServices.mode` of the Mesh.
    pub(super) fn has_mesh_services(&self) -> bool {
        let mode = self.mesh.pointer("/meshServices/mode").and_then(Value::as_str);
        mode.is_some_and(|mode| mode != "Disabled")
    }
}

fn tags_of(dataplane: &Value) -> Vec<Tags> {
    let networking = dataplane.get("networking").unwrap_or(&Value::Null);
    let inbounds = networking.get("inbound").and_then(Value::as_array);
    let sets = inbounds.into_iter().flatten().chain(networking.get("gateway"));
    sets.filter_map(|one| one.get("tags")?.as_object()).map(tags).collect()
}

fn tags(map: &Map<String, Value>) -> Tags {
    map.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

//! Rules in the format of the expected outputs.

use std::collections::BTreeMap;

use kodiak_model::{Kind, Kri, Labels};
use kodiak_rules::{
    Policy, Resource,
    inbound::InboundRule,
    outbound::{Entry, ResourceRules},
    subset::Rule,
};
use serde_json::{Map, Value, json};

use super::Document;

const NEVER: &str = "0001-01-01T00:00:00Z";

/// Format of resource metadata.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MetaForm {
    /// Of the API.
    Rest,
    /// In memory, in a store without namespaces.
    Universal,
    /// In memory, in a store with namespaces.
    Kubernetes,
}

pub(super) fn rule(rule: &Rule) -> Value {
    let tag = |tag: &kodiak_rules::subset::Tag| json!({ "Key": tag.key, "Value": tag.value, "Not": tag.not });
    let by_matches = rule.by_matches.iter().map(|(hash, policy)| (hash, meta(policy, MetaForm::Rest)));
    json!({
        "Subset": rule.subset.iter().map(tag).collect::<Vec<_>>(),
        "Conf": rule.conf.json(),
        "Origin": rule.origins.iter().map(|policy| meta(policy, MetaForm::Rest)).collect::<Vec<_>>(),
        "OriginByMatches": by_matches.collect::<BTreeMap<_, _>>(),
    })
}

pub(super) fn inbound_rule(rule: &InboundRule) -> Value {
    let origin = json!({ "Resource": meta(&rule.policy, MetaForm::Rest), "RuleIndex": rule.index });
    json!({ "match": rule.matches, "conf": rule.conf.json(), "origin": origin })
}

pub(super) fn entry(entry: &Entry, documents: &[Document]) -> Value {
    let policy = &entry.policy;
    let written = documents.iter().find(|document| *document.name == *policy.name);
    let item = written.and_then(|document| document.spec.get("to")?.get(entry.index));
    let top = policy.body.target.as_ref().map_or_else(|| json!({ "kind": "Mesh" }), |target| json!(target));
    json!({ "Entry": item, "Meta": meta(policy, MetaForm::Rest), "RuleIndex": entry.index, "TopLevel": top })
}

pub(super) fn resource_rules(rules: &ResourceRules, form: MetaForm) -> Value {
    let origin = |entry: &Entry| json!({ "Resource": meta(&entry.policy, form), "RuleIndex": entry.index });
    let mut shown = Map::new();
    for (kri, rule) in rules {
        let by_matches = rule.by_matches.iter().map(|(hash, entry)| (hash, origin(entry)));
        let rule = json!({
            "Resource": resource_meta(&rule.resource, form),
            "ResourceSectionName": rule.section,
            "Conf": rule.confs.iter().map(kodiak_model::policy::Conf::json).collect::<Vec<_>>(),
            "Origin": rule.origins.iter().map(origin).collect::<Vec<_>>(),
            "OriginByMatches": by_matches.collect::<BTreeMap<_, _>>(),
        });
        shown.insert(kri.to_string(), rule);
    }
    Value::Object(shown)
}

/// The order of fields is unspecified.
pub(super) fn sorted(mut value: Value) -> Value {
    value.sort_all_objects();
    value
}

fn meta(policy: &Policy, form: MetaForm) -> Value {
    one_meta(policy.kind, (&policy.mesh, &policy.name, &policy.labels), form)
}

/// Meshes are never synced, so they always have the format of the API.
fn resource_meta(resource: &Resource, form: MetaForm) -> Value {
    let form = if resource.mesh.is_empty() { MetaForm::Rest } else { form };
    one_meta(resource.kind, (&resource.mesh, &resource.name, &resource.labels), form)
}

fn one_meta(kind: &'static Kind, (mesh, name, labels): (&str, &str, &Labels), form: MetaForm) -> Value {
    if form == MetaForm::Rest {
        let kri = Kri::of(kind, mesh, name, labels).map(|kri| kri.to_string());
        let mut meta =
            json!({ "type": kind.name, "name": name, "kri": kri, "creationTime": NEVER, "modificationTime": NEVER });
        if !mesh.is_empty() {
            meta["mesh"] = json!(mesh);
        }
        if !labels.is_empty() {
            meta["labels"] = json!(labels);
        }
        return meta;
    }
    let parts = name.rsplit_once('.').filter(|_| form == MetaForm::Kubernetes);
    let parts = parts.map(|(name, namespace)| json!({ "k8s.kuma.io/name": name, "k8s.kuma.io/namespace": namespace }));
    json!({
        "Mesh": mesh,
        "Name": name,
        "NameExtensions": parts,
        "Labels": labels,
        "Version": "",
        "CreationTime": NEVER,
        "ModificationTime": NEVER,
    })
}

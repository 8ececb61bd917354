//! Policies and rules in the format of recorded outputs.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::{Kind, Kri, Labels};
use kodiak_rules::{
    Policy,
    inbound::InboundRule,
    outbound::{Entry, ResourceRules},
    subset::Rule,
};
use serde_json::{Map, Value, json};

const NEVER: &str = "0001-01-01T00:00:00Z";

/// Metadata of a resource.
pub(crate) fn meta(kind: &Kind, mesh: &str, name: &str, labels: &Labels) -> Value {
    let mut meta = json!({
        "type": kind.name,
        "mesh": mesh,
        "name": name,
        "creationTime": NEVER,
        "modificationTime": NEVER,
    });
    if let Some(kri) = Kri::of(kind, mesh, name, labels) {
        meta["kri"] = json!(kri.to_string());
    }
    if !labels.is_empty() {
        meta["labels"] = json!(labels);
    }
    meta
}

pub(crate) fn policy(policy: &Policy) -> Value {
    meta(policy.kind, &policy.mesh, &policy.name, &policy.labels)
}

pub(crate) fn rules(rules: &[Rule]) -> Value {
    rules.iter().map(rule).collect()
}

fn rule(rule: &Rule) -> Value {
    let tags = rule.subset.iter().map(|tag| json!({ "Key": tag.key, "Value": tag.value, "Not": tag.not }));
    json!({
        "Subset": tags.collect::<Vec<_>>(),
        "Conf": rule.conf.json(),
        "Origin": rule.origins.iter().map(|origin| policy(origin)).collect::<Vec<_>>(),
        "OriginByMatches": by_matches(&rule.by_matches, |origin| policy(origin)),
    })
}

pub(crate) fn inbound_rules(rules: &[InboundRule]) -> Value {
    let shown = rules.iter().map(
        |rule| json!({ "match": rule.matches, "conf": rule.conf.json(), "origin": origin(&rule.policy, rule.index) }),
    );
    shown.collect()
}

pub(crate) fn resource_rules(rules: &ResourceRules) -> Value {
    let entry = |entry: &Entry| origin(&entry.policy, entry.index);
    let shown = rules.iter().map(|(kri, rule)| {
        let resource = &rule.resource;
        let rule = json!({
            "Resource": meta(resource.kind, &resource.mesh, &resource.name, &resource.labels),
            "ResourceSectionName": rule.section,
            "Conf": rule.confs.iter().map(|conf| conf.json().clone()).collect::<Vec<_>>(),
            "Origin": rule.origins.iter().map(entry).collect::<Vec<_>>(),
            "OriginByMatches": by_matches(&rule.by_matches, entry),
        });
        (kri.to_string(), rule)
    });
    Value::Object(shown.collect())
}

fn origin(of: &Arc<Policy>, index: usize) -> Value {
    json!({ "Resource": policy(of), "RuleIndex": index })
}

fn by_matches<T>(origins: &BTreeMap<String, T>, shown: impl Fn(&T) -> Value) -> Map<String, Value> {
    origins.iter().map(|(hash, origin)| (hash.clone(), shown(origin))).collect()
}

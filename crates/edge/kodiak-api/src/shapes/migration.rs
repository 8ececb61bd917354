//! `/meshes/{mesh}/_migration`, with the consumers and the converted documents below it.

use std::collections::BTreeMap;

use kodiak_migration::{self as facts, BreakReason, Lists, Outcome};
use kodiak_model::Word as _;
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
pub(crate) struct Standing {
    mesh: String,
    mode: &'static str,
    services: Vec<ServiceStanding>,
    policies: Vec<PolicyStanding>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServiceStanding {
    service: String,
    proxies: usize,
    ports: usize,
    zones: Vec<String>,
    objects: Vec<Object>,
    generated: bool,
    in_all_zones: bool,
}

#[derive(Serialize)]
struct Object {
    kri: String,
    hostnames: Vec<String>,
    ports: Vec<u32>,
}

#[derive(Serialize)]
struct PolicyStanding {
    #[serde(rename = "type")]
    kind: String,
    name: String,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct Finding {
    path: String,
    reference: String,
    service: String,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    new: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Consumer {
    name: String,
    mode: &'static str,
    lists: &'static str,
    connected: bool,
    old: Vec<String>,
    new: usize,
    policies: Vec<String>,
    routes: Vec<String>,
    cross_zone: Vec<String>,
    replacements: BTreeMap<String, Vec<String>>,
    breaks: Vec<Break>,
}

#[derive(Serialize)]
struct Break {
    mode: &'static str,
    destination: String,
    reason: &'static str,
}

/// Converted document, with the changes and the references that could not be converted.
#[derive(Serialize)]
pub(crate) struct Converted {
    document: Value,
    changed: bool,
    findings: Vec<Finding>,
}

impl From<facts::Standing> for Standing {
    fn from(standing: facts::Standing) -> Self {
        let facts::Standing { mesh, mode, services, policies } = standing;
        let services = services.into_iter().map(ServiceStanding::from).collect();
        let policies = policies.into_iter().map(PolicyStanding::from).collect();
        Self { mesh, mode: mode.text(), services, policies }
    }
}

impl From<facts::ServiceStanding> for ServiceStanding {
    fn from(standing: facts::ServiceStanding) -> Self {
        let facts::ServiceStanding { service, proxies, ports, zones, objects, generated, in_all_zones } = standing;
        let objects = objects.into_iter().map(Object::from).collect();
        Self { service, proxies, ports, zones, objects, generated, in_all_zones }
    }
}

impl From<facts::Object> for Object {
    fn from(facts::Object { kri, hostnames, ports }: facts::Object) -> Self {
        Self { kri, hostnames, ports }
    }
}

impl From<facts::PolicyStanding> for PolicyStanding {
    fn from(facts::PolicyStanding { kind, name, findings }: facts::PolicyStanding) -> Self {
        Self { kind, name, findings: all(findings) }
    }
}

impl From<facts::Finding> for Finding {
    fn from(finding: facts::Finding) -> Self {
        let facts::Finding { path, reference, service, outcome, new, message } = finding;
        let outcome = match outcome {
            Outcome::Converted => "Converted",
            Outcome::ConvertedBefore => "ConvertedBefore",
            Outcome::Unclear => "Unclear",
            Outcome::Examine => "Examine",
        };
        Self { path, reference, service, outcome, new, message }
    }
}

impl From<facts::Consumer> for Consumer {
    fn from(consumer: facts::Consumer) -> Self {
        let facts::Consumer {
            name,
            mode,
            lists,
            connected,
            old,
            new,
            policies,
            routes,
            cross_zone,
            replacements,
            breaks,
        } = consumer;
        let lists = match lists {
            Lists::Nothing => "Nothing",
            Lists::Services => "Services",
            Lists::Backends => "Backends",
            Lists::Outbounds => "Outbounds",
        };
        let breaks = breaks.into_iter().map(Break::from).collect();
        let mode = mode.text();
        Self { name, mode, lists, connected, old, new, policies, routes, cross_zone, replacements, breaks }
    }
}

impl From<facts::Break> for Break {
    fn from(facts::Break { mode, destination, reason }: facts::Break) -> Self {
        let reason = match reason {
            BreakReason::OutboundWithTags => "OutboundWithTags",
            BreakReason::NoObject => "NoObject",
            BreakReason::NotReachable => "NotReachable",
            BreakReason::NotListed => "NotListed",
        };
        Self { mode: mode.text(), destination, reason }
    }
}

impl Converted {
    /// `document` is the whole of it, with the converted spec.
    pub(crate) fn new(document: Value, changed: bool, findings: Vec<facts::Finding>) -> Self {
        Self { document, changed, findings: all(findings) }
    }

    pub(crate) fn has_findings(&self) -> bool {
        !self.findings.is_empty()
    }
}

fn all(findings: Vec<facts::Finding>) -> Vec<Finding> {
    findings.into_iter().map(Finding::from).collect()
}

//! From what is written in an item of `to` to the resources that it means.

use std::sync::Arc;

use kodiak_model::{
    Kind, Kri, Labels, OldNames, TargetKind, TargetRef, Word as _, labels,
    policy::{Conf, ConfShape},
};
use serde_json::{Value, json};

use super::{Entry, mesh_of};
use crate::{Policy, Resource, Resources, merge};

/// The resources that an item means, with the section in the KRI, and what it says about each.
pub(super) fn meant<'a>(entry: &Entry, resources: &'a Resources) -> Vec<(Kri, &'a Arc<Resource>, Conf)> {
    let (policy, target) = (&*entry.policy, &entry.item().target);
    let shape = policy.kind.policy.map_or(ConfShape::Default, |facts| facts.conf);
    let conf = merge::conf_of(shape, entry.item());
    let Some(kind) = target.known_kind() else { return Vec::new() };
    let (found, conf) = match kind {
        TargetKind::Mesh => {
            let kri = mesh_of(&policy.mesh);
            return resources.by_kri(&kri).map(|mesh| (kri, mesh, conf)).into_iter().collect();
        }
        TargetKind::MeshService
        | TargetKind::MeshExternalService
        | TargetKind::MeshMultiZoneService
        | TargetKind::MeshHTTPRoute => match OldName::of(kind, target) {
            Some(old_name) => match part_for_old_names(policy.kind.old_names, conf) {
                Some(conf) => (old_name.find(policy, resources), conf),
                None => return Vec::new(),
            },
            None => (by_target(kind, target, policy, resources), conf),
        },
        TargetKind::MeshSubset | TargetKind::MeshGateway | TargetKind::MeshServiceSubset | TargetKind::Dataplane => {
            return Vec::new();
        }
    };
    let with_kri = |(resource, section): (&'a Arc<Resource>, String)| {
        Some((Kri { section, ..resource.kri()? }, resource, conf.clone()))
    };
    found.into_iter().filter_map(with_kri).collect()
}

/// By labels in all zones; by name where the policy is from.
fn by_target<'a>(
    kind: TargetKind,
    target: &TargetRef,
    policy: &Policy,
    resources: &'a Resources,
) -> Vec<(&'a Arc<Resource>, String)> {
    let Some(kind) = resources.kind(kind.text()) else { return Vec::new() };
    let labels = target.labels.as_ref().filter(|labels| !labels.is_empty());
    let found = labels.map_or_else(
        || resources.by_kri(&named(kind, target, policy)).into_iter().collect(),
        |labels| resources.by_labels(kind.name, &policy.mesh, labels),
    );
    let section = given(target.section_name.as_ref());
    let port = |resource: &Arc<Resource>| match section {
        None => Some(String::new()),
        Some(section) => resource.ports.iter().any(|port| port.section == section).then(|| section.to_owned()),
    };
    found.into_iter().filter_map(|resource| Some((resource, port(resource)?))).collect()
}

fn named(kind: &Kind, target: &TargetRef, policy: &Policy) -> Kri {
    let meta = policy.meta();
    let namespace = given(target.namespace.as_ref()).or(meta.namespace());
    Kri {
        short: kind.short.expect("resources without a short name are not put in"),
        mesh: policy.mesh.to_string(),
        zone: meta.zone().unwrap_or_default().to_owned(),
        namespace: namespace.unwrap_or_default().to_owned(),
        name: target.name.clone().unwrap_or_default(),
        section: String::new(),
    }
}

/// `<name>_<namespace>_svc_<port>`, or without the port for a workload that has no Service: how services were called
/// before they were resources.
struct OldName<'a> {
    name: &'a str,
    namespace: &'a str,
    port: Option<u32>,
}

impl<'a> OldName<'a> {
    fn of(kind: TargetKind, target: &'a TargetRef) -> Option<Self> {
        let by_name = target.labels.as_ref().is_none_or(Labels::is_empty);
        if kind != TargetKind::MeshService || !by_name || given(target.section_name.as_ref()).is_some() {
            return None;
        }
        let parts: Vec<&str> = target.name.as_deref()?.split('_').collect();
        match parts[..] {
            [name, namespace, _, port] => Some(Self { name, namespace, port: Some(port.parse().ok()?) }),
            [name, namespace, _] => Some(Self { name, namespace, port: None }),
            _ => None,
        }
    }

    /// In all zones: the old name said nothing about them.
    fn find<'r>(&self, policy: &Policy, resources: &'r Resources) -> Vec<(&'r Arc<Resource>, String)> {
        let labels = [(labels::DISPLAY_NAME, self.name), (labels::NAMESPACE, self.namespace)];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let found = resources.by_labels(TargetKind::MeshService.text(), &policy.mesh, &labels);
        let section = |resource: &Arc<Resource>| match self.port {
            None => Some(String::new()),
            Some(number) => resource.ports.iter().find(|port| port.port == number).map(|port| port.section.clone()),
        };
        found.into_iter().filter_map(|resource| Some((resource, section(resource)?))).collect()
    }
}

/// What of a conf holds for a destination meant by its old name. `None` where nothing does.
fn part_for_old_names(old_names: OldNames, conf: Conf) -> Option<Conf> {
    match old_names {
        OldNames::All => Some(conf),
        OldNames::Nothing => None,
        OldNames::Only(path) => {
            let part: &Value = path.iter().try_fold(conf.json(), |value, field| value.get(field))?;
            Some(Conf::new(path.iter().rev().fold(part.clone(), |inner, field| json!({ *field: inner }))))
        }
    }
}

fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

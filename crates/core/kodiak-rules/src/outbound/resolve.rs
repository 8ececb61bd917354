//! Resolves `to` items to resources.

use std::sync::Arc;

use kodiak_model::{
    Kri, Labels, LegacyName, LegacyNames, TargetKind, TargetRef, Word as _, labels,
    policy::{Conf, ConfShape},
};
use serde_json::{Value, json};

use super::{Entry, NameResolution};
use crate::{Policy, Resource, Resources, merge};

/// Target of an item: resources, or one port of each.
#[derive(Debug, Clone)]
pub(super) struct Meaning {
    pub(super) who: Who,
    part: Part,
}

#[derive(Debug, Clone)]
pub(super) enum Who {
    Called(Called),
    Labelled(Labelled),
}

/// One resource by display name. Like a KRI, with the name of the kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Called {
    kind: &'static str,
    mesh: String,
    zone: String,
    namespace: String,
    name: String,
}

/// All resources with these labels, in all zones.
#[derive(Debug, Clone)]
pub(super) struct Labelled {
    pub(super) kind: &'static str,
    mesh: Arc<str>,
    pub(super) labels: Labels,
}

#[derive(Debug, Clone)]
enum Part {
    Whole,
    Section(String),
    /// By number, whatever its name.
    Port(u32),
}

impl Meaning {
    /// The target, and the item's conf for it. `None` when it targets no resources, or has no conf for them.
    pub(super) fn of(entry: &Entry, resolution: NameResolution) -> Option<(Self, Conf)> {
        let (policy, target) = (&*entry.policy, &entry.item().target);
        let shape = policy.kind.policy.map_or(ConfShape::Default, |facts| facts.conf);
        let conf = merge::conf_of(shape, entry.item());
        if let Some(legacy_name) = legacy_name(target) {
            let conf = part_for_legacy_names(policy.kind.legacy_names, conf)?;
            return Some((meaning(&legacy_name, policy), conf));
        }
        // Beside tags, a plain name may be the legacy name of a Universal service.
        let conf = match resolution {
            NameResolution::Both if target.may_be_service_tag() => {
                part_for_legacy_names(policy.kind.legacy_names, conf)?
            }
            NameResolution::Both | NameResolution::Objects => conf,
        };
        let part = given(target.section_name.as_ref()).map_or(Part::Whole, |section| Part::Section(section.to_owned()));
        Some((Self { who: Who::of(policy, target)?, part }, conf))
    }

    /// Target resources, each with the name of its port, which is empty for the whole resource.
    pub(super) fn find<'a>(&self, resources: &'a Resources) -> Vec<(&'a Arc<Resource>, String)> {
        let found = match &self.who {
            Who::Called(called) => called.find(resources).into_iter().collect(),
            Who::Labelled(Labelled { kind, mesh, labels }) => resources.by_labels(kind, mesh, labels),
        };
        found.into_iter().filter_map(|resource| Some((resource, self.section(resource)?.to_owned()))).collect()
    }

    /// Whether the rule of a target resource also applies to one of its ports.
    pub(super) fn includes(&self, resource: &Resource, section: &str) -> bool {
        self.section(resource).is_some_and(|meant| meant.is_empty() || meant == section)
    }

    fn section<'a>(&self, resource: &'a Resource) -> Option<&'a str> {
        let mut ports = resource.ports.iter();
        match &self.part {
            Part::Whole => Some(""),
            Part::Section(section) => ports.find(|port| port.section == *section).map(|port| port.section.as_str()),
            Part::Port(number) => ports.find(|port| port.port == *number).map(|port| port.section.as_str()),
        }
    }
}

impl Who {
    /// By labels in all zones; by name in the zone and namespace of the policy.
    pub(super) fn of(policy: &Policy, target: &TargetRef) -> Option<Self> {
        let kind = match target.known_kind()? {
            TargetKind::Mesh => return Some(Self::Called(Called::mesh(&policy.mesh))),
            kind @ (TargetKind::MeshService
            | TargetKind::MeshExternalService
            | TargetKind::MeshMultiZoneService
            | TargetKind::MeshHTTPRoute) => kind.text(),
            TargetKind::MeshSubset
            | TargetKind::MeshGateway
            | TargetKind::MeshServiceSubset
            | TargetKind::Dataplane => return None,
        };
        let labels = target.labels.as_ref().filter(|labels| !labels.is_empty());
        Some(match labels {
            Some(labels) => Self::Labelled(Labelled { kind, mesh: policy.mesh.clone(), labels: labels.clone() }),
            None => Self::Called(Called::by(policy, kind, target)),
        })
    }
}

impl Called {
    pub(super) fn mesh(name: &str) -> Self {
        let [mesh, zone, namespace] = Default::default();
        Self { kind: TargetKind::Mesh.text(), mesh, zone, namespace, name: name.to_owned() }
    }

    /// `None` for a resource that nothing can reference.
    pub(super) fn of(resource: &Resource) -> Option<Self> {
        let Kri { short: _, mesh, zone, namespace, name, section: _ } = resource.kri()?;
        Some(Self { kind: resource.kind.name, mesh, zone, namespace, name })
    }

    fn by(policy: &Policy, kind: &'static str, target: &TargetRef) -> Self {
        let meta = policy.meta();
        let namespace = given(target.namespace.as_ref()).or(meta.namespace());
        Self {
            kind,
            mesh: policy.mesh.to_string(),
            zone: meta.zone().unwrap_or_default().to_owned(),
            namespace: namespace.unwrap_or_default().to_owned(),
            name: target.name.clone().unwrap_or_default(),
        }
    }

    pub(super) fn kri(&self, short: &'static str) -> Kri {
        let Self { kind: _, mesh, zone, namespace, name } = self.clone();
        Kri { short, mesh, zone, namespace, name, section: String::new() }
    }

    fn find<'a>(&self, resources: &'a Resources) -> Option<&'a Arc<Resource>> {
        resources.by_kri(&self.kri(resources.kind(self.kind)?.short?))
    }
}

impl Labelled {
    pub(super) fn is(&self, resource: &Resource) -> bool {
        let Self { kind, mesh, labels } = self;
        let has = |(key, value)| resource.labels.get(key) == Some(value);
        *kind == resource.kind.name && *mesh == resource.mesh && labels.iter().all(has)
    }
}

/// The legacy name by which a target references a MeshService.
pub(super) fn legacy_name(target: &TargetRef) -> Option<LegacyName<'_>> {
    target.name.as_deref().filter(|_| target.may_be_service_tag()).and_then(LegacyName::parse)
}

/// In all zones: legacy names do not contain the zone.
fn meaning(old: &LegacyName<'_>, policy: &Policy) -> Meaning {
    let labels = [(labels::DISPLAY_NAME, old.name), (labels::NAMESPACE, old.namespace)];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let who = Labelled { kind: TargetKind::MeshService.text(), mesh: policy.mesh.clone(), labels };
    Meaning { who: Who::Labelled(who), part: old.port.map_or(Part::Whole, Part::Port) }
}

/// The part of a conf that applies by a legacy name. `None` when no part does.
fn part_for_legacy_names(legacy_names: LegacyNames, conf: Conf) -> Option<Conf> {
    match legacy_names {
        LegacyNames::All => Some(conf),
        LegacyNames::Nothing => None,
        LegacyNames::Only(path) => {
            let part: &Value = path.iter().try_fold(conf.json(), |value, field| value.get(field))?;
            Some(Conf::new(path.iter().rev().fold(part.clone(), |inner, field| json!({ *field: inner }))))
        }
    }
}

fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

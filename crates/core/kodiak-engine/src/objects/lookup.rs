//! Resolves references of routes, outbounds and policies to resources.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_model::{Kri, Labels, kinds::dataplane::BackendKind, labels};
use kodiak_policies::target::PortRef;
use kodiak_rules::outbound::PolicyTargets;
use kodiak_services::reachable::Wanted;
use kodiak_world::destination;

use super::Objects;
use crate::{
    interest::Interest,
    target::{PortTarget, Target},
};

impl Objects {
    /// Resolves the backend of a route. With labels, the oldest resource that has them and the port.
    pub(crate) fn resolve_backend(&self, written: &PortRef, mesh: &str, zone: &str) -> Option<PortTarget> {
        let port = |kri: &Arc<Kri>| {
            let ports = &self.known.get(kri)?.destination.ports;
            let port = ports.iter().find(|port| {
                let by_section = written.section.is_empty() || port.section == written.section;
                by_section && written.port.is_none_or(|number| port.port == number)
            })?;
            Some(PortTarget::new(kri, &port.section, port.port))
        };
        if !written.labels.is_empty() {
            let found = self.labelled(written.kind, &written.labels);
            let with_port = found.filter_map(|kri| Some((&self.known.get(kri)?.destination, port(kri)?)));
            return with_port.min_by_key(|(found, _)| (found.created, &found.name)).map(|(_, port)| port);
        }
        let named = [zone, ""].map(|zone| self.named(written.kind, mesh, zone, &written.namespace, &written.name));
        named.into_iter().flatten().find_map(port)
    }

    /// Ports to which the reference of a Dataplane's outbound resolves.
    pub(crate) fn resolve_outbound(&self, wanted: &Wanted) -> Vec<PortTarget> {
        let all: Vec<&Arc<Kri>> = match (wanted.labels(), wanted.named()) {
            (Some(labels), _) => wanted.kind().into_iter().flat_map(|kind| self.labelled(kind, labels)).collect(),
            (None, Some(named)) => {
                named.iter().filter_map(|kri| self.known.get_key_value(kri)).map(|(kri, _)| kri).collect()
            }
            (None, None) => Vec::new(),
        };
        let ports = all.into_iter().filter_map(|kri| Some((kri, self.known.get(kri)?)));
        let ports = ports.flat_map(|(kri, object)| {
            let ports = object.destination.ports.iter();
            let meant = ports.filter(|port| wanted.takes(&object.destination, port));
            meant.map(|port| PortTarget::new(kri, &port.section, port.port)).collect::<Vec<_>>()
        });
        ports.collect()
    }

    /// Whether the backend of a route may resolve to this resource.
    pub(crate) fn may_resolve_to(&self, written: &PortRef, kri: &Kri) -> bool {
        let Some(object) = self.known.get(kri) else { return false };
        let has_labels = || written.labels.iter().all(|(key, value)| object.destination.labels.get(key) == Some(value));
        object.destination.kind() == written.kind
            && if written.labels.is_empty() { kri.name == written.name } else { has_labels() }
    }

    /// Interests that a destination meets.
    pub(crate) fn interests_in(&self, target: &Target) -> Vec<Interest> {
        let mut met = vec![Interest::Target(target.clone())];
        let kind = target.object().and_then(|kri| {
            let found = destination::KINDS.iter().find(|(known, _)| known.short == Some(kri.short))?;
            Some((kri, found.1))
        });
        if let Some((kri, kind)) = kind {
            met.push(Interest::named(kind, &kri.name));
            let labels = self.known.get(kri).into_iter().flat_map(|object| object.destination.labels.iter());
            met.extend(labels.map(|(key, value)| Interest::Label(kind, key.clone(), value.clone())));
        }
        met
    }

    /// Destinations that meet an interest.
    pub(crate) fn meeting(&self, interest: &Interest) -> impl Iterator<Item = Target> {
        let (named, labelled) = match interest {
            Interest::Target(target) => (Some(target.clone()), None),
            Interest::Label(kind, key, value) => (None, self.by_label.get(&(*kind, key.clone(), value.clone()))),
        };
        named.into_iter().chain(labelled.into_iter().flatten().cloned().map(Target::Object))
    }

    /// KRIs of the resources that the items of a policy select.
    pub(crate) fn selected_by(&self, meant: &PolicyTargets) -> impl Iterator<Item = Arc<Kri>> {
        let mut found: BTreeSet<Arc<Kri>> = BTreeSet::new();
        if let PolicyTargets::Some { named, old, labels } = meant {
            found.extend(named.iter().filter_map(|kri| self.known.get_key_value(kri)).map(|(kri, _)| kri.clone()));
            for (name, namespace) in old {
                let pairs = [(labels::DISPLAY_NAME, name), (labels::NAMESPACE, namespace)];
                let wanted = pairs.map(|(key, value)| (key.to_owned(), value.clone())).into();
                found.extend(self.labelled(BackendKind::MeshService, &wanted).cloned());
            }
            for (kind, wanted) in labels {
                let kind = destination::KINDS.iter().find(|(known, _)| known.name == *kind);
                found.extend(kind.into_iter().flat_map(|(_, kind)| self.labelled(*kind, wanted)).cloned());
            }
        }
        found.into_iter()
    }

    fn named(&self, kind: BackendKind, mesh: &str, zone: &str, namespace: &str, name: &str) -> Option<&Arc<Kri>> {
        let (known, _) = destination::KINDS.iter().find(|(_, sort)| *sort == kind)?;
        let kri = Kri {
            short: known.short?,
            mesh: mesh.to_owned(),
            zone: zone.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            section: String::new(),
        };
        self.known.get_key_value(&kri).map(|(kri, _)| kri)
    }

    /// KRIs of the resources that have all of the labels.
    pub(super) fn labelled<'a>(&'a self, kind: BackendKind, labels: &'a Labels) -> impl Iterator<Item = &'a Arc<Kri>> {
        let with = |(key, value): (&String, &String)| self.by_label.get(&(kind, key.clone(), value.clone()));
        let fewest = labels.iter().map(with).collect::<Option<Vec<_>>>();
        let fewest = fewest.and_then(|all| all.into_iter().min_by_key(|kris| kris.len()));
        let has_all = move |kri: &&Arc<Kri>| {
            let own = &self.known[*kri].destination.labels;
            labels.iter().all(|(key, value)| own.get(key) == Some(value))
        };
        fewest.into_iter().flatten().filter(has_all)
    }
}

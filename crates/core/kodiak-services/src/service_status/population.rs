//! Dataplanes of a mesh, the observed state of their proxies, and the services that they affect.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::kinds::{dataplane::BackendKind, mesh::MeshServicesMode};
use kodiak_rules::Proxy;

use super::{
    facts::{Content, DataplaneFacts, MeshFacts, Seen, Stored},
    groups::Groups,
    health::Member,
    tags::StoredVips,
    workloads::Workloads,
};
use crate::{
    generated_services::{Offers, Rules, is_local},
    hostnames::ServiceKey,
    membership::Membership,
    tag_services::TagServices,
};

#[derive(Default)]
pub(super) struct Population {
    /// `None` while the mesh does not exist.
    pub(super) facts: Option<MeshFacts>,
    pub(super) membership: Membership,
    pub(super) offers: Offers,
    pub(super) groups: Groups,
    pub(super) tags: TagServices,
    pub(super) vips: Option<StoredVips>,
    pub(super) workloads: Workloads,
    proxies: BTreeMap<Arc<str>, Arc<Proxy>>,
    seen: BTreeMap<Arc<str>, Seen>,
}

impl Population {
    /// Returns the affected MeshServices.
    pub(super) fn set_dataplane(
        &mut self,
        rules: &Rules,
        mesh: &Arc<str>,
        name: &Arc<str>,
        facts: Option<DataplaneFacts>,
    ) -> BTreeSet<Arc<str>> {
        let created = facts.as_ref().map(|facts| facts.created);
        let proxy = facts.map(|DataplaneFacts { labels, dataplane, admission, .. }| {
            Arc::new(Proxy { mesh: mesh.clone(), name: name.clone(), labels, dataplane, admission })
        });
        let mut concerned = self.membership.set_proxy(name, proxy.as_ref());
        concerned.extend(self.offers.set_proxy(rules, name, proxy.as_deref().zip(created)));
        match proxy {
            Some(proxy) => self.proxies.insert(name.clone(), proxy),
            None => self.proxies.remove(name),
        };
        concerned
    }

    /// Returns whether it changed.
    pub(super) fn set_seen(&mut self, name: &Arc<str>, seen: Option<Seen>) -> bool {
        let before = match seen {
            Some(seen) => self.seen.insert(name.clone(), seen),
            None => self.seen.remove(name),
        };
        before.unwrap_or_default() != seen.unwrap_or_default()
    }

    /// Returns the affected MeshMultiZoneServices.
    pub(super) fn set_service(&mut self, key: &ServiceKey, stored: Option<&Stored>) -> BTreeSet<Arc<str>> {
        let content = stored.map(|stored| &stored.content);
        match key.kind {
            BackendKind::MeshService => {
                let selector = match content {
                    Some(Content::Service { spec, .. }) => Some(&spec.selector),
                    _ => None,
                };
                let labels = stored.map(|stored| &stored.labels);
                let local = labels.is_some_and(|labels| is_local(labels));
                self.membership.set_service(&key.name, selector.filter(|_| local));
                return self.groups.set_service(&key.name, labels);
            }
            BackendKind::MeshMultiZoneService => {
                let selector = match content {
                    Some(Content::MultiZone { spec, .. }) => Some(&spec.selector.mesh_service),
                    _ => None,
                };
                self.groups.set_group(&key.name, selector);
            }
            BackendKind::MeshExternalService => (),
        }
        BTreeSet::new()
    }

    pub(super) fn seen(&self, name: &str) -> Seen {
        self.seen.get(name).copied().unwrap_or_default()
    }

    /// Dataplanes of an existing MeshService.
    pub(super) fn members(&self, service: &str) -> impl Iterator<Item = Member<'_>> {
        self.membership.members(service).map(|proxy| (&**proxy, self.seen(&proxy.name)))
    }

    /// Dataplanes that name a service for which no MeshService is generated: a user's MeshService has the name, and does
    /// not select them.
    pub(super) fn unselected(&self, service: &str, mode: MeshServicesMode) -> Vec<Arc<str>> {
        if mode == MeshServicesMode::Disabled {
            return Vec::new();
        }
        let selected: BTreeSet<&Arc<str>> = self.membership.members(service).map(|proxy| &proxy.name).collect();
        let asking = self.offers.of(service).map(|((_, name), _)| name);
        asking.filter(|name| !selected.contains(name)).cloned().collect()
    }

    /// Dataplanes of a MeshService that will be generated.
    pub(super) fn asking(&self, service: &str) -> impl Iterator<Item = Member<'_>> {
        let asking = self.offers.of(service).filter_map(|((_, name), _)| self.proxies.get(name));
        asking.map(|proxy| (&**proxy, self.seen(&proxy.name)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.facts.is_none()
            && self.proxies.is_empty()
            && self.seen.is_empty()
            && self.vips.is_none()
            && self.workloads.is_empty()
    }
}

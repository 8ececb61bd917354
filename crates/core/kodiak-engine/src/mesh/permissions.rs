//! Which destinations the proxies of a mesh may call, kept up to date.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_identity::{Identity, TlsPolicies};
use kodiak_reachability::{Certificate, Mode, SetId, certificates, is_enforced};
use kodiak_rules::{Policy, Proxy, Shadow};

use super::Mesh;
use crate::{
    dirty_set::DirtySet,
    engine::UpdateContext,
    permitted::{Evidence, Moved, Permitted},
    target::{Target, Targets},
};

/// The kind of policy that decides who may call whom.
const MESH_TRAFFIC_PERMISSION: &str = "MeshTrafficPermission";

impl Mesh {
    pub(crate) fn set_identity(&mut self, name: &Arc<str>, identity: Option<Arc<Identity>>) {
        match identity {
            Some(identity) => drop(self.identities.insert(name.clone(), identity)),
            None => drop(self.identities.remove(name)),
        }
        if self.permitted.is_some() {
            self.dirty.clients.extend(self.proxies.keys().cloned());
        }
    }

    pub(crate) fn acknowledge(&mut self, name: &Arc<str>, acknowledged: u64) {
        if let Some(permitted) = &mut self.permitted {
            let ready = permitted.settle(|server, revision| server == name && revision <= acknowledged);
            self.dirty.admissions.extend(ready);
        }
    }

    /// Proxies whose acknowledgement clients wait for, with the revision.
    pub(crate) fn awaited(&self) -> BTreeMap<&Arc<str>, u64> {
        self.permitted.as_ref().map_or_else(BTreeMap::new, Permitted::awaited)
    }

    /// A Dataplane came, changed or left.
    pub(super) fn admission_changed(&mut self, name: &Arc<str>, dataplane: Option<&Arc<Proxy>>) {
        let Some(dataplane) = dataplane.filter(|_| self.permitted.is_some()) else { return };
        let services = dataplane.dataplane.inbounds().iter().filter_map(|inbound| inbound.service()).map(Arc::from);
        let served = self.evidence(Shadow::default()).served_by(name, services);
        self.dirty.admissions.extend(served);
    }

    /// A policy of this kind changed, whose versions select these Dataplanes, and perhaps some that are not known.
    pub(super) fn permission_changed<'a>(
        &mut self,
        kind: &str,
        versions: impl Iterator<Item = &'a Arc<Policy>>,
        selected: &BTreeSet<Arc<str>>,
    ) {
        let decides = kind == MESH_TRAFFIC_PERMISSION || TlsPolicies::kinds().any(|other| other.name == kind);
        if !decides || self.permitted.is_none() {
            return;
        }
        for name in selected {
            let Some(dataplane) = self.dataplanes.get(name) else { continue };
            let services = dataplane.dataplane.inbounds().iter().filter_map(|inbound| inbound.service()).map(Arc::from);
            let served = self.evidence(Shadow::default()).served_by(name, services);
            self.dirty.permissions.extend(served);
        }
        let unseen = versions.flat_map(|policy| self.objects.unseen_by(policy));
        self.dirty.admissions.extend(unseen.map(Target::Object));
    }

    fn evidence(&self, shadow: Shadow) -> Evidence<'_> {
        Evidence {
            services: &self.services,
            objects: &self.objects,
            policy_index: &self.policy_index,
            shadow,
            rollout: &self.view.rollout,
        }
    }

    /// Updates the destinations that proxies may call. Adds to `dirty` what depends on them.
    pub(super) fn update_permitted(&mut self, dirty: &mut DirtySet, view_changed: bool, context: &UpdateContext<'_>) {
        let (admissions, permissions) = (std::mem::take(&mut dirty.admissions), std::mem::take(&mut dirty.permissions));
        let is_on = self.view.reachability == Mode::On || !self.trimmed_by_label.is_empty();
        if self.spec.is_none() || !is_on || !is_enforced(&self.view.rollout) {
            if self.permitted.take().is_some() {
                dirty.reclassified.extend(self.proxies.keys().cloned());
            }
            return;
        }
        let known = self.permitted.take();
        let is_new = known.is_none();
        let mut permitted = known.unwrap_or_else(|| Permitted::new(self.name.clone()));
        let from = self.evidence(context.settings.shadow);
        let mut moved = Moved::default();
        if is_new || view_changed {
            for name in self.proxies.keys() {
                self.update_client(name, &mut permitted);
            }
            dirty.reclassified.extend(self.proxies.keys().cloned());
        } else {
            for name in dirty.proxies.iter().chain(&dirty.clients) {
                self.update_client(name, &mut permitted);
            }
            dirty.reclassified.append(&mut dirty.clients);
        }
        if is_new {
            permitted.update(from.targets(), from, &mut moved);
        } else {
            for target in permissions {
                let servers = from.servers(&target).into_iter().filter(|name| self.proxies.contains_key(name));
                permitted.wait_for(target, servers.collect(), context.revision, context.now);
            }
            permitted.update(admissions, from, &mut moved);
            permitted.grant(from, context.now, &mut moved);
        }
        self.permitted = Some(permitted);
        dirty.reclassified.extend(moved.clients);
        dirty.targets.extend(moved.targets);
    }

    fn update_client(&self, name: &Arc<str>, permitted: &mut Permitted) {
        let client = self.dataplanes.get(name).filter(|_| self.proxies.contains_key(name));
        let client = client.filter(|proxy| Mode::of(self.view.reachability, None, &proxy.labels).0 == Mode::On);
        // Without a certificate it may call what everybody may call.
        let identities = || self.identities.values().map(|identity| &**identity);
        let certificates = client.map(|proxy| {
            let mut all = certificates(&self.name, proxy, identities());
            // A MeshIdentity that was deleted or edited has issued certificates that are still in use.
            let in_use = kodiak_identity::expected_ids(&self.view.rollout, proxy).into_iter();
            let in_use = in_use.map(|id| Certificate::from([id])).filter(|id| !all.contains(id));
            all.extend(in_use.collect::<Vec<_>>());
            all
        });
        permitted.set_client(name, certificates.as_deref());
    }

    /// Targets that only one of both may call.
    pub(super) fn differently_permitted(&self, old: Option<&[SetId]>, new: Option<&[SetId]>) -> Targets {
        match (old, new, &self.permitted) {
            (None, None, _) => Targets::default(),
            (Some(old), Some(new), Some(permitted)) => {
                let (old, new) = (old.iter().collect::<BTreeSet<_>>(), new.iter().collect::<BTreeSet<_>>());
                let sets = old.symmetric_difference(&new);
                Targets::Some(sets.flat_map(|set| permitted.graph().destinations_of(**set)).cloned().collect())
            }
            _ => Targets::All,
        }
    }
}

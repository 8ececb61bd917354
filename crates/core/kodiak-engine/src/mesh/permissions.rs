//! Which destinations the proxies of a mesh may call, kept up to date.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_reachability::{Mode, Purpose, SetId, certificates};
use kodiak_rules::{Policy, Proxy, Shadow};

use super::{Mesh, decides_on_access, services_of};
use crate::{
    dirty_set::DirtySet,
    engine::UpdateContext,
    permitted::{Evidence, Moved, Permitted},
    target::{Target, Targets},
};

impl Mesh {
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
        let served = self.evidence(Shadow::default()).served_by(name, services_of(dataplane));
        self.dirty.admissions.extend(served);
    }

    /// A policy of this kind changed, whose versions select these Dataplanes, and perhaps some that are not known.
    pub(super) fn permission_changed<'a>(
        &mut self,
        kind: &str,
        versions: impl Iterator<Item = &'a Arc<Policy>>,
        selected: &BTreeSet<Arc<str>>,
    ) {
        if !decides_on_access(kind) || self.permitted.is_none() {
            return;
        }
        for name in selected {
            let Some(dataplane) = self.dataplanes.get(name) else { continue };
            let served = self.evidence(Shadow::default()).served_by(name, services_of(dataplane));
            self.dirty.permissions.extend(served);
        }
        let unseen = versions.flat_map(|policy| self.objects.unseen_by(policy));
        self.dirty.admissions.extend(unseen.map(Target::Object));
    }

    /// The rollout is at another step: each inbound may accept other connections.
    pub(super) fn step_taken(&self, dirty: &mut DirtySet) {
        let targets = self.evidence(Shadow::default()).targets();
        dirty.permissions.extend(targets.iter().cloned());
        dirty.admissions.extend(targets);
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
        if self.spec.is_none() || !is_on || !Purpose::Trimming.is_decided_by_permissions(&self.view.rollout) {
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
            for name in &dirty.proxies {
                self.update_client(name, &mut permitted);
            }
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
        let certificates = client.map(|proxy| certificates(&self.name, proxy, &self.view.rollout));
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

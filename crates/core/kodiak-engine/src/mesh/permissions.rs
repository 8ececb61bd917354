//! Which destinations the proxies of a mesh may call, kept up to date.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_reachability::{Mode, Purpose, SetId, certificates};
use kodiak_rules::{Policy, Proxy, Shadow};

use super::{Mesh, decides_on_access};
use crate::{
    dirty_set::DirtySet,
    engine::UpdateContext,
    evidence::Evidence,
    in_effect::{Before, Origin},
    permitted::{Moved, Permitted},
    target::{Target, Targets},
};

impl Mesh {
    /// The insight of a proxy changed.
    pub(crate) fn acknowledged(&mut self, name: &Arc<str>) {
        self.dirty.servers.insert(name.clone());
    }

    /// A Dataplane came, changed or left.
    pub(super) fn admission_changed(&mut self, dataplane: Option<&Arc<Proxy>>) {
        let Some(dataplane) = dataplane.filter(|_| self.permitted.is_some()) else { return };
        let served = self.evidence(Shadow::default()).served_by(dataplane);
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
        self.dirty.touched_servers.extend(selected.iter().cloned());
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
        let mut targets = std::mem::take(&mut dirty.admissions);
        let touched = std::mem::take(&mut dirty.touched_servers);
        let mut servers = std::mem::take(&mut dirty.servers);
        servers.extend(touched.iter().cloned());
        let is_on = self.view.reachability == Mode::On || !self.trimmed_by_label.is_empty();
        if self.spec.is_none() || !is_on || !Purpose::Trimming.is_decided_by_permissions(&self.view.rollout) {
            if self.permitted.take().is_some() {
                dirty.reclassified.extend(self.proxies.keys().cloned());
            }
            return;
        }
        let known = self.permitted.take();
        let before = match &known {
            Some(_) => Before::Nothing,
            // Clients have everything so far, so nobody gets a destination because what servers have is unknown.
            None if self.proxies.values().any(|proxy| proxy.snapshot.is_some()) => Before::Unknown,
            None => Before::Recorded,
        };
        let is_all = known.is_none() || view_changed;
        let mut permitted = known.unwrap_or_else(|| Permitted::new(self.name.clone(), context.now));
        let from = self.evidence(context.settings.shadow);
        if is_all {
            servers.extend(self.dataplanes.keys().cloned());
        }
        for name in &servers {
            let is_touched = touched.contains(name);
            targets.extend(self.update_server(name, is_touched, before, &mut permitted, context));
        }
        if is_all {
            targets.extend(from.targets());
            dirty.clients.extend(self.proxies.keys().cloned());
        } else {
            dirty.clients.extend(dirty.proxies.iter().cloned());
            if dirty.tick {
                targets.extend(permitted.timed().cloned());
                let given_up = permitted.give_up(context.now).into_iter();
                let given_up = given_up.filter_map(|name| self.dataplanes.get(&name));
                targets.extend(given_up.flat_map(|proxy| from.served_by(proxy)));
            }
        }
        for name in &dirty.clients {
            self.update_certificates(name, &mut permitted, context);
        }
        for name in servers {
            let Some(token) = context.acknowledged(&self.name, &name).token else { continue };
            let (inbounds, certificates) = permitted.acknowledge(&name, token, context.now);
            if let Some(proxy) = self.dataplanes.get(&name).filter(|_| inbounds) {
                let served = from.served_by(proxy).into_iter();
                targets.extend(served.filter(|target| !permitted.is_waiting_without(target, &name, context.now)));
            }
            if certificates {
                dirty.clients.insert(name);
            }
        }
        for name in &dirty.clients {
            self.update_client(name, &mut permitted);
        }
        let mut moved = Moved::default();
        permitted.refresh(targets, from, context.now, &mut moved);
        self.permitted = Some(permitted);
        dirty.reclassified.append(&mut dirty.clients);
        dirty.reclassified.extend(moved.clients);
        dirty.targets.extend(moved.targets);
    }

    /// Returns the destinations that it serves, if its newest version is another one.
    fn update_server(
        &self,
        name: &Arc<str>,
        is_touched: bool,
        before: Before,
        permitted: &mut Permitted,
        context: &UpdateContext<'_>,
    ) -> BTreeSet<Target> {
        let from = self.evidence(context.settings.shadow);
        let origin = self.origin(name, before, context);
        let dataplane = self.dataplanes.get(name);
        let inbounds = dataplane.map(|proxy| permitted.inbounds_of(proxy, from));
        let is_changed = permitted.set_server(name, inbounds, is_touched, origin, context.moment());
        dataplane.filter(|_| is_changed).map(|proxy| from.served_by(proxy)).unwrap_or_default()
    }

    fn origin(&self, name: &Arc<str>, before: Before, context: &UpdateContext<'_>) -> Origin {
        let state = context.acknowledged(&self.name, name);
        Origin { is_here: self.proxies.contains_key(name), state, before }
    }

    /// Certificates that a proxy presents, or will present.
    fn update_certificates(&self, name: &Arc<str>, permitted: &mut Permitted, context: &UpdateContext<'_>) {
        let Some(proxy) = self.dataplanes.get(name).filter(|_| self.proxies.contains_key(name)) else { return };
        let all = certificates(&self.name, proxy, &self.view.rollout);
        permitted.set_certificates(name, all.into(), context.acknowledged(&self.name, name), context.moment());
    }

    fn update_client(&self, name: &Arc<str>, permitted: &mut Permitted) {
        let client = self.dataplanes.get(name).filter(|_| self.proxies.contains_key(name));
        let mode = client.map(|proxy| Mode::of(self.view.reachability, None, &proxy.labels).0);
        permitted.set_client(name, mode == Some(Mode::On));
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

//! Reconciliation of one service.

use std::{net::Ipv4Addr, sync::Arc};

use jiff::Timestamp;
use kodiak_model::{
    Labels,
    kinds::{
        dataplane::BackendKind,
        mesh_external_service::MeshExternalServiceStatus,
        mesh_multi_zone_service::MeshMultiZoneServiceStatus,
        mesh_service::{DataplaneProxies, MeshService, Vip},
    },
};

use super::{
    Conflict, Content, Due, ServiceReconciler, Status, Stored, Timer, Wanted, Write, conditions,
    facts::MeshFacts,
    health::{Census, Moment},
};
use crate::{
    generated_services::{Decision, Existing, Situation, Verdict, decide, is_local},
    hostnames::ServiceKey,
};

impl ServiceReconciler {
    pub(super) fn look_at(&mut self, key: &ServiceKey, now: Timestamp, due: &mut Due) {
        // What belongs to no mesh is about to go.
        let Some(facts) = self.meshes.get(&key.mesh).and_then(|population| population.facts.clone()) else {
            self.conflicts.remove(key);
            return;
        };
        if key.kind == BackendKind::MeshService {
            self.look_at_service(key, &facts, now, due);
            return;
        }
        let Some(stored) = self.services.get(key).cloned() else { return };
        match &stored.content {
            Content::External { fault, status } => self.external(key, &stored, (fault.as_deref(), status), due),
            Content::MultiZone { status, .. } => self.multi_zone(key, &stored, status, due),
            // Only MeshServices are kept under the kind of MeshServices.
            Content::Service { .. } => (),
        }
    }

    fn look_at_service(&mut self, key: &ServiceKey, facts: &MeshFacts, now: Timestamp, due: &mut Due) {
        let Some(population) = self.meshes.get(&key.mesh) else { return };
        let stored = self.services.get(key).cloned();
        let existing = stored.as_ref().and_then(|stored| match &stored.content {
            Content::Service { spec, .. } => Some(Existing { labels: &stored.labels, spec }),
            _ => None,
        });
        let situation = Situation { rules: &self.settings.rules, mesh: &key.mesh, mode: facts.mode, now };
        let Decision { verdict, conflict, look_again } = decide(&situation, &key.name, existing, &population.offers);
        self.note_conflict(key, &conflict, due);
        if let Some(end) = look_again {
            self.timers.entry(end).or_default().insert(Timer::Service(key.clone()));
        }
        match (verdict, stored) {
            (Verdict::Delete, Some(stored)) => {
                due.writes.push(Wanted { key: key.clone(), write: Write::Delete { version: stored.version } });
            }
            (Verdict::Stand { labels, spec }, None) => {
                let spec = self.with_proxies(key, facts, spec, now);
                due.writes.push(Wanted { key: key.clone(), write: Write::Put { labels, spec, version: None } });
            }
            (Verdict::Stand { labels, spec }, Some(stored)) => {
                self.keep_service(key, facts, &stored, (labels, spec), now, due);
            }
            (Verdict::Leave, Some(stored)) => {
                let Content::Service { spec, .. } = &stored.content else { return };
                let as_it_is = ((*stored.labels).clone(), spec.clone());
                self.keep_service(key, facts, &stored, as_it_is, now, due);
            }
            (Verdict::Delete | Verdict::Leave, None) => (),
        }
    }

    /// A new MeshService is created with its state and identities.
    fn with_proxies(&self, key: &ServiceKey, facts: &MeshFacts, spec: MeshService, now: Timestamp) -> MeshService {
        let moment = self.moment(now);
        let population = &self.meshes[&key.mesh];
        let census = Census::take(&spec, population.asking(&key.name), &facts.rollout, moment);
        let proxies = census.proxies(&DataplaneProxies::default(), moment);
        MeshService { state: Census::state(&proxies), identities: census.identities(None), ..spec }
    }

    fn keep_service(
        &mut self,
        key: &ServiceKey,
        facts: &MeshFacts,
        stored: &Stored,
        (labels, mut spec): (Labels, MeshService),
        now: Timestamp,
        due: &mut Due,
    ) {
        let Content::Service { spec: stored_spec, status: stored_status } = &stored.content else { return };
        let mut status = stored_status.clone();
        if is_local(&stored.labels) {
            let moment = self.moment(now);
            let census = Census::take(&spec, self.meshes[&key.mesh].members(&key.name), &facts.rollout, moment);
            let proxies = census.proxies(&stored_status.dataplane_proxies, moment);
            if moment.settling && proxies != census.proxies(&DataplaneProxies::default(), moment) {
                self.timers.entry(self.settled).or_default().insert(Timer::Service(key.clone()));
            }
            spec.state = Census::state(&proxies);
            spec.identities = census.identities(spec.identities.as_ref());
            status.tls = census.tls(&stored_status.tls, facts.mtls);
            status.dataplane_proxies = proxies;
            census.report(&mut status.conditions);
        }
        conditions::report_ports(self.conflicts.get(key).map_or(&[], Vec::as_slice), &mut status.conditions);
        let unselected = self.meshes[&key.mesh].unselected(&key.name, facts.mode);
        conditions::report_name(&key.name, &unselected, &mut status.conditions);
        if spec != *stored_spec || labels != *stored.labels {
            let write = Write::Put { labels, spec, version: Some(stored.version) };
            due.writes.push(Wanted { key: key.clone(), write });
        }
        self.fill_vips(key, &mut status.vips, due);
        (status.addresses, status.hostname_generators) = self.hostnames.of(key);
        if status != *stored_status || stored.status_version.is_none() {
            want_status(key, stored, Status::Service(status), due);
        }
    }

    fn external(
        &mut self,
        key: &ServiceKey,
        stored: &Stored,
        (fault, before): (Option<&str>, &MeshExternalServiceStatus),
        due: &mut Due,
    ) {
        let mut status = before.clone();
        if status.vip.ip.is_empty()
            && let Some(address) = self.address(key, due)
        {
            status.vip.ip = address.to_string();
        }
        conditions::report_tls(fault, &mut status.conditions);
        (status.addresses, status.hostname_generators) = self.hostnames.of(key);
        if status != *before || stored.status_version.is_none() {
            want_status(key, stored, Status::External(status), due);
        }
    }

    fn multi_zone(&mut self, key: &ServiceKey, stored: &Stored, before: &MeshMultiZoneServiceStatus, due: &mut Due) {
        let mut status = before.clone();
        self.fill_vips(key, &mut status.vips, due);
        (status.addresses, status.hostname_generators) = self.hostnames.of(key);
        self.meshes[&key.mesh].groups.report(&key.mesh, &key.name, &mut status);
        if status != *before || stored.status_version.is_none() {
            want_status(key, stored, Status::MultiZone(status), due);
        }
    }

    fn fill_vips(&mut self, key: &ServiceKey, vips: &mut Vec<Vip>, due: &mut Due) {
        if vips.is_empty() {
            vips.extend(self.address(key, due).map(|address| Vip { ip: address.to_string() }));
        }
    }

    fn address(&mut self, key: &ServiceKey, due: &mut Due) -> Option<Ipv4Addr> {
        let address = self.addresses.give(key);
        if address.is_none() {
            due.without_address.push(key.clone());
        }
        address
    }

    pub(super) fn moment(&self, now: Timestamp) -> Moment {
        Moment { now, grace: self.settings.connection_grace, settling: now < self.settled }
    }

    fn note_conflict(&mut self, key: &ServiceKey, dataplanes: &[Arc<str>], due: &mut Due) {
        if dataplanes.is_empty() {
            self.conflicts.remove(key);
        } else if self.conflicts.get(key).map(Vec::as_slice) != Some(dataplanes) {
            due.conflicts.push(Conflict { service: key.clone(), dataplanes: dataplanes.to_vec() });
            self.conflicts.insert(key.clone(), dataplanes.to_vec());
        }
    }
}

fn want_status(key: &ServiceKey, stored: &Stored, status: Status, due: &mut Due) {
    let write = Write::Status { status, version: stored.status_version };
    due.writes.push(Wanted { key: key.clone(), write });
}

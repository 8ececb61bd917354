//! Two control planes with one store, and proxies that apply and acknowledge snapshots when they are told to.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use kodiak_reachability::Mode;
use kodiak_services::{
    service_addresses::{AddressAllocator, Ranges},
    vips::Vips,
};
use kodiak_xds::node::NodeMetadata;
use kodiak_xds_stream::Snapshot;
use serde_json::json;

use super::{
    super::world::{Fake, MESH, World, dataplane_change, key, mesh_change, policy_change},
    envoy,
};
use crate::{
    AcknowledgedState, Engine, EngineChange, Outcome, PermissionsToken, permitted::LONGEST_WAIT, presence::ABSENCE,
};

pub(super) const SERVERS: [&str; 3] = ["x-1", "x-2", "y-1"];
pub(super) const CLIENTS: [&str; 2] = ["a-1", "b-1"];
pub(super) const PROXIES: [&str; 5] = ["x-1", "x-2", "y-1", "a-1", "b-1"];
const DESTINATIONS: [&str; 2] = ["x", "y"];
const MTLS: &str = r#"{ "mtls": { "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin" }] } }"#;
/// The longest wait, and the time until the next tick.
const SLACK: SignedDuration = SignedDuration::from_secs(12);

#[derive(Debug, Clone)]
pub(super) enum Edit {
    Permission(&'static str, Option<String>),
    Server { name: &'static str, service: &'static str, version: u8 },
    Client { name: &'static str, service: &'static str },
    Mode(Mode),
}

pub(super) struct Model {
    now: Timestamp,
    /// Of the store.
    revision: u64,
    control_planes: [Engine; 2],
    mode: Mode,
    permissions: BTreeMap<&'static str, String>,
    /// Service and version of each proxy.
    services: Services,
    /// As control planes see them, between two edits.
    seen: [Services; 2],
    vips: Arc<Vips>,
    insights: BTreeMap<&'static str, AcknowledgedState>,
    proxies: BTreeMap<&'static str, Proxy>,
    /// Proxies whose configuration a control plane cannot know, until they acknowledge.
    unknown: [BTreeSet<&'static str>; 2],
    /// Proxies with versions that a restart forgot: before and after them, they had the same.
    forgotten: [BTreeSet<&'static str>; 2],
    /// Start of each control plane, or of the mode: clients may have had more before.
    started: [Timestamp; 2],
    /// Since when a client lacks a destination that admits it, or has one that cannot admit it.
    wrong: BTreeMap<(&'static str, &'static str), Timestamp>,
    violations: Vec<String>,
}

type Services = BTreeMap<&'static str, (&'static str, u8)>;

#[derive(Default)]
struct Proxy {
    connected: Option<usize>,
    left: Option<Timestamp>,
    rejects: bool,
    /// Whether it came from another control plane while servers had not acknowledged: that one may have shown more.
    has_moved: bool,
    /// Sent and not applied.
    sent: VecDeque<Sent>,
    applied: Option<Sent>,
    /// All that it may have since its last acknowledgement.
    possible: Vec<Sent>,
    latest: Option<Sent>,
}

#[derive(Clone)]
struct Sent {
    snapshot: Arc<Snapshot>,
    token: Option<PermissionsToken>,
    at: Timestamp,
    /// The control plane.
    by: usize,
}

impl Model {
    /// Everything is connected and at rest.
    pub(super) fn new() -> Self {
        let names: Vec<Arc<str>> = ["a", "b", "x", "y"].map(Arc::from).to_vec();
        let mut allocator = AddressAllocator::new(Ranges::default());
        let now = Timestamp::from_second(1_000_000).unwrap();
        let keep = SignedDuration::from_hours(24);
        let vips = allocator.assign(&MESH.into(), &Vips::default(), names.iter(), now, keep).vips;
        let engine = || Engine::new(World::settings(Mode::Off));
        let mut model = Self {
            now,
            revision: 0,
            control_planes: [engine(), engine()],
            mode: Mode::On,
            permissions: BTreeMap::new(),
            services: [("x-1", ("x", 1)), ("x-2", ("x", 1)), ("y-1", ("y", 1)), ("a-1", ("a", 1)), ("b-1", ("b", 1))]
                .into(),
            seen: Default::default(),
            vips: Arc::new(vips),
            insights: BTreeMap::new(),
            proxies: PROXIES.map(|name| (name, Proxy::default())).into(),
            unknown: Default::default(),
            forgotten: Default::default(),
            started: [now; 2],
            wrong: BTreeMap::new(),
            violations: Vec::new(),
        };
        let changes = model.stored();
        for control_plane in 0..2 {
            model.seen[control_plane] = model.services.clone();
            model.apply(control_plane, changes.clone());
        }
        for (n, name) in PROXIES.into_iter().enumerate() {
            model.connect(name, n % 2);
        }
        model.settle();
        // The start is over.
        model.pass(10);
        model
    }

    pub(super) fn violations(&self) -> &[String] {
        &self.violations
    }

    pub(super) fn edit(&mut self, edits: &[Edit], at_once: [bool; 2]) {
        let changes: Vec<(EngineChange, Services)> =
            edits.iter().map(|edit| (self.change(edit), self.services.clone())).collect();
        let before = self.revision;
        for (control_plane, at_once) in at_once.into_iter().enumerate() {
            if at_once {
                self.revision = before + changes.len() as u64;
                self.seen[control_plane] = self.services.clone();
                self.apply(control_plane, changes.iter().map(|(change, _)| change.clone()).collect());
            } else {
                for (revision, (change, services)) in (before + 1..).zip(&changes) {
                    self.seen[control_plane] = services.clone();
                    self.control_planes[control_plane].set_stored(revision);
                    self.apply_stored(control_plane, vec![change.clone()]);
                }
            }
            self.revision = before + changes.len() as u64;
        }
        self.check();
    }

    fn change(&mut self, edit: &Edit) -> EngineChange {
        match edit {
            Edit::Permission(name, spec) => {
                match spec {
                    Some(spec) => drop(self.permissions.insert(name, spec.clone())),
                    None => drop(self.permissions.remove(name)),
                }
                self.permission(name)
            }
            Edit::Server { name, service, version } => {
                self.services.insert(name, (service, *version));
                self.dataplane(name)
            }
            Edit::Client { name, service } => {
                self.services.insert(name, (service, 1));
                self.dataplane(name)
            }
            Edit::Mode(mode) => {
                self.mode = *mode;
                self.wrong.clear();
                // What is acknowledged while the mode is off is not recorded.
                self.unknown = [PROXIES.into(), PROXIES.into()];
                self.started = [self.now; 2];
                mesh_change(MTLS, Some(self.mode))
            }
        }
    }

    fn permission(&self, name: &str) -> EngineChange {
        policy_change("MeshTrafficPermission", name, self.permissions.get(name).map(String::as_str))
    }

    fn dataplane(&self, name: &str) -> EngineChange {
        let (service, version) = self.services[name];
        let tags = json!({ "kuma.io/service": service, "kuma.io/protocol": "tcp", "version": version.to_string() });
        let last = 1 + PROXIES.iter().position(|known| *known == name).unwrap();
        let mut networking = json!({ "address": format!("10.0.0.{last}"), "inbound": [{ "port": 80, "tags": tags }] });
        if CLIENTS.contains(&name) {
            networking["transparentProxying"] = json!({ "redirectPortInbound": 15006, "redirectPortOutbound": 15001 });
        }
        dataplane_change(name, Some(&json!({ "networking": networking }).to_string()))
    }

    /// All that the store has.
    fn stored(&self) -> Vec<EngineChange> {
        let mut changes = vec![
            EngineChange::Vips { mesh: MESH.into(), vips: Some(self.vips.clone()) },
            mesh_change(MTLS, Some(self.mode)),
        ];
        changes.extend(self.permissions.keys().map(|name| self.permission(name)));
        changes.extend(PROXIES.map(|name| self.dataplane(name)));
        changes.extend(self.insights.keys().map(|name| self.insight(name)));
        changes
    }

    fn insight(&self, name: &str) -> EngineChange {
        EngineChange::Acknowledged { key: key(name), state: self.insights.get(name).copied() }
    }

    fn write_insight(&mut self, name: &'static str, state: AcknowledgedState) {
        if self.insights.insert(name, state) != Some(state) {
            let change = self.insight(name);
            self.revision += 1;
            for control_plane in 0..2 {
                self.apply(control_plane, vec![change.clone()]);
            }
        }
    }

    fn apply(&mut self, control_plane: usize, changes: Vec<EngineChange>) {
        self.control_planes[control_plane].set_stored(self.revision);
        self.apply_stored(control_plane, changes);
    }

    fn apply_stored(&mut self, control_plane: usize, changes: Vec<EngineChange>) {
        let outcome = self.control_planes[control_plane].apply(changes, &Fake, self.now);
        self.publish(control_plane, outcome);
    }

    fn publish(&mut self, control_plane: usize, outcome: Outcome) {
        for updated in outcome.proxies {
            let name = PROXIES.into_iter().find(|name| **name == *updated.key.name).unwrap();
            let Some(snapshot) = updated.snapshot else { continue };
            if self.proxies[name].connected != Some(control_plane) {
                continue;
            }
            let sent = Sent { snapshot, token: updated.permissions, at: self.now, by: control_plane };
            if CLIENTS.contains(&name) {
                self.check_update(name, control_plane, &sent);
            }
            let proxy = self.proxies.get_mut(name).unwrap();
            proxy.latest = Some(sent.clone());
            proxy.possible.push(sent.clone());
            proxy.sent.push_back(sent);
        }
    }

    pub(super) fn deliver(&mut self, name: &'static str) {
        let proxy = self.proxies.get_mut(name).unwrap();
        if proxy.rejects {
            return;
        }
        if let Some(sent) = proxy.sent.pop_front() {
            proxy.applied = Some(sent);
        }
        self.check();
    }

    pub(super) fn acknowledge(&mut self, name: &'static str) {
        let proxy = self.proxies.get_mut(name).unwrap();
        if proxy.connected.is_none() {
            return;
        }
        let Some(applied) = proxy.applied.clone() else { return };
        if let Some(position) = proxy.possible.iter().position(|sent| Arc::ptr_eq(&sent.snapshot, &applied.snapshot)) {
            proxy.possible.drain(..position);
        }
        if applied.token.is_some() {
            for known in self.unknown.iter_mut().chain(&mut self.forgotten) {
                known.remove(name);
            }
        }
        self.write_insight(name, AcknowledgedState { online: true, left: None, has_run: true, token: applied.token });
        self.check();
    }

    pub(super) fn settle(&mut self) {
        loop {
            let pending = |proxy: &Proxy| !proxy.rejects && proxy.connected.is_some() && !proxy.sent.is_empty();
            let Some(name) = PROXIES.into_iter().find(|name| pending(&self.proxies[name])) else { break };
            self.deliver(name);
            self.acknowledge(name);
        }
        for name in PROXIES {
            if !self.proxies[name].rejects {
                self.acknowledge(name);
            }
        }
    }

    pub(super) fn reject(&mut self, name: &'static str, rejects: bool) {
        self.proxies.get_mut(name).unwrap().rejects = rejects;
    }

    pub(super) fn disconnect(&mut self, name: &'static str) {
        let proxy = self.proxies.get_mut(name).unwrap();
        let Some(control_plane) = proxy.connected.take() else { return };
        proxy.sent.clear();
        proxy.left = Some(self.now);
        self.apply(control_plane, vec![EngineChange::Disconnected { key: key(name) }]);
        let state = self.insights.get(name).copied().unwrap_or_default();
        self.write_insight(name, AcknowledgedState { online: false, left: Some(self.now), ..state });
        self.check();
    }

    pub(super) fn connect(&mut self, name: &'static str, to: usize) {
        self.disconnect(name);
        // Who comes back after a long time may have anything.
        if self.is_gone(name) {
            for unknown in &mut self.unknown {
                unknown.insert(name);
            }
        }
        let is_pending = SERVERS.into_iter().any(|server| self.proxies[server].possible.len() > 1);
        let proxy = self.proxies.get_mut(name).unwrap();
        proxy.has_moved |= is_pending && proxy.latest.as_ref().is_some_and(|latest| latest.by != to);
        proxy.connected = Some(to);
        let state = self.insights.get(name).copied().unwrap_or_default();
        self.write_insight(name, AcknowledgedState { online: true, left: None, ..state });
        self.connect_again(name, to);
        self.check();
    }

    fn connect_again(&mut self, name: &'static str, to: usize) {
        let admin_socket = Some("/tmp/admin.sock".to_owned());
        let metadata = Arc::new(NodeMetadata { admin_socket, ..NodeMetadata::default() });
        self.apply(to, vec![EngineChange::Connected { key: key(name), metadata }]);
    }

    pub(super) fn restart(&mut self, which: usize) {
        self.control_planes[which] = Engine::new(World::settings(Mode::Off));
        self.started[which] = self.now;
        for name in PROXIES {
            let latest = self.proxies[name].latest.as_ref().and_then(|sent| sent.token);
            let acknowledged = self.insights.get(name).and_then(|state| state.token);
            if latest != acknowledged {
                self.unknown[which].insert(name);
            }
            if latest != acknowledged && latest.map(|token| token.inbounds) == acknowledged.map(|token| token.inbounds)
            {
                self.forgotten[which].insert(name);
            }
        }
        let changes = self.stored();
        self.seen[which] = self.services.clone();
        self.apply(which, changes);
        for name in PROXIES.into_iter().filter(|name| self.proxies[name].connected == Some(which)).collect::<Vec<_>>() {
            self.proxies.get_mut(name).unwrap().sent.clear();
            self.connect_again(name, which);
        }
        self.check();
    }

    pub(super) fn pass(&mut self, seconds: u8) {
        for _ in 0..seconds {
            self.now += SignedDuration::from_secs(1);
            for control_plane in 0..2 {
                self.apply(control_plane, vec![EngineChange::Tick]);
            }
            self.check();
        }
    }

    /// Whether control planes do not wait for a proxy any longer.
    fn is_gone(&self, name: &str) -> bool {
        let proxy = &self.proxies[name];
        proxy.connected.is_none() && proxy.left.is_none_or(|left| self.now.duration_since(left) >= ABSENCE)
    }

    fn servers(&self, destination: &str) -> impl Iterator<Item = &'static str> {
        SERVERS.into_iter().filter(move |name| self.services[name].0 == destination)
    }

    /// Whether a client may have a destination because nobody knows what proxies have, or because all have all.
    fn is_unknown(&self, control_plane: usize, client: &str, destination: &str) -> bool {
        let mut unknown = self.unknown[control_plane].iter();
        let serves =
            |name: &str| self.services[name].0 == destination || self.seen[control_plane][name].0 == destination;
        self.mode != Mode::On || unknown.any(|name| *name == client || serves(name))
    }

    /// A client is about to be sent a snapshot.
    fn check_update(&mut self, client: &'static str, control_plane: usize, sent: &Sent) {
        let Some(before) = &self.proxies[client].latest else { return };
        let Some(applied) = &self.proxies[client].applied else { return };
        let uris = envoy::presented(&applied.snapshot);
        let admits = |sent: &&Sent| envoy::admits(&sent.snapshot, &uris);
        // With a new certificate, it is the client that changes.
        let is_changed = envoy::presented(&sent.snapshot) != uris;
        let mut found = Vec::new();
        for destination in DESTINATIONS {
            let (had, has) = (envoy::has(&before.snapshot, destination), envoy::has(&sent.snapshot, destination));
            let seen = |name: &&str| self.seen[control_plane][*name].0 == destination;
            let servers = SERVERS.into_iter().filter(seen).filter(|name| !self.is_gone(name));
            let servers: Vec<(&str, &Proxy)> = servers.map(|name| (name, &self.proxies[name])).collect();
            let is_admitted = |proxy: &Proxy| proxy.applied.as_ref().is_some_and(|applied| admits(&applied));
            let is_moved = self.proxies[client].has_moved;
            if had && !has && !is_moved {
                let forgotten = &self.forgotten[control_plane];
                let admitting = servers.iter().filter(|(name, proxy)| is_admitted(proxy) && !forgotten.contains(name));
                found.extend(admitting.map(|(name, _)| format!("{client} loses {destination}, and {name} admits it")));
            }
            let is_old = |sent: &Sent| self.now.duration_since(sent.at) >= LONGEST_WAIT;
            let mut admitting = servers.iter().flat_map(|(_, proxy)| proxy.possible.iter().filter(admits));
            let is_late = admitting.any(is_old);
            let is_starting = self.now.duration_since(self.started[control_plane]) < LONGEST_WAIT;
            if !had
                && has
                && !is_late
                && !is_changed
                && !is_starting
                && !self.is_unknown(control_plane, client, destination)
            {
                let is_pending = |proxy: &Proxy| proxy.possible.iter().any(|sent| admits(&sent));
                // A server that has not acknowledged for long is not waited for.
                let is_waited_for = |proxy: &Proxy| {
                    let known = proxy.possible.first().and_then(|sent| sent.token);
                    proxy.connected.is_some() && !proxy.possible.iter().any(|sent| sent.token != known && is_old(sent))
                };
                let is_early = |proxy: &Proxy| {
                    proxy.applied.is_some() && !is_admitted(proxy) && is_pending(proxy) && is_waited_for(proxy)
                };
                let early = servers.iter().filter(|(_, proxy)| is_early(proxy));
                found.extend(early.map(|(name, _)| format!("{client} gets {destination}, and {name} still denies it")));
            }
        }
        self.violations.extend(found);
    }

    /// Adds violations that last longer than the longest wait.
    fn check(&mut self) {
        if SERVERS.into_iter().all(|server| self.proxies[server].possible.len() <= 1) {
            self.proxies.values_mut().for_each(|proxy| proxy.has_moved = false);
        }
        for client in CLIENTS {
            for destination in DESTINATIONS {
                let pair = (client, destination);
                match self.wrong(client, destination) {
                    None => drop(self.wrong.remove(&pair)),
                    Some(what) => {
                        let since = *self.wrong.entry(pair).or_insert(self.now);
                        if self.now.duration_since(since) > SLACK {
                            self.violations.push(format!("{client} {what} {destination} for too long"));
                        }
                    }
                }
            }
        }
    }

    fn wrong(&self, client: &'static str, destination: &str) -> Option<&'static str> {
        let caller = &self.proxies[client];
        let control_plane = caller.connected?;
        let is_settled = |proxy: &Proxy| proxy.possible.len() == 1 && proxy.connected.is_some();
        if !is_settled(caller) || self.is_unknown(control_plane, client, destination) {
            return None;
        }
        let has = envoy::has(&caller.latest.as_ref()?.snapshot, destination);
        let uris = envoy::presented(&caller.latest.as_ref()?.snapshot);
        let servers: Vec<&Proxy> = self.servers(destination).map(|name| &self.proxies[name]).collect();
        // What another control plane has sent in detail is unknown, until it is acknowledged.
        let is_elsewhere = |server: &&Proxy| server.connected != Some(control_plane) && !is_settled(server);
        let admits = |sent: &Sent| envoy::admits(&sent.snapshot, &uris);
        let is_admitted = servers.iter().any(|server| is_settled(server) && server.possible.iter().all(admits));
        let may_admit = |server: &Proxy| server.connected.is_none() || server.possible.iter().any(admits);
        let may_be_admitted = servers.iter().any(|server| may_admit(server) || is_elsewhere(server));
        match has {
            false if is_admitted => Some("lacks"),
            true if !may_be_admitted && !servers.is_empty() => Some("has"),
            _ => None,
        }
    }
}

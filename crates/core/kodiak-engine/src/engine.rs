//! All meshes, and [`Engine::apply`], the only way to change them.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kodiak_model::{Cancellation, Cidr, ProxyKey, kinds::zone_egress::ZoneEgress};
use kodiak_reachability::Mode;
use kodiak_rules::Shadow;
use kodiak_xds::names::Naming;
use kodiak_xds_stream::Snapshot;

use crate::{
    EngineChange, Identities, Leaf,
    acknowledged::{AcknowledgedState, PermissionsToken},
    cache::Cache,
    in_effect::Moment,
    mesh::Mesh,
};

#[derive(Debug, Clone, Default)]
pub struct EngineSettings {
    /// The zone of this control plane.
    pub zone: Arc<str>,
    /// Whether shadow policies apply.
    pub shadow: Shadow,
    /// Naming of clusters of MeshServices and the like.
    pub naming: Naming,
    /// Of meshes and Dataplanes without the label.
    pub reachability: Mode,
    /// Ranges of virtual addresses, if proxies that lose destinations answer calls to them, and say why.
    pub explained: Option<Arc<[Cidr]>>,
    /// Of a computation for people. Once it is cancelled, the engine stops in the middle of an update and is of no further
    /// use. That of the control plane is never cancelled.
    pub cancellation: Cancellation,
}

#[derive(Default)]
pub struct Engine {
    settings: EngineSettings,
    meshes: BTreeMap<Arc<str>, Mesh>,
    egresses: BTreeMap<Arc<str>, Arc<ZoneEgress>>,
    cache: Cache,
    /// By mesh and name of the proxy.
    acknowledged: BTreeMap<Arc<str>, BTreeMap<Arc<str>, AcknowledgedState>>,
    /// Of the store.
    stored: u64,
    revision: u64,
}

/// Inputs that all updates of a batch share.
pub(crate) struct UpdateContext<'a> {
    pub(crate) settings: &'a EngineSettings,
    pub(crate) egresses: &'a BTreeMap<Arc<str>, Arc<ZoneEgress>>,
    pub(crate) cache: &'a mut Cache,
    acknowledged: &'a BTreeMap<Arc<str>, BTreeMap<Arc<str>, AcknowledgedState>>,
    stored: u64,
    pub(crate) identities: &'a dyn Identities,
    pub(crate) now: Timestamp,
    pub(crate) revision: u64,
}

impl UpdateContext<'_> {
    pub(crate) fn moment(&self) -> Moment {
        Moment { revision: self.stored, now: self.now }
    }

    pub(crate) fn acknowledged(&self, mesh: &str, proxy: &str) -> AcknowledgedState {
        self.acknowledged.get(mesh).and_then(|mesh| mesh.get(proxy)).copied().unwrap_or_default()
    }
}

/// Result of a batch of changes.
#[derive(Debug, Default)]
pub struct Outcome {
    pub proxies: Vec<Updated>,
    pub stats: Stats,
}

/// A proxy that a batch changed.
#[derive(Debug)]
pub struct Updated {
    pub key: ProxyKey,
    /// Its configuration. `None` without a Mesh or a Dataplane.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Why resources failed validation. The snapshot has last good versions of them, or does not have them.
    pub faults: Vec<String>,
    /// Token of the mTLS rollout step that the proxy acknowledges with its snapshot.
    pub rollout: Arc<str>,
    /// Permissions and certificates that the proxy acknowledges with its snapshot. `None` if nobody waits for it.
    pub permissions: Option<PermissionsToken>,
    pub issued: Option<Issued>,
}

impl Updated {
    /// The change after the proxy has acknowledged its snapshot, and its insight says so.
    pub fn acknowledgement(&self) -> Option<EngineChange> {
        let state = AcknowledgedState { online: true, left: None, has_run: true, token: Some(self.permissions?) };
        Some(EngineChange::Acknowledged { key: self.key.clone(), state: Some(state) })
    }

    /// Whether the snapshot is of this revision. Otherwise only the faults of the proxy changed.
    fn is_published(&self, revision: u64) -> bool {
        self.snapshot.as_ref().is_some_and(|snapshot| snapshot.revision == revision)
    }
}

/// Certificate issued to a proxy.
#[derive(Debug, Clone)]
pub struct Issued {
    /// The backend, or the KRI of the MeshIdentity.
    pub issuer: Arc<str>,
    /// `None` if a SPIRE agent issued it.
    pub leaf: Option<Arc<Leaf>>,
    /// Why the next certificate could not be issued; this one stays in use.
    pub failure: Option<String>,
    /// CA backends and trust domains that it trusts.
    pub trust: Vec<Arc<str>>,
}

/// Cost of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Number of resources built and encoded.
    pub encoded: u64,
    /// Number of proxies whose published configuration changed.
    pub woken: u64,
}

impl Engine {
    pub fn new(settings: EngineSettings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// An empty engine whose revisions follow those of this one, which may have panicked. It knows what proxies have
    /// acknowledged.
    pub fn restarted(&self) -> Self {
        let (settings, acknowledged) = (self.settings.clone(), self.acknowledged.clone());
        Self { settings, acknowledged, stored: self.stored, revision: self.revision, ..Self::default() }
    }

    /// Revision of the store with the changes that are applied next.
    pub fn set_stored(&mut self, revision: u64) {
        self.stored = self.stored.max(revision);
    }

    /// Applies all changes, then updates the affected meshes once.
    pub fn apply(
        &mut self,
        changes: impl IntoIterator<Item = EngineChange>,
        identities: &dyn Identities,
        now: Timestamp,
    ) -> Outcome {
        let mut touched = BTreeSet::new();
        for change in changes {
            self.apply_change(change, &mut touched);
        }
        self.revision += 1;
        let before = self.cache.encoded();
        let mut outcome = Outcome::default();
        for name in touched {
            let Some(mesh) = self.meshes.get_mut(&name) else { continue };
            let mut shared = UpdateContext {
                settings: &self.settings,
                egresses: &self.egresses,
                cache: &mut self.cache,
                acknowledged: &self.acknowledged,
                stored: self.stored,
                identities,
                now,
                revision: self.revision,
            };
            for proxy in mesh.update(&mut shared) {
                outcome.proxies.extend(mesh.updated(&proxy));
            }
            if mesh.is_empty() {
                self.meshes.remove(&name);
            }
        }
        self.cache.sweep();
        outcome.stats.encoded = self.cache.encoded() - before;
        outcome.stats.woken =
            outcome.proxies.iter().filter(|updated| updated.is_published(self.revision)).count() as u64;
        outcome
    }

    /// The configuration of a connected proxy.
    pub fn snapshot(&self, key: &ProxyKey) -> Option<Arc<Snapshot>> {
        self.meshes.get(&key.mesh)?.proxies.get(&key.name)?.snapshot.clone()
    }

    /// The current state of a connected proxy.
    pub fn updated(&self, key: &ProxyKey) -> Option<Updated> {
        self.meshes.get(&key.mesh)?.updated(&key.name)
    }

    /// Whether an insight tells anything new.
    pub fn is_news(&self, key: &ProxyKey, state: Option<AcknowledgedState>) -> bool {
        let known = self.acknowledged.get(&key.mesh).and_then(|mesh| mesh.get(&key.name));
        known.copied() != state
    }

    /// Number of resources encoded so far.
    pub fn encoded(&self) -> u64 {
        self.cache.encoded()
    }

    fn apply_change(&mut self, change: EngineChange, touched: &mut BTreeSet<Arc<str>>) {
        match change {
            EngineChange::Mesh { name, mesh, reachability } => self.mesh(&name, touched).set_spec(mesh, reachability),
            EngineChange::UnreadableRollout { mesh } => self.mesh(&mesh, touched).rollout_is_unreadable(),
            EngineChange::Rollout { mesh, rollout } => self.mesh(&mesh, touched).set_rollout(rollout),
            EngineChange::Vips { mesh, vips } => self.mesh(&mesh, touched).set_vips(vips.unwrap_or_default()),
            EngineChange::Secret { mesh } => self.mesh(&mesh, touched).secret_changed(),
            EngineChange::Dataplane { key, dataplane } => {
                self.mesh(&key.mesh, touched).set_dataplane(&key.name, dataplane.as_ref());
            }
            EngineChange::Destination { mesh, kind, name, destination } => {
                self.mesh(&mesh, touched).set_object(&(kind, name), destination.as_ref());
            }
            EngineChange::OtlpBackend { mesh, name, backend } => {
                self.mesh(&mesh, touched).set_otlp_backend(&name, backend);
            }
            EngineChange::ZoneEgress { name, egress } => {
                match egress {
                    Some(egress) => drop(self.egresses.insert(name, egress)),
                    None => drop(self.egresses.remove(&name)),
                }
                for (name, mesh) in &mut self.meshes {
                    mesh.settings_changed();
                    touched.insert(name.clone());
                }
            }
            EngineChange::Policy { mesh, key, policy } => self.mesh(&mesh, touched).set_policy(&key, policy.as_ref()),
            EngineChange::Connected { key, metadata } => self.mesh(&key.mesh, touched).connect(&key.name, metadata),
            EngineChange::Disconnected { key } => self.mesh(&key.mesh, touched).disconnect(&key.name),
            EngineChange::Acknowledged { key, state } => {
                if self.is_news(&key, state) {
                    self.set_acknowledged(&key, state);
                    self.mesh(&key.mesh, touched).acknowledged(&key.name);
                }
            }
            EngineChange::Tick => {
                for (name, mesh) in &mut self.meshes {
                    mesh.tick();
                    touched.insert(name.clone());
                }
            }
        }
    }

    fn set_acknowledged(&mut self, key: &ProxyKey, state: Option<AcknowledgedState>) {
        let of_mesh = self.acknowledged.entry(key.mesh.clone()).or_default();
        match state {
            Some(state) => drop(of_mesh.insert(key.name.clone(), state)),
            None => drop(of_mesh.remove(&key.name)),
        }
        if of_mesh.is_empty() {
            self.acknowledged.remove(&key.mesh);
        }
    }

    fn mesh(&mut self, name: &Arc<str>, touched: &mut BTreeSet<Arc<str>>) -> &mut Mesh {
        touched.insert(name.clone());
        self.meshes.entry(name.clone()).or_insert_with(|| Mesh::new(name.clone()))
    }
}

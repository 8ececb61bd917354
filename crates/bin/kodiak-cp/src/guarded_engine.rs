//! Engine that ignores resources which cause a panic. See `docs/adr/012-a-faulty-resource-is-quarantined.md`.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kodiak_engine::{
    AcknowledgedState, ClientPair, Engine, EngineChange, EngineSettings, Identities, Leaf, LeafRequest, Outcome,
};
use kodiak_model::{ProxyKey, ResourceKey, kinds::mesh_external_service::Source};
use kodiak_reconcilers::quarantine::{Built, Entry, Panicked, Quarantine, build, caught};
use kodiak_xds::input::AdminCertificate;

use crate::faults::Faults;

const TASK: &str = "engine";

/// EngineChange, and the stored resource that causes it. Metadata of a proxy is stored in its DataplaneInsight.
#[derive(Clone)]
pub(crate) struct Input {
    pub(crate) key: ResourceKey,
    pub(crate) revision: u64,
    pub(crate) change: EngineChange,
}

pub(crate) struct GuardedEngine {
    engine: Engine,
    /// Last change of each resource, for rebuilding the engine after a panic.
    inputs: BTreeMap<ResourceKey, Input>,
    quarantine: Quarantine,
    faults: Faults,
}

impl GuardedEngine {
    pub(crate) fn new(settings: EngineSettings, quarantine: Quarantine, faults: Faults) -> Self {
        Self { engine: Engine::new(settings), inputs: BTreeMap::new(), quarantine, faults }
    }

    /// Applies all changes; `others` have no resource.
    pub(crate) fn apply(
        &mut self,
        inputs: Vec<Input>,
        others: Vec<EngineChange>,
        identities: &dyn Identities,
        now: Timestamp,
    ) -> Outcome {
        let (mut changes, mut newest) = (others, BTreeSet::new());
        self.engine.set_stored(inputs.iter().map(|input| input.revision).max().unwrap_or_default());
        for input in inputs {
            let is_removal = input.change.is_removal();
            // A proxy that reconnects is tried again: its metadata may differ.
            let connects = matches!(input.change, EngineChange::Connected { .. });
            if !is_removal && !connects && self.quarantine.holds(TASK, &input.key, input.revision) {
                continue;
            }
            self.quarantine.release(TASK, &input.key);
            changes.push(input.change.clone());
            newest.insert(input.key.clone());
            if is_removal {
                self.inputs.remove(&input.key);
            } else {
                self.inputs.insert(input.key.clone(), input);
            }
        }
        let identities = GuardedIdentities(identities);
        let applied = caught(|| {
            self.faults.at_engine(&changes);
            self.engine.apply(changes, &identities, now)
        });
        applied.unwrap_or_else(|panicked| self.rebuild(&newest, &panicked, &identities, now))
    }

    /// Whether an insight tells anything new.
    pub(crate) fn is_news(&self, key: &ProxyKey, state: Option<AcknowledgedState>) -> bool {
        self.engine.is_news(key, state)
    }

    /// Rebuilds the engine. Resources that were applied before come first, so that a new one is found to be faulty.
    fn rebuild(
        &mut self,
        newest: &BTreeSet<ResourceKey>,
        panicked: &Panicked,
        identities: &dyn Identities,
        now: Timestamp,
    ) -> Outcome {
        tracing::error!(%panicked, "engine panicked, rebuilding it without the resource that caused it");
        let (new, old): (Vec<_>, Vec<_>) = self.inputs.values().partition(|input| newest.contains(&input.key));
        let inputs: Vec<&Input> = old.into_iter().chain(new).collect();
        let rebuild = |inputs: &[&Input]| {
            build(inputs, |inputs| {
                let changes: Vec<EngineChange> = inputs.iter().map(|input| input.change.clone()).collect();
                self.faults.at_engine(&changes);
                let mut engine = self.engine.restarted();
                let outcome = engine.apply(changes, identities, now);
                (engine, outcome)
            })
        };
        let Built { value: (mut engine, mut outcome), faulty } = rebuild(&inputs);
        let mut denying: Vec<Input> = faulty.iter().filter_map(|(position, _)| denied(inputs[*position])).collect();
        if !denying.is_empty() {
            let is_faulty = |position: usize| faulty.iter().any(|(faulty, _)| *faulty == position);
            let kept = inputs.iter().enumerate().filter(|(position, _)| !is_faulty(*position));
            let kept: Vec<&Input> = kept.map(|(_, input)| *input).chain(&denying).collect();
            let first_denying = kept.len() - denying.len();
            let again = rebuild(&kept);
            (engine, outcome) = again.value;
            let dropped: Vec<usize> = again.faulty.iter().map(|(position, _)| *position).collect();
            let mut positions = first_denying..;
            denying.retain(|_| positions.next().is_some_and(|position| !dropped.contains(&position)));
        }
        let faulty: Vec<_> = faulty
            .into_iter()
            .map(|(position, panicked)| {
                let Input { key, revision, .. } = inputs[position];
                (key.clone(), Entry { revision: *revision, panicked })
            })
            .collect();
        if faulty.is_empty() {
            tracing::error!("engine rebuilt from all resources: the panic is a bug, please report it");
        }
        for (key, entry) in faulty {
            self.inputs.remove(&key);
            self.quarantine.add(TASK, &key, entry);
        }
        self.inputs.extend(denying.into_iter().map(|input| (input.key.clone(), input)));
        self.engine = engine;
        outcome
    }
}

/// An ignored permission may have been a Deny beside a broad Allow, so it is replaced by one that denies all requests.
fn denied(input: &Input) -> Option<Input> {
    let EngineChange::Policy { mesh, key, policy: Some(policy) } = &input.change else { return None };
    let policy = Some(kodiak_world::deny_all(policy)?);
    let change = EngineChange::Policy { mesh: mesh.clone(), key: key.clone(), policy };
    Some(Input { key: input.key.clone(), revision: input.revision, change })
}

/// Certificate issuer that turns a panic on a stored key or certificate into a fault of the proxy.
struct GuardedIdentities<'a>(&'a dyn Identities);

impl GuardedIdentities<'_> {
    fn guard<T>(&self, ask: impl FnOnce(&dyn Identities) -> Result<T, String>) -> Result<T, String> {
        caught(|| ask(self.0)).unwrap_or_else(|panicked| Err(panicked.to_string()))
    }
}

impl Identities for GuardedIdentities<'_> {
    fn leaf(&self, request: &LeafRequest, now: Timestamp) -> Result<Arc<Leaf>, String> {
        self.guard(|identities| identities.leaf(request, now))
    }

    fn roots(&self, mesh: &str, backend: &kodiak_rollout::AppliedBackend) -> Result<Arc<str>, String> {
        self.guard(|identities| identities.roots(mesh, backend))
    }

    fn source(&self, mesh: &str, source: &Source) -> Result<Arc<str>, String> {
        self.guard(|identities| identities.source(mesh, source))
    }

    fn client_pair(&self, service: &kodiak_model::Kri, pair: ClientPair) -> Result<ClientPair, String> {
        self.guard(|identities| identities.client_pair(service, pair))
    }

    fn admin(&self, proxy: &ProxyKey) -> Option<Arc<AdminCertificate>> {
        let found = caught(|| self.0.admin(proxy));
        found
            .inspect_err(
                |panicked| tracing::error!(%proxy, %panicked, "failed to issue the certificate of the admin listener"),
            )
            .ok()?
    }
}

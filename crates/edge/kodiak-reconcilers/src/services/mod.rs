//! Keeps the MeshServices that follow from Dataplanes.

mod proxies;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kodiak_catalog::spec_of;
use kodiak_model::{ResourceKey, kinds::mesh::Mesh, language};
use kodiak_store::{Change, Expect, Record, Snapshot, Store, StoreError, Transaction, Watch, Write};
use kodiak_views::generated_services::{Action, Conflict, Existing, Plan, Situation, plan};
use tokio_util::sync::CancellationToken;

use crate::leader::{PAUSE, leads};
use proxies::Proxies;

/// What is known of a mesh beside its resources.
#[derive(Default)]
struct Known {
    /// When the first grace period of the mesh is over.
    deadline: Option<Timestamp>,
    /// Those that were told already.
    conflicts: Vec<Conflict>,
}

struct Generator {
    store: Store,
    zone: String,
    grace: SignedDuration,
    proxies: Proxies,
    known: BTreeMap<Arc<str>, Known>,
    /// The meshes to look at.
    unfinished: BTreeSet<Arc<str>>,
}

/// Runs until `drain`, or until the store is closed. A MeshService stays for `grace` after its last Dataplane.
pub async fn run(store: Store, zone: String, grace: Duration, drain: CancellationToken) -> Result<(), StoreError> {
    let mut watch = store.watch(0)?;
    let mut leadership = store.leadership();
    let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
    let mut generator = Generator {
        store,
        zone,
        grace,
        proxies: Proxies::default(),
        known: BTreeMap::new(),
        unfinished: BTreeSet::new(),
    };
    let mut failed = false;
    loop {
        tokio::select! {
            biased;
            () = drain.cancelled() => return Ok(()),
            change = watch.next() => generator.gather(change?, &mut watch)?,
            _ = leadership.changed() => (),
            () = generator.deadline() => (),
            () = tokio::time::sleep(PAUSE), if failed => (),
        }
        generator.expire();
        failed = leads(&generator.store) && generator.reconcile().await;
    }
}

impl Generator {
    fn gather(&mut self, first: Change, watch: &mut Watch) -> Result<(), StoreError> {
        let mut next = Some(first);
        while let Some(change) = next {
            self.unfinished.extend(self.proxies.apply(&change));
            next = watch.try_next()?;
        }
        Ok(())
    }

    /// Waits until the first grace period is over.
    async fn deadline(&self) {
        match self.known.values().filter_map(|known| known.deadline).min() {
            Some(first) => {
                let left = first.duration_since(Timestamp::now());
                tokio::time::sleep(Duration::try_from(left).unwrap_or(Duration::ZERO)).await;
            }
            None => std::future::pending().await,
        }
    }

    /// Meshes in which a grace period is over are to be looked at.
    fn expire(&mut self) {
        let now = Timestamp::now();
        for (mesh, known) in &mut self.known {
            if known.deadline.take_if(|deadline| *deadline <= now).is_some() {
                self.unfinished.insert(mesh.clone());
            }
        }
    }

    /// Does what is to be done. `true`: some of it failed and is to be tried again.
    async fn reconcile(&mut self) -> bool {
        for mesh in std::mem::take(&mut self.unfinished) {
            let snapshot = self.store.snapshot();
            let Some(plan) = self.plan(&snapshot, &mesh) else {
                self.known.remove(&mesh);
                continue;
            };
            let known = self.known.entry(mesh.clone()).or_default();
            known.deadline = plan.look_again;
            if known.conflicts != plan.conflicts {
                report(&mesh, &known.conflicts, &plan.conflicts);
                known.conflicts = plan.conflicts;
            }
            if plan.actions.is_empty() {
                continue;
            }
            match self.store.commit(transaction(&snapshot, &mesh, &plan.actions)).await {
                // What somebody else wrote meanwhile comes through the watch.
                Ok(_) | Err(StoreError::Conflict(_) | StoreError::Invalid { .. }) => (),
                Err(error) => {
                    tracing::warn!(%error, mesh = &*mesh, "Cannot store generated MeshServices; will try again.");
                    self.unfinished.insert(mesh);
                }
            }
        }
        !self.unfinished.is_empty()
    }

    /// `None`: there is no such mesh any more, or it cannot be read.
    fn plan(&self, snapshot: &Snapshot, mesh: &str) -> Option<Plan> {
        let mode = snapshot.get(&ResourceKey::global("Mesh", mesh)).and_then(spec_of::<Mesh>)?.mesh_services_mode();
        let situation = Situation { mesh, zone: &self.zone, mode, now: Timestamp::now(), grace: self.grace };
        let existing: Vec<_> = snapshot.list_in("MeshService", mesh).map(existing).collect();
        Some(plan(&situation, &self.proxies.of(mesh), &existing))
    }
}

/// What cannot be read has nothing that could be kept.
fn existing(record: &Record) -> Existing<'_> {
    Existing { name: &record.key.name, labels: &record.labels, spec: spec_of(record).unwrap_or_default() }
}

fn transaction(snapshot: &Snapshot, mesh: &str, actions: &[Action]) -> Transaction {
    let write = |action: &Action| {
        let (Action::Create { name, .. } | Action::Update { name, .. } | Action::Delete { name }) = action;
        let key = ResourceKey::in_mesh("MeshService", mesh, name);
        let expect = snapshot.get(&key).map_or(Expect::Absent, |old| Expect::Version(old.version));
        match action {
            Action::Create { labels, spec, .. } | Action::Update { labels, spec, .. } => Write::Put {
                key,
                spec: language::to_json(spec).into(),
                labels: labels.clone(),
                owner: Some(ResourceKey::global("Mesh", mesh)),
                expect,
            },
            Action::Delete { .. } => Write::Delete { key, expect },
        }
    };
    Transaction(actions.iter().map(write).collect())
}

fn report(mesh: &str, old: &[Conflict], new: &[Conflict]) {
    for Conflict { service, dataplanes } in new.iter().filter(|conflict| !old.contains(conflict)) {
        let (count, first) = (dataplanes.len(), dataplanes.first().map_or("", String::as_str));
        tracing::warn!(
            mesh,
            service,
            count,
            first,
            "The ports of some Dataplanes are not those of their MeshService; give all of a service the same ports."
        );
    }
}

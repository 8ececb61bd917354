//! Commits the writes of the service reconciler.

use kodiak_catalog::owner_of;
use kodiak_model::{
    Labels, ResourceKey, Word as _,
    kinds::{
        mesh_service,
        workload::{self, Workload},
    },
    language,
};
use kodiak_services::{
    hostnames::ServiceKey,
    service_addresses::Positions,
    service_status::{
        self as views, Conflict, ServiceReconciler, Status, TagsWithoutAddress, Wanted, WantedVips, WantedWorkload,
        WorkloadKey, WorkloadWrite,
    },
};
use kodiak_store::{Expect, Leader, StoreError, Transaction, Write};
use kodiak_world::document::{self, VIPS};

use super::Services;
use crate::documents;

/// Writes per transaction.
const BATCH: usize = 100;

impl Services {
    /// Commits until no write is pending: a created service next needs an address and a hostname. `true` when some
    /// writes failed and must be retried.
    pub(super) async fn reconcile(&mut self) -> Result<bool, StoreError> {
        while let Some(leader) = self.store.leader().filter(|_| !self.drain.is_cancelled()) {
            let due = self.due()?;
            due.conflicts.iter().for_each(report_conflict);
            if let Some(first) = due.without_address.first() {
                report_without_address(first, due.without_address.len());
            }
            due.tags_without_address.iter().for_each(report_tags_without_address);
            if !due.has_writes() {
                return Ok(false);
            }
            let mut failed = false;
            for wanted in &due.vips {
                failed |= !self.commit_vips(&leader, wanted).await;
            }
            for batch in due.workloads.chunks(BATCH) {
                failed |= !self.commit(&leader, batch, &mut None).await;
            }
            let mut positions = due.positions;
            for batch in due.writes.chunks(BATCH) {
                failed |= !self.commit(&leader, batch, &mut positions).await;
            }
            // Own writes are applied before the next decision.
            self.catch_up()?;
            if failed {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `false` when the write must be retried.
    async fn commit_vips(&mut self, leader: &Leader, WantedVips { mesh, vips, version }: &WantedVips) -> bool {
        match documents::write(leader, mesh, VIPS, *version, vips).await {
            // On a conflict the newer record arrives through the watch.
            Ok(_) => true,
            Err(error) => {
                tracing::warn!(%error, mesh = &**mesh, "failed to persist virtual addresses, retrying");
                self.state.reconciler.vips_again([mesh.clone()]);
                false
            }
        }
    }

    /// `false` when writes must be retried.
    async fn commit<W: Pending>(&mut self, leader: &Leader, batch: &[W], positions: &mut Option<Positions>) -> bool {
        match self.try_commit(leader, batch, positions).await {
            Ok(()) => true,
            Err(error) if is_refused(&error) && !is_lost(&error) && batch.len() > 1 => {
                // One invalid write fails the transaction, so each is committed alone.
                let mut done = true;
                for wanted in batch {
                    let one = std::slice::from_ref(wanted);
                    let committed = self.try_commit(leader, one, positions).await;
                    done &= committed.map_or_else(|error| self.note(&error, one), |()| true);
                }
                done
            }
            Err(error) => self.note(&error, batch),
        }
    }

    /// Stores the positions in the same transaction: it fails if somebody else stored addresses since they were read.
    async fn try_commit<W: Pending>(
        &mut self,
        leader: &Leader,
        batch: &[W],
        positions: &mut Option<Positions>,
    ) -> Result<(), StoreError> {
        let claim = positions.as_ref().map(|positions| Write::Put {
            key: document::service_addresses(),
            spec: language::to_json(positions).into(),
            labels: Labels::new(),
            owner: None,
            expect: expect(self.state.positions),
        });
        let writes = claim.into_iter().chain(batch.iter().map(Pending::write)).collect();
        let written = leader.commit(Transaction(writes)).await?;
        if let Some(positions) = positions {
            positions.writes += 1;
            self.state.positions = written.records.first().and_then(Option::as_ref).map(|record| record.version);
        }
        Ok(())
    }

    /// `true` when the error needs no retry.
    fn note<W: Pending>(&mut self, error: &StoreError, batch: &[W]) -> bool {
        match error {
            // Another control plane allocated addresses, or imported some; its positions arrive through the watch.
            error if is_lost(error) => {
                self.state.reconciler.lost_positions();
                for wanted in batch {
                    wanted.again(&mut self.state.reconciler);
                }
                false
            }
            // Conflict: the newer record arrives through the watch.
            StoreError::Conflict(_) | StoreError::NotFound(_) | StoreError::OwnerMissing { .. } => true,
            StoreError::Invalid { .. } => {
                tracing::warn!(%error, "store rejected a service update, skipping it");
                true
            }
            error => {
                tracing::warn!(%error, "failed to persist service updates, retrying");
                for wanted in batch {
                    wanted.again(&mut self.state.reconciler);
                }
                false
            }
        }
    }
}

/// A write that the reconciler wants.
trait Pending {
    fn write(&self) -> Write;

    /// Marks it for a retry.
    fn again(&self, reconciler: &mut ServiceReconciler);
}

impl Pending for Wanted {
    fn write(&self) -> Write {
        write(self)
    }

    fn again(&self, reconciler: &mut ServiceReconciler) {
        reconciler.again([self.key.clone()]);
    }
}

impl Pending for WantedWorkload {
    fn write(&self) -> Write {
        let WorkloadKey { mesh, name } = &self.key;
        let key = ResourceKey::in_mesh(workload::KIND.name, mesh, name);
        match &self.write {
            WorkloadWrite::Put { labels, version } => Write::Put {
                owner: owner_of(&workload::KIND, mesh, name),
                key,
                spec: language::to_json(&Workload::default()).into(),
                labels: labels.clone(),
                expect: expect(*version),
            },
            WorkloadWrite::Status { status, version } => {
                Write::PutStatus { key, status: language::to_json(status).into(), expect: expect(*version) }
            }
            WorkloadWrite::Delete { version } => Write::Delete { key, expect: Expect::Version(*version) },
        }
    }

    fn again(&self, reconciler: &mut ServiceReconciler) {
        reconciler.workloads_again([self.key.clone()]);
    }
}

/// Whether the error is caused by the write, not by the state of the store.
fn is_refused(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Conflict(_)
            | StoreError::NotFound(_)
            | StoreError::OwnerMissing { .. }
            | StoreError::Invalid { .. }
    )
}

/// Whether somebody else stored addresses at the same time.
fn is_lost(error: &StoreError) -> bool {
    matches!(error, StoreError::Conflict(key) if *key == document::service_addresses())
}

fn expect(version: Option<u64>) -> Expect {
    version.map_or(Expect::Absent, Expect::Version)
}

pub(super) fn write(Wanted { key, write }: &Wanted) -> Write {
    let ServiceKey { kind, mesh, name } = key;
    let key = ResourceKey::in_mesh(kind.text(), mesh, name);
    match write {
        views::Write::Put { labels, spec, version } => Write::Put {
            owner: owner_of(&mesh_service::KIND, mesh, name),
            key,
            spec: language::to_json(spec).into(),
            labels: labels.clone(),
            expect: expect(*version),
        },
        views::Write::Status { status, version } => {
            let status = match status {
                Status::Service(status) => language::to_json(status),
                Status::External(status) => language::to_json(status),
                Status::MultiZone(status) => language::to_json(status),
            };
            Write::PutStatus { key, status: status.into(), expect: expect(*version) }
        }
        views::Write::Delete { version } => Write::Delete { key, expect: Expect::Version(*version) },
    }
}

fn report_conflict(Conflict { service, dataplanes }: &Conflict) {
    let (count, first) = (dataplanes.len(), dataplanes.first().map_or("", |name| name));
    tracing::warn!(
        mesh = &*service.mesh,
        service = &*service.name,
        count,
        first,
        "Dataplanes and their MeshService have different ports: give all Dataplanes of a service the same ports"
    );
}

fn report_without_address(first: &ServiceKey, count: usize) {
    let ServiceKey { kind, mesh, name } = first;
    tracing::error!(
        kind = kind.text(),
        mesh = &**mesh,
        first = &**name,
        count,
        "virtual address range is exhausted: configure a larger range for this kind under `ipam`"
    );
}

fn report_tags_without_address(TagsWithoutAddress { mesh, services }: &TagsWithoutAddress) {
    let (count, first) = (services.len(), services.first().map_or("", |name| name));
    tracing::error!(
        mesh = &**mesh,
        first,
        count,
        "virtual address range is exhausted, new services of this mesh get none"
    );
}
